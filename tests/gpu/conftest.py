"""A GPU for the tests of this folder, which are skipped without one.

``--played`` uses a processor that simulates a device, with few samples, to check the tests
themselves. ``--brief`` uses few samples on a GPU, for tools that slow it down.
`make test-gpu` runs them on a GPU.
"""

from __future__ import annotations

import pytest

from pinion.batch import InputError
from pinion.compute.cuda import open_gpu
from pinion.compute.cuda.device import CudaDevice
from tests.support.cuda_device import HostDevice


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--played", action="store_true", help="a processor plays the GPU")
    parser.addoption("--brief", action="store_true", help="few samples")


def _asked(request: pytest.FixtureRequest, name: str) -> bool:
    # Pytest knows a folder's options only if it is started there.
    return bool(request.config.getoption(name, default=False))


@pytest.fixture(scope="session")
def few(request: pytest.FixtureRequest) -> bool:
    """Whether to use few samples."""
    return any(_asked(request, name) for name in ("--played", "--brief"))


@pytest.fixture(scope="session")
def gpu(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> CudaDevice:
    if _asked(request, "--played"):
        return HostDevice(tmp_path_factory.mktemp("device"))
    try:
        return open_gpu(0)
    except InputError as error:
        pytest.skip(str(error))
