"""A GPU for the tests of this folder, which skip where the machine has none.

``--played`` takes a processor that plays a device instead, with few samples: whether the tests
themselves are right. ``--brief`` takes few samples on a GPU, for tools that slow it down.
`make test-gpu` runs them for real; they have not met a GPU yet.
"""

from __future__ import annotations

import pytest

from pinion.batch import InputError
from pinion.compute.cuda import open_gpu
from pinion.compute.cuda.device import Device
from tests.support.cuda_device import HostDevice


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--played", action="store_true", help="a processor plays the GPU")
    parser.addoption("--brief", action="store_true", help="few samples")


def _asked(request: pytest.FixtureRequest, name: str) -> bool:
    # Pytest knows the options of a folder only when it is started there.
    return bool(request.config.getoption(name, default=False))


@pytest.fixture(scope="session")
def few(request: pytest.FixtureRequest) -> bool:
    """Whether few samples have to do."""
    return any(_asked(request, name) for name in ("--played", "--brief"))


@pytest.fixture(scope="session")
def gpu(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Device:
    if _asked(request, "--played"):
        return HostDevice(tmp_path_factory.mktemp("device"))
    try:
        return open_gpu(0)
    except InputError as error:
        pytest.skip(str(error))
