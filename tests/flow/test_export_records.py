"""``records.h``, compiled as C and as C++, against the driver's layout, bit for bit."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pinion.driver.records import pack, request_dtype, result_dtype, unpack
from pinion.flow.export.records import records_header
from pinion.link import Array, Manifest
from tests.support.builds import build

SEED = 7
COUNT = 5

# Reads whole request arrays and result records, writes request records and whole result arrays.
PROGRAM = """
#include <stdio.h>
#include <string.h>
#include "records.h"
#include "records.h"

int main(void)
{
  static float whole[4096];
  core_request request;
  core_result result;
  if (CORE_BUILD_HASH != UINT64_C(0x@HASH@)) return 2;
  for (int n = 0; n < @COUNT@; n++) {
    memset(&request, 0xff, sizeof request);
@GATHER@
    if (fwrite(&request, CORE_REQUEST_BYTES, 1, stdout) != 1) return 3;
  }
  for (int n = 0; n < @COUNT@; n++) {
    if (fread(&result, CORE_RESULT_BYTES, 1, stdin) != 1) return 4;
@SCATTER@
  }
  return 0;
}
"""


def sizes(array: Array) -> int:
    return int(np.prod(array.shape, dtype=int))


def program(manifest: Manifest) -> str:
    gather = "".join(
        f"    if (fread(whole, 4, {sizes(a)}, stdin) != {sizes(a)}) return 5;\n"
        f"    core_gather_{a.name}(whole, &request);\n"
        for a in manifest.inputs
    )
    scatter = "".join(
        f"    memset(whole, 0xff, sizeof whole);\n    core_scatter_{a.name}(&result, whole);\n"
        f"    if (fwrite(whole, 4, {sizes(a)}, stdout) != {sizes(a)}) return 6;\n"
        for a in manifest.outputs
    )
    text = PROGRAM.replace("@GATHER@", gather).replace("@SCATTER@", scatter)
    return text.replace("@COUNT@", str(COUNT)).replace("@HASH@", f"{manifest.hash:016x}")


def compiled(manifest: Manifest, folder: Path, compiler: str) -> Path:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    (folder / "records.h").write_text(records_header("core", manifest))
    source = folder / ("main.cpp" if compiler == "g++" else "main.c")
    source.write_text(program(manifest))
    standard = "-std=c++11" if compiler == "g++" else "-std=c11"
    flags = ["-Wall", "-Wextra", "-Werror", "-pedantic", standard]
    process = subprocess.run(
        [compiler, *flags, "-o", folder / "main", source],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return folder / "main"


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """Half a symmetric matrix in the request; full and constant parts in the result."""
    folder = tmp_path_factory.mktemp("records") / "build"
    return build("two_link", "fd_derivatives_from_minv", folder, ii=8)


@pytest.fixture(params=["real", "made up"])
def manifest(request: pytest.FixtureRequest, real: Manifest) -> Manifest:
    if request.param == "real":
        return real
    # All forms of arrays in one record; figures that float32 rounds.
    lower = tuple(int(i * 4 + j) for i in range(4) for j in range(i + 1))
    inputs = (
        Array(name="q", shape=(4,), unit="rad | m"),
        Array(name="minv", shape=(4, 4), unit="1/(kg m^2)", sent=lower, symmetric=True),
        Array(name="one", shape=(), unit="1"),
        Array(name="some", shape=(2, 3), unit="1", sent=(4, 1, 3)),
        Array(
            name="load", shape=(3,), unit="kg",
            linear_map=((1.0, 0.0, 0.0, -0.5), (0.3, 1.0, 0.0, 0.0), (0.09, 0.6, -1.0, 1e-3)),
        ),
    )  # fmt: skip
    outputs = (
        Array(
            name="m",
            shape=(4, 4),
            unit="kg m^2",
            sent=tuple(p for p in lower if p not in (0, 8)),
            constants=((0, 0.1), (8, -1 / 3)),
            symmetric=True,
        ),
        Array(name="zero", shape=(3,), unit="1", sent=(), constants=((1, 1e-20), (2, 7.0))),
        Array(name="full", shape=(2, 2, 2), unit="N m", constants=()),
    )
    return replace(real, inputs=inputs, outputs=outputs, lanes_in=5, beats_in=5, lanes_out=17)


@pytest.mark.parametrize("compiler", ["gcc", "g++"])
def test_the_header_lays_records_out_as_the_driver_does(
    manifest: Manifest, tmp_path: Path, compiler: str
) -> None:
    main = compiled(manifest, tmp_path, compiler)
    rng = np.random.default_rng(SEED)
    whole = {a.name: rng.normal(size=(COUNT, *a.shape)).astype("<f4") for a in manifest.inputs}
    sent = {a.name: a.gather(whole[a.name]) for a in manifest.inputs}
    requests = pack(request_dtype(manifest), sent, COUNT)
    results = rng.normal(size=(COUNT, manifest.words_out)).astype("<f4")
    rows = [
        np.concatenate([whole[a.name][n].ravel() for a in manifest.inputs]) for n in range(COUNT)
    ]
    process = subprocess.run(
        [main],
        input=np.concatenate(rows).tobytes() + results.tobytes(),
        capture_output=True,
        check=False,
    )
    assert process.returncode == 0, (process.returncode, f"seed {SEED}")
    size = 4 * manifest.words_in * COUNT
    assert process.stdout[:size] == requests.tobytes(), f"seed {SEED}"
    parts = unpack(result_dtype(manifest), results.view(np.uint32))
    full = {a.name: a.scatter(parts[a.name]) for a in manifest.outputs}
    expected = b"".join(
        full[a.name][n].astype("<f4").tobytes() for n in range(COUNT) for a in manifest.outputs
    )
    assert process.stdout[size:] == expected, f"seed {SEED}"


@pytest.mark.parametrize("compiler", ["gcc", "g++"])
def test_a_wrong_layout_does_not_compile(real: Manifest, tmp_path: Path, compiler: str) -> None:
    compiled(real, tmp_path, compiler)
    text = (tmp_path / "records.h").read_text()
    wrong = text.replace("float qd[2];", "double qd[2];")
    assert wrong != text
    (tmp_path / "records.h").write_text(wrong)
    (source,) = tmp_path.glob("main.c*")
    process = subprocess.run(
        [compiler, "-c", "-o", tmp_path / "x.o", source],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode != 0 and "Layout of" in process.stderr, process.stderr


def test_the_header_says_what_does_not_travel(manifest: Manifest) -> None:
    text = records_header("core", manifest)
    for array in (*manifest.inputs, *manifest.outputs):
        line = next(
            n
            for n in text.splitlines()
            if f" {array.name}[" in n or f" {array.name};" in n or f" {array.name}:" in n
        )
        assert f"[{array.unit}]" in line, line
        if array.sent is not None:
            assert f"{array.words} of {sizes(array)} elements are transferred" in line, line
