"""Programs for processors and a GPU's threads of a robot with massless links."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pinion.compute import cpu, cuda
from pinion.functions import named_function, sample
from tests.dynamics.models import relative_error, serial
from tests.native.conftest import needs_compiler
from tests.support.cuda_threads import on_host, run_threads

pytestmark = needs_compiler


@pytest.mark.parametrize("name", ["aba", pytest.param("fd_derivatives", marks=pytest.mark.slow)])
def test_programs_agree_with_the_float_model(name: str, tmp_path: Path, cache_folder: Path) -> None:
    model, row = serial(), named_function(name)
    sent = sample(model, row, 60, distribution="reference", seed=6)
    inputs = {key: value.astype(np.float64) for key, value in sent.items()}
    want = row.evaluate(model, inputs)
    kernel = cpu.compile(model, name, dtype="float64", cache=cache_folder)
    results = kernel(**inputs)
    threads = run_threads(
        cuda.source(model, row, dtype="float64"),
        on_host(cuda.source(model, row, dtype="float64"), tmp_path),
        inputs=[block.resolved(model) for block in row.inputs],
        results=[block.resolved(model) for block in row.results],
        arrays=inputs,
        count=60,
        seed=1,
    )
    for key, value in want.items():
        assert relative_error(results[key], value) < 1e-10, key
        assert relative_error(threads[key], value) < 1e-10, key
