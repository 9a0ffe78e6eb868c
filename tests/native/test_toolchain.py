"""Compilers: found, run, refused, crashed and interrupted."""

from __future__ import annotations

import _ctypes
import ctypes
import gc
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pinion.native.errors import ComputeError, StorageError
from pinion.native.isa import InstructionSet, available, named
from pinion.native.toolchain import Compiler, compile_library, find_compiler

PORTABLE = named("portable")
LIMIT = 300.0  # seconds; ends a hang

WIDTH = """
#ifdef __AVX512F__
#define WIDTH 64
#elif defined(__AVX2__)
#define WIDTH 32
#else
#define WIDTH 16
#endif
extern "C" int width() { return WIDTH; }
"""

# Makes a compiler with the right options run for an hour, in little memory.
SLOW = """
constexpr unsigned long sum() {
  unsigned long s = 0;
  for (unsigned long i = 0; i < 10000000000; ++i) s += i;
  return s;
}
static_assert(sum() == 1, "");
"""
PATIENT = {
    "gcc": ("-fconstexpr-ops-limit=1000000000000", "-fconstexpr-loop-limit=2000000000"),
    "clang": ("-fconstexpr-steps=4000000000",),
    "zig": ("-fconstexpr-steps=4000000000",),
}


def sentence(error: BaseException) -> str:
    text = str(error)
    assert text.endswith(".") and "\n" not in text
    assert not isinstance(error, OSError)
    return text


def script(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def compile_one(text: str, out: Path, compiler: Compiler, **options: Any) -> None:
    compile_library({"unit.cpp": text}, out=out, compiler=compiler, isa=PORTABLE, **options)


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder as the only one on the search path, without zig's Python package."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setitem(sys.modules, "ziglang", None)
    return folder


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "place"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("isa", available(), ids=lambda isa: isa.name)
def test_libraries_have_the_instructions_asked_for(
    isa: InstructionSet, compiler: Compiler, place: Path
) -> None:
    if isa.machine not in ("x86_64", "any"):
        pytest.skip("the macros are those of x86_64")
    out = place / "width.so"
    compile_library({"width.cpp": WIDTH}, out=out, compiler=compiler, isa=isa)
    assert ctypes.CDLL(str(out)).width() == isa.vector_bytes
    assert os.listdir(place) == ["width.so"]


def test_several_sources_headers_and_macros_make_one_library(
    compiler: Compiler, place: Path, tmp_path: Path
) -> None:
    headers = tmp_path / "more headers"
    headers.mkdir()
    (headers / "far.hpp").write_text("#pragma once\n#define FAR 1000\n")
    out = place / "sum.so"
    compile_library(
        {
            "one.cpp": '#include "near.h"\n#include <far.hpp>\nextern "C" int sum() '
            "{ return NEAR + FAR + two() + EMPTY 0; }\n",
            "two.cpp": '#include "near.h"\nint two() { return MACRO; }\n',
            "near.h": "#pragma once\n#define NEAR 1\nint two();\n",
        },
        out=out,
        compiler=compiler,
        isa=PORTABLE,
        include=[headers],
        defines={"MACRO": "(2 * 10)", "EMPTY": "100 +"},
        extra_flags=["-UMACRO", "-DMACRO=30"],  # the last one wins
        jobs=2,
    )
    assert ctypes.CDLL(str(out)).sum() == 1131
    assert os.listdir(place) == ["sum.so"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such flag")
def test_a_library_stays_when_it_is_closed(compiler: Compiler, place: Path) -> None:
    # A thread of its pool may be sleeping in its code.
    path = place / "stays.so"
    if compiler.family == "zig":
        pytest.skip("Zig's linker is given no such flag")
    source = {"a.cpp": 'extern "C" int two() { return 2; }'}
    compile_library(source, out=path, compiler=compiler, isa=available()[0])
    loaded = ctypes.CDLL(str(path))
    _ctypes.dlclose(loaded._handle)
    assert str(path) in Path("/proc/self/maps").read_text()
    assert ctypes.CDLL(str(path)).two() == 2


def test_products_are_not_fused(compiler: Compiler, place: Path) -> None:
    isa = available()[0]
    if "-mfma" not in isa.flags:
        pytest.skip("this machine has no instructions that a compiler could fuse into")
    text = 'extern "C" double f(double a, double b, double c) { return a * b + c; }'
    out = place / "f.so"
    compile_library({"f.cpp": text}, out=out, compiler=compiler, isa=isa)
    f = ctypes.CDLL(str(out)).f
    f.restype, f.argtypes = ctypes.c_double, [ctypes.c_double] * 3
    x = 1 + 2.0**-30
    assert f(x, x, -(x * x)) == 0.0


def test_a_refused_source_is_one_sentence_and_leaves_what_was_there(
    compiler: Compiler, place: Path
) -> None:
    out = place / "old.so"
    out.write_text("old")
    sources = {"good.cpp": "int a;\n", "bad.cpp": "int f() { return nowhere; }\n"}
    with pytest.raises(ComputeError) as caught:
        compile_library(sources, out=out, compiler=compiler, isa=PORTABLE)
    message = sentence(caught.value)
    assert "bad.cpp:1:" in message and "nowhere" in message and str(compiler) in message
    assert out.read_text() == "old" and os.listdir(place) == ["old.so"]


def test_a_missing_symbol_is_named(compiler: Compiler, place: Path) -> None:
    text = 'int nowhere();\nextern "C" int f() { return nowhere(); }\n'
    with pytest.raises(ComputeError, match="nowhere"):
        compile_one(text, place / "f.so", compiler, extra_flags=["-Wl,-z,defs"])


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("echo 'unit.cpp:3:1: warning: odd'; echo 'unit.cpp:7:5: error: bad' >&2; exit 1", "7:5"),
        ("exit 3", "exit status 3"),
        ("echo strange; exit 1", "(strange)"),
        ("kill -SEGV $$", "crashed on unit.cpp (killed by SIGSEGV)"),
        ("echo 'g++: fatal error: Killed signal terminated program cc1plus'; exit 1", "crashed on"),
        ("exit 0", "wrote no library"),
        ("printf 'error: \\377\\376 %0400d' 7; exit 1", "..."),
    ],
)
def test_a_failing_compiler_is_one_sentence(body: str, words: str, place: Path) -> None:
    fake = script(place.parent / "g++", body)
    with pytest.raises(ComputeError) as caught:
        compile_one("", place / "a.so", find_compiler(str(fake)))
    assert words in sentence(caught.value) and str(fake) in str(caught.value)
    assert len(str(caught.value)) < 600 + len(str(fake))
    assert os.listdir(place) == []


def test_a_compiler_without_room_is_told_apart(place: Path) -> None:
    body = "echo 'as: unit.o: error writing: No space left on device'; exit 1"
    fake = script(place.parent / "g++", body)
    with pytest.raises(StorageError) as caught:
        compile_one("", place / "a.so", find_compiler(str(fake)))
    assert caught.value.reason == "No space left on device"
    assert str(place) in sentence(caught.value)


def test_a_folder_that_is_not_there_is_a_sentence(compiler: Compiler, place: Path) -> None:
    with pytest.raises(StorageError) as caught:
        compile_one("", place / "none" / "a.so", compiler)
    assert str(place / "none") in sentence(caught.value)


def test_a_compiler_that_cannot_start_is_a_sentence(place: Path) -> None:
    fake = place.parent / "g++"
    fake.write_text("#!/no/such/interpreter\n")
    fake.chmod(0o755)
    with pytest.raises(ComputeError) as caught:
        compile_one("", place / "a.so", find_compiler(str(fake)))
    assert "cannot be started" in sentence(caught.value)
    assert not isinstance(caught.value, StorageError)


def test_a_compiler_that_hangs_is_stopped_with_its_children(
    place: Path,
    processes_in: Callable[[Path], list[str]],
    until: Callable[[Callable[[], object]], None],
) -> None:
    fake = script(place.parent / "g++", "sleep 1000 & sleep 1000")
    with pytest.raises(ComputeError) as caught:
        compile_one("", place / "a.so", find_compiler(str(fake)), timeout=0.1)
    assert "did not finish unit.cpp in time" in sentence(caught.value)
    assert os.listdir(place) == []
    until(lambda: not processes_in(place))  # a killed process takes a moment to disappear


def test_a_compiler_that_never_stops_talking_is_stopped(place: Path) -> None:
    fake = script(place.parent / "g++", "exec yes nonsense")
    with pytest.raises(ComputeError, match="did not finish"):
        compile_one("", place / "a.so", find_compiler(str(fake)), timeout=0.1)
    assert os.listdir(place) == []


def test_the_first_error_is_found_behind_many_warnings(place: Path) -> None:
    body = "yes 'unit.cpp:1:1: warning: odd' | head -n 30000; echo 'error: bad'; exit 1"
    fake = script(place.parent / "g++", body)
    with pytest.raises(ComputeError, match=r"\(error: bad\)"):
        compile_one("", place / "a.so", find_compiler(str(fake)))


def test_sources_compile_side_by_side(place: Path) -> None:
    # Each run ends only when both have begun; the third, the linker, runs alone.
    body = """
    for last; do :; done
    case "$*" in *-shared*) echo > library.so; exit;; esac
    : > "began-$last"
    while ! [ -e began-a.cpp ] || ! [ -e began-b.cpp ]; do sleep 0.01; done
    """
    fake = find_compiler(str(script(place.parent / "g++", body)))
    sources = {"a.cpp": "", "b.cpp": ""}
    compile_library(sources, out=place / "a.so", compiler=fake, isa=PORTABLE, jobs=2, timeout=LIMIT)
    assert os.listdir(place) == ["a.so"]


def test_names_that_leave_the_folder_are_refused(compiler: Compiler, place: Path) -> None:
    for name in ("../a.cpp", "/tmp/a.cpp", "-o.cpp", ".cpp"):
        with pytest.raises(ValueError, match="plain file name"):
            compile_library({name: ""}, out=place / "a", compiler=compiler, isa=PORTABLE)
    with pytest.raises(ValueError, match="no source"):
        compile_library({"a.h": ""}, out=place / "a", compiler=compiler, isa=PORTABLE)


def test_an_interrupt_stops_the_compiler_and_leaves_nothing(
    compiler: Compiler,
    place: Path,
    fork: Callable[..., Any],
    until: Callable[[Callable[[], object]], None],
    processes_in: Callable[[Path], list[str]],
) -> None:
    if not Path("/proc/self/cwd").exists():
        pytest.skip("without /proc nobody knows when the compiler runs")

    def compile_slowly() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        # If this test fails, the compiler continues, but not for long.
        resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
        try:
            compile_one(SLOW, place / "a.so", compiler, extra_flags=PATIENT[compiler.family])
        except KeyboardInterrupt:
            os._exit(77)

    child = fork(compile_slowly)
    until(lambda: processes_in(place) or not child.is_alive())
    os.kill(child.pid, signal.SIGINT)
    child.join(LIMIT)
    assert child.exitcode == 77 and os.listdir(place) == []
    until(lambda: not processes_in(place))


def test_an_interrupt_at_any_moment_leaves_nothing(
    place: Path,
    fork: Callable[..., Any],
    until: Callable[[Callable[[], object]], None],
    processes_in: Callable[[Path], list[str]],
) -> None:
    seed = 20
    print(f"seed {seed}")
    rng = random.Random(seed)
    fake = find_compiler(str(script(place.parent / "g++", "sleep 1000 & sleep 1000")))
    ready = place.parent / "ready"

    def compile_for_ever() -> None:
        gc.disable()  # Python ignores an interrupt in a finalizer
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            ready.touch()
            compile_one("", place / "a.so", fake)
        except KeyboardInterrupt:
            os._exit(77)

    for _ in range(25):
        child = fork(compile_for_ever)
        until(ready.exists)
        ready.unlink()
        # A thread, a folder, a file and two processes start within some ten milliseconds.
        time.sleep(rng.choice([0.0, rng.uniform(0.0, 0.004), rng.uniform(0.0, 0.02)]))
        os.kill(child.pid, signal.SIGINT)
        child.join(LIMIT)
        assert child.exitcode == 77 and os.listdir(place) == []
    until(lambda: not processes_in(place))


def test_without_a_compiler_the_sentence_says_what_to_install(bare: Path) -> None:
    with pytest.raises(ComputeError) as caught:
        find_compiler()
    assert "apt-get install g++" in sentence(caught.value)


def test_compilers_are_looked_for_in_order_and_never_run(bare: Path) -> None:
    ran = bare.parent / "ran"
    for name, family in (("zig", "zig"), ("clang++", "clang"), ("g++", "gcc")):
        script(bare / name, f": > {ran}")
        compiler = find_compiler()
        words = (str(bare / name), *(["c++"] if name == "zig" else []))
        assert (compiler.command, compiler.family) == (words, family)
    (bare / "c++").symlink_to("clang++")
    assert find_compiler().command == (str(bare / "c++"),) and find_compiler().family == "clang"
    (bare / "c++").unlink()
    script(bare / "x86_64-linux-gnu-g++-12", f": > {ran}")
    (bare / "c++").symlink_to("x86_64-linux-gnu-g++-12")
    assert find_compiler().family == "gcc"
    assert not ran.exists()


def test_zig_is_also_found_as_a_python_package(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site" / "ziglang"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    monkeypatch.delitem(sys.modules, "ziglang")
    monkeypatch.syspath_prepend(package.parent)
    script(package / "zig", 'test "$*" = version && echo 0.99.0')
    for choice in (None, "zig"):
        compiler = find_compiler(choice)
        assert compiler.command == (str(package / "zig"), "c++") and compiler.family == "zig"
    assert compiler.version == "zig 0.99.0"
    assert "ziglang" not in sys.modules


def test_zig_compiles_for_no_processor_but_the_one_asked_for(bare: Path, place: Path) -> None:
    log = bare.parent / "log"
    script(bare / "zig", f'echo "$@" >> {log}; case "$*" in *-shared*) echo > library.so;; esac')
    compile_one("", place / "a.so", find_compiler("zig"))
    compiled, linked = log.read_text().splitlines()
    assert compiled.startswith("c++ ") and "-mcpu=baseline" in compiled
    assert "-shared" not in compiled and "-nostdlib" in linked


def test_a_choice_is_a_name_a_path_or_a_command(bare: Path, tmp_path: Path) -> None:
    odd = tmp_path / "my tools"
    odd.mkdir()
    path = script(odd / "g++", "")
    assert find_compiler(str(path)).command == (str(path),)
    script(bare / "ccache", "echo clang version 19.1")
    script(bare / "clang++", "")
    compiler = find_compiler("ccache clang++ -stdlib=libc++")
    assert compiler.command == (str(bare / "ccache"), "clang++", "-stdlib=libc++")
    assert compiler.family == "clang" and compiler.version == "clang version 19.1"
    assert str(bare / "clang++") in compiler.identity


@pytest.mark.parametrize("choice", ["", "  ", "icpx -O9", "it's", "zig", "/no/such/g++"])
def test_a_wrong_choice_is_one_sentence(choice: str, bare: Path) -> None:
    script(bare / "g++", "")
    with pytest.raises(ComputeError) as caught:
        find_compiler(choice)
    assert (choice.split() or ["empty"])[0] in sentence(caught.value)


def test_identity_follows_the_file(bare: Path) -> None:
    path = script(bare / "g++", "")
    first = find_compiler()
    assert find_compiler() == first
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
    second = find_compiler()
    path.write_text(path.read_text() + "\n")
    os.utime(path, ns=(0, 0))
    third = find_compiler()
    os.utime(script(bare / "c++", "\n"), ns=(0, 0))
    assert len({c.identity for c in (first, second, third, find_compiler())}) == 4


def test_a_version_that_cannot_be_had_is_no_error(bare: Path) -> None:
    script(bare / "g++", "exit 1")
    assert find_compiler().version == "unknown version"
