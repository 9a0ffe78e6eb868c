"""Sine and cosine of compiled kernels: errors, independence of lanes, special values."""

from __future__ import annotations

import ctypes
import math
import platform
import re
import shutil
import subprocess
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.compute import minimax

RUNTIME = Path(__file__).resolve().parents[2] / "sw/pinion/compute/runtime"
FLAGS = "-std=c++17 -O2 -ffp-contract=off -fno-math-errno -fPIC -shared -Wall -Wextra -Werror"
# By machine and instruction set: required processor features, and the compiler's flags.
X86 = {
    "avx512": (
        "avx512f avx512dq avx512vl avx512bw fma",
        "-mavx512f -mavx512dq -mavx512vl -mavx512bw -mfma",
    ),
    "avx2": ("avx2 fma", "-mavx2 -mfma"),
    "portable": ("", ""),
}
ARM = {"neon": ("", "")}
ISAS = {"x86_64": X86, "aarch64": ARM, "arm64": ARM}.get(platform.machine(), {"portable": ("", "")})
SEED = 20
# A double's hardest argument needs 53 + 62 bits of it, which are 35 digits.
PI = Fraction("3.14159265358979323846264338327950288419716939937510582097494459")
KINDS: dict[str, np.dtype[Any]] = {"float": np.dtype(np.float32), "double": np.dtype(np.float64)}
# From sincos.hpp: the end of the fast range, and the largest error in it [ulp].
END = {"float": 205886.0, "double": 1647098.0}
LARGEST = {"float": 1.5, "double": 0.9}
LARGEST_PORTABLE = {"float": 1.5, "double": 1.1}

Array = np.ndarray[Any, np.dtype[Any]]


@cache
def processor() -> frozenset[str]:
    """Return the features of an x86 processor by their names in /proc/cpuinfo."""
    info = Path("/proc/cpuinfo")
    text = info.read_text() if info.exists() else ""
    flags = re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)
    return frozenset(flags[1].split()) if flags else frozenset()


class Library:
    """sincos.hpp compiled for one instruction set, on arrays of any length."""

    def __init__(self, isa: str, file: Path) -> None:
        self.isa = isa
        self._functions = ctypes.CDLL(str(file))

    def _call(self, name: str, x: Array, *arrays: Array) -> None:
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (x, *arrays)]
        getattr(self._functions, name)(ctypes.c_long(x.size), *pointers)

    def lanes(self, kind: str) -> int:
        return int(getattr(self._functions, f"{kind}_lanes")())

    def sincos(self, kind: str, x: Array, *, shape: str = "vector") -> tuple[Array, Array]:
        padded = np.concatenate([x, np.zeros(-x.size % 16)]).astype(KINDS[kind])
        s, c = np.empty_like(padded), np.empty_like(padded)
        self._call(f"{kind}_{shape}", padded, s, c)
        return s[: x.size], c[: x.size]

    def library(self, kind: str, x: Array) -> tuple[Array, Array]:
        """Return the results of the C library."""
        x = x.astype(KINDS[kind])
        s, c = np.empty_like(x), np.empty_like(x)
        self._call(f"{kind}_library", x, s, c)
        return s, c

    def errors(self, kind: str, x: Array) -> Array:
        """Return the errors of sine and cosine [ulp], (2, n) float."""
        if kind == "double" and self._functions.long_double_digits() < 64:
            pytest.skip("a long double is no better than a double here: nothing to compare with")
        x = x.astype(KINDS[kind])
        errors = np.empty((2, x.size))
        self._call(f"{kind}_errors", x, *self.sincos(kind, x), *errors)
        return errors

    def all_floats(self, end: float, step: int) -> Array:
        """Return the largest errors over every `step`-th float of [0, end) [ulp], (2,) float."""
        largest = np.zeros(2)
        last = int(np.float32(end).view(np.uint32))
        self._functions.all_floats(
            0, ctypes.c_uint32(last), step, ctypes.c_void_p(largest.ctypes.data)
        )
        return largest


@pytest.fixture(scope="module", params=list(ISAS))
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Library:
    isa: str = request.param
    needed, flags = ISAS[isa]
    if missing := set(needed.split()) - processor():
        pytest.skip(f"the processor lacks {', '.join(sorted(missing))}")
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("there is no g++ or clang++ to compile sincos.hpp with")
    file = tmp_path_factory.mktemp("sincos") / f"{isa}.so"
    source = Path(__file__).with_name("sincos_library.cpp")
    command = [compiler, *FLAGS.split(), *flags.split(), f"-I{RUNTIME}", str(source)]
    completed = subprocess.run(
        [*command, "-o", str(file)], capture_output=True, text=True, check=False
    )
    assert completed.returncode == 0, completed.stderr
    return Library(isa, file)


def bits(values: tuple[Array, Array]) -> Array:
    return np.array(values).view(f"u{values[0].itemsize}")


def hardest(kind: str) -> list[float]:
    """Return the arguments of every binade that are closest to multiples of pi/2.

    m 2^e is close to one if m is close to a denominator of the continued fraction of
    2^e / (pi/2), or to a small multiple or sum of these.
    """
    digits = {"float": 24, "double": 53}[kind]
    candidates = []
    for exponent in range(-digits, math.frexp(END[kind])[1] - digits + 1):
        rest, before, q, denominators = Fraction(2) ** exponent / (PI / 2), 0, 1, [1]
        while q < 2**digits:
            rest = 1 / (rest - math.floor(rest))
            before, q = q, math.floor(rest) * q + before
            denominators.append(q)
        for a in denominators[-6:]:
            for b in [0, *denominators[-6:]]:
                for factor in range(1, 9):
                    if 2 ** (digits - 1) <= (m := factor * b + a) < 2**digits:
                        candidates.append(math.ldexp(m, exponent))
    return [x for x in candidates if x < END[kind]]


def samples(kind: str, rng: np.random.Generator) -> Array:
    """Return (n,) arguments in the fast range, of both signs, mostly difficult ones."""
    end, dtype = END[kind], KINDS[kind]
    turns = np.append(np.arange(1, 200), rng.integers(1, int(end / 1.6), 1500))
    multiples = np.array([float(int(k) * PI / 2) for k in turns]).astype(dtype)
    near = (multiples[:, None] + np.arange(-4, 5) * np.spacing(multiples)[:, None]).ravel()
    # If sin r is below a power of two and r above, the rounding of r counts twice.
    power = 2.0 ** rng.integers(-10, 0, 40_000)
    above = power * (1 + power**2 / 6 * rng.random(power.size))
    quarters = rng.integers(0, 64, power.size) * 4.0 ** rng.integers(0, 7, power.size)
    x = np.concatenate(
        [
            rng.uniform(0, 10, 40_000),
            rng.uniform(0, end, 40_000),
            2.0 ** rng.uniform(-30, math.log2(end), 40_000),
            end * (1 - 1e-3 * rng.random(10_000)),
            quarters * (math.pi / 2) + above,
            near,
            hardest(kind),
        ]
    ).astype(dtype)
    x = x[x < end]
    return np.concatenate([x, -x])


@pytest.mark.parametrize("kind", KINDS)
def test_errors_in_the_fast_range_are_as_stated(library: Library, kind: str) -> None:
    x = samples(kind, np.random.default_rng(SEED))
    errors = library.errors(kind, x)
    stated = (LARGEST_PORTABLE if library.isa == "portable" else LARGEST)[kind]
    for name, error in zip(["sine", "cosine"], errors, strict=True):
        worst = error.argmax()
        assert error[worst] <= stated, f"{name} of {float(x[worst]).hex()}, seed {SEED}"
        # A loose bound would prove nothing.
        assert error[worst] >= 0.8 * stated, f"seed {SEED}"


def test_errors_over_a_thousandth_of_all_floats_are_as_stated(library: Library) -> None:
    assert library.all_floats(END["float"], 1009).max() <= LARGEST["float"]


@pytest.mark.slow
def test_errors_over_all_floats_are_as_stated(library: Library) -> None:
    # Without fused products one in 31, which takes a minute less.
    largest = library.all_floats(END["float"], 31 if library.isa == "portable" else 1)
    print(f"{library.isa}: sine {largest[0]:.4f} ulp, cosine {largest[1]:.4f} ulp")
    assert largest.max() <= LARGEST["float"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_fast_range_ends_where_it_is_stated(library: Library, kind: str) -> None:
    # Beyond it results have the C library's bits; within it some have not.
    rng = np.random.default_rng(SEED)
    x = np.append(END[kind] * (1 - 1e-5 * rng.random(1000)), END[kind])
    for within in (x, -x):
        differs = bits(library.sincos(kind, within)) != bits(library.library(kind, within))
        assert differs.mean() > 0.01, f"seed {SEED}"
    x = END[kind] + 4 + rng.random(1000)
    for beyond in (x, -x):
        results, expected = library.sincos(kind, beyond), library.library(kind, beyond)
        assert bits(results).tolist() == bits(expected).tolist(), f"seed {SEED}"


@pytest.mark.parametrize("kind", KINDS)
def test_beyond_the_fast_range_the_c_library_answers(library: Library, kind: str) -> None:
    rng = np.random.default_rng(SEED)
    largest = float(np.finfo(KINDS[kind]).max)
    x = 2.0 ** rng.uniform(math.log2(END[kind] + 4), math.log2(largest), 3000)
    x = np.concatenate([x, -x, [largest, -largest]])
    expected = bits(library.library(kind, x))
    # All lanes of a vector, and one in five.
    assert bits(library.sincos(kind, x)).tolist() == expected.tolist(), f"seed {SEED}"
    mixed = np.zeros(x.size * 5)
    mixed[::5] = x
    results = bits(library.sincos(kind, mixed))[:, ::5]
    assert results.tolist() == expected.tolist(), f"seed {SEED}"


@pytest.mark.parametrize("shape", ["vector", "scalar"])
@pytest.mark.parametrize("kind", KINDS)
def test_infinities_and_nan_give_nan(library: Library, kind: str, shape: str) -> None:
    x = np.array([np.inf, 1.0, -np.inf, np.nan, -np.nan])
    s, c = library.sincos(kind, x, shape=shape)
    assert np.isnan(s).tolist() == np.isnan(c).tolist() == [True, False, True, True, True]


@pytest.mark.parametrize("shape", ["vector", "scalar"])
@pytest.mark.parametrize("kind", KINDS)
def test_zeros_and_the_smallest_numbers_are_their_own_sines(
    library: Library, kind: str, shape: str
) -> None:
    about = np.finfo(KINDS[kind])
    subnormal = float(about.smallest_subnormal)
    x = np.array([0.0, subnormal, 5 * subnormal, float(about.tiny), float(about.tiny) * 1e6])
    x = np.concatenate([x, -x]).astype(KINDS[kind])
    s, c = library.sincos(kind, x, shape=shape)
    assert s.tobytes() == x.tobytes()
    assert (c == 1).all()


@pytest.mark.parametrize("kind", KINDS)
def test_signs_of_the_argument_change_only_that_of_the_sine(library: Library, kind: str) -> None:
    x = samples(kind, np.random.default_rng(SEED))
    s, c = library.sincos(kind, x)
    sn, cn = library.sincos(kind, -x)
    assert s.tobytes() == (-sn).tobytes() and c.tobytes() == cn.tobytes(), f"seed {SEED}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_scalar_is_computed_like_a_lane(library: Library, kind: str) -> None:
    rng = np.random.default_rng(SEED)
    x = np.concatenate([samples(kind, rng)[::7], rng.uniform(-9, 9, 100) * END[kind]])
    vector, scalar = (library.sincos(kind, x, shape=shape) for shape in ("vector", "scalar"))
    assert bits(vector).tolist() == bits(scalar).tolist(), f"seed {SEED}"


@pytest.mark.parametrize("kind", KINDS)
def test_lanes_keep_their_bits_beside_any_other(library: Library, kind: str) -> None:
    rng = np.random.default_rng(SEED)
    lanes = library.lanes(kind)
    beyond = [np.inf, -np.inf, np.nan, 2 * END[kind], -1e30]
    for _ in range(20):
        x = rng.uniform(-END[kind], END[kind], lanes)
        expected = bits(library.sincos(kind, x))
        for lane in range(lanes):
            for value in beyond:
                changed = x.copy()
                changed[lane] = value
                results = bits(library.sincos(kind, changed))
                others = np.arange(lanes) != lane
                assert (results[:, others] == expected[:, others]).all(), f"seed {SEED}"
        # Several lanes.
        out = rng.random(lanes) < 0.5
        results = bits(library.sincos(kind, np.where(out, rng.choice(beyond, lanes), x)))
        assert (results[:, ~out] == expected[:, ~out]).all(), f"seed {SEED}"


def test_coefficients_are_within_a_hair_of_the_best() -> None:
    text = (RUNTIME / "sincos.hpp").read_text()
    literal = re.compile(r"splat<V>\((-?0x1\.[0-9a-f]+p[+-]\d+)f?\)")
    for kind, sign in (("float", 1), ("double", -1)):
        start = text.index(f"void evaluate_{kind}(")
        stated = [
            Decimal(float.fromhex(x))
            for x in literal.findall(text[start : text.index("\n}\n", start)])
        ]
        count = minimax.CASES[f"sine {kind}"][1]
        assert len(stated) == 2 * count
        # Horner's rule begins with the highest; the double's sine has the other sign.
        sine = [sign * x for x in reversed(stated[:count])]
        for name, coefficients in (("sine", sine), ("cosine", stated[: count - 1 : -1])):
            problem, count, _ = minimax.CASES[f"{name} {kind}"]
            best = minimax.error(problem, minimax.remez(problem, count))
            assert best < minimax.error(problem, coefficients) < best * Decimal("1.1"), (name, kind)


@pytest.mark.slow
def test_scalars_compile_for_cuda(tmp_path: Path) -> None:
    compiler = shutil.which("nvcc")
    if compiler is None:
        pytest.skip("there is no nvcc to compile sincos.hpp with")
    source = tmp_path / "probe.cu"
    source.write_text(
        '#include "sincos.hpp"\n'
        "template <class T> __global__ void probe(const T *x, T *s, T *c) {\n"
        "  pinion::sincos(x[threadIdx.x], s[threadIdx.x], c[threadIdx.x]);\n"
        "}\n"
        "template __global__ void probe(const float *, float *, float *);\n"
        "template __global__ void probe(const double *, double *, double *);\n"
    )
    command = [compiler, "-std=c++17", "-fmad=false", f"-I{RUNTIME}", "-ptx", str(source)]
    completed = subprocess.run(
        [*command, "-o", str(tmp_path / "probe.ptx")], capture_output=True, text=True, check=False
    )
    assert completed.returncode == 0, completed.stderr
    assert "fma.rn.f64" in (tmp_path / "probe.ptx").read_text()
