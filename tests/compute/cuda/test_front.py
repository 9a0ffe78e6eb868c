"""The device "cuda" without a GPU: one sentence, and sources all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion.api import backend
from pinion.batch import InputError
from pinion.compute import cuda
from pinion.native.errors import ComputeError


def _has_gpu() -> bool:
    try:
        from cuda.core import Device

        return bool(Device.get_all_devices())
    except Exception:  # whatever a missing driver raises
        return False


@pytest.mark.skipif(_has_gpu(), reason="this machine has a GPU")
def test_without_a_gpu_a_sentence_says_what_to_take(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r'use device="cpu"') as caught:
        backend("iiwa14", "rnea", device="cuda", cache=tmp_path)
    assert len(str(caught.value).splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("device", "options", "message"),
    [
        ("cuda:first", {}, "'cuda:first' does not name a GPU by number"),
        ("cuda", {"layout": "blocks"}, "do not support the layout 'blocks': choose aos or soa"),
        ("cuda", {"dtype": np.float16}, "Unknown dtype 'float16': choose one of float32, float64"),
        (
            "cuda",
            {"threads": 2},
            "no option 'threads'; its own options are dtype, layout, check_rotations, cache",
        ),
    ],
)
def test_wrong_options(device: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises((InputError, ComputeError, ValueError), match=message):
        backend("iiwa14", "rnea", device=device, **options)


def test_sources_need_no_gpu() -> None:
    source = cuda.source("iiwa14", "rnea", layout="blocks", comments=True)
    (kernel,) = source.kernels
    assert "rnea of iiwa14, float32, blocks" in kernel.text.splitlines()[0]
    assert ".py:" in kernel.text
    wide = cuda.source("iiwa14", "rnea", dtype=np.dtype("float64"))  # as in NumPy
    assert wide == cuda.source("iiwa14", "rnea", dtype="float64") != cuda.source("iiwa14", "rnea")
