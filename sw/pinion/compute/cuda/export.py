"""Export of a function as a single CUDA header, which users extend by hooks instead of edits."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

from pinion.base import installation
from pinion.base.escaping import comment, identifier, line_comment
from pinion.base.progress import SILENT, Progress
from pinion.compute import cpu
from pinion.compute.arguments import dtype_name
from pinion.compute.library_folder import undone_on_failure
from pinion.compute.native import HEADERS
from pinion.compute.program.source import SCALARS
from pinion.functions import Block, Function
from pinion.native import ComputeError, StorageError
from pinion.robot import Model
from pinion.robot.c_names import c_names

from . import export_texts as texts
from .threads import ThreadBody, thread_body

__all__ = ["export_header"]

_INLINE = "__device__ __forceinline__"
_UNROLL = '_Pragma("unroll")'
_RUNTIME = ("vec.hpp", "sincos.hpp", "thread.cuh")

# Names that the header itself uses: an array with such a name gets an underscore.
_TAKEN = frozenset(
    re.findall(
        r"\w+",
        """
        real threads shared_bytes main std InputArray ResultArray Inputs Results BlockInputs
        BlockResults Request Result Scratch inputs_aos inputs_soa results_aos results_soa
        compute scratch store each grid runtime load n sample at get put first step apart
        Sample
        """,
    )
)


def export_header(
    model: Model,
    function: Function,
    *,
    folder: Path,
    dtype: str = "float32",
    name: str | None = None,
    robot: str | None = None,
    force: bool = False,
    progress: Progress = SILENT,
) -> dict[str, Any]:
    """Write or update a folder with a CUDA header for a function of a robot.

    The folder contains ``NAME.cuh``, which needs no other file, examples of its use in ``example``,
    ``CMakeLists.txt``, ``README.md`` and ``NAME.json``, the record of the written files. Files
    outside the record are left alone; unchanged files are not touched.

    Parameters
    ----------
    folder : created, or updated if an earlier export wrote it; other files in it do not matter.
    dtype : ``float32`` or ``float64``.
    name : name of the header and of its namespace; by default robot and function.
    robot : the robot as the command line names it, for the command in the header.
    force : whether to replace files that were changed after they were written.
    progress : receives each step.

    Returns
    -------
    Name, dtype, files and the resources of a kernel, for reports.

    Raises
    ------
    InputError
        If an argument is invalid, the function needs several kernels, a file was changed by hand,
        or the folder is not writable. The folder is then unchanged.
    """
    header_name = identifier(f"{model.name}_{function.name}") if name is None else name
    if (
        not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,62}", header_name)
        or header_name != c_names([header_name], _TAKEN)[0]
    ):
        raise ComputeError(
            f"'{header_name[:80]}' is not a valid name for a CUDA header: use at most 63 letters, "
            "digits and underscores, starting with a letter, but no keyword of C++ and no name "
            "in the header."
        )
    dtype = dtype_name(dtype)
    inputs = tuple(b.resolved(model) for b in function.inputs)
    results = tuple(b.resolved(model) for b in function.results)
    progress.step("tracing")
    graph = cpu.graph_of(model, function)
    progress.step("printing the header")
    body = thread_body(graph, inputs=inputs, results=results, dtype=dtype)
    if body is None:
        raise ComputeError(
            f"'{function.name}' of '{model.name}' in {dtype} needs several kernels, because one "
            "thread cannot hold its values: export it for CPUs (pinion export --cpu), or call it "
            "through pinion.compute.cuda."
        )
    words = [
        *("pinion", "export", "--cuda", robot or model.name, function.name),
        *("--dtype", dtype, "--name", header_name, "-o", "FOLDER"),
    ]
    header = _Header(
        name=header_name,
        title=comment(f"{function.name} of {model.name}, {dtype}: {function.doc}"),
        command=line_comment(" ".join(map(shlex.quote, words))),
        inputs=_named(inputs, ()),
        results=_named(results, _names(_named(inputs, ()))),
        dtype=dtype,
        body=body,
    )
    files = header.files()
    record = {
        "generator": "pinion",
        "version": installation.version(),
        "robot": model.name,
        "function": function.name,
        "dtype": dtype,
        "files": {path: _digest(text.encode()) for path, text in files.items()},
    }
    files[f"{header_name}.json"] = json.dumps(record, indent=2) + "\n"
    if not force:
        _refuse_changed(folder, header_name, files)
    _put(folder, files)
    return {
        "name": header_name,
        "dtype": dtype,
        "files": sorted(files),
        "threads": body.threads,
        "shared_bytes": header.shared_bytes,
        "arithmetic": body.arithmetic,
    }


# ---- The folder ----------------------------------------------------------------------------------


def _digest(content: bytes) -> str:
    """Return the SHA-256 of a text, ignoring line endings, which version control may change."""
    return hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest()


def _refuse_changed(folder: Path, name: str, files: Mapping[str, str]) -> None:
    """Raise an error if the export would overwrite a file that was edited by hand."""
    record = folder / f"{name}.json"
    digests: Any = {}
    try:
        if os.path.lexists(record):
            digests = json.loads(record.read_text())["files"]
            if not isinstance(digests, dict):
                raise TypeError
    except (ValueError, TypeError, KeyError, RecursionError, OSError):
        raise ComputeError(
            f"'{record}' is not a valid record of an export: restore it, or use force=True "
            "(--force) to replace every generated file."
        ) from None
    for path, text in files.items():
        file = folder / path
        if path == record.name or not os.path.lexists(file):
            continue
        try:
            digest = _digest(file.read_bytes())
        except OSError as error:
            raise StorageError(
                f"'{file}' cannot be read ({error.strerror}): move or delete it.",
                reason=error.strerror or str(error),
            ) from error
        if digest not in (digests.get(path), _digest(text.encode())):
            raise ComputeError(
                f"'{file}' differs from what Pinion wrote: move the change into a hook, in your "
                f"own file that includes {name}.cuh, or discard the change with force=True "
                "(--force)."
            )


def _put(folder: Path, files: Mapping[str, str]) -> None:
    """Write all files, or leave the folder unchanged if one fails."""
    with undone_on_failure(folder, "header"):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".export-") as scratch:
            work, old = Path(scratch) / "new", Path(scratch) / "old"
            for path, text in files.items():
                (work / path).parent.mkdir(parents=True, exist_ok=True)
                (work / path).write_bytes(text.encode())
            _replace(work, folder, old, files)


def _replace(work: Path, folder: Path, old: Path, files: Mapping[str, str]) -> None:
    """Move files into a folder, the record last; undo all moves if one fails."""
    undo: list[Callable[[], object]] = []
    try:
        for path, text in files.items():
            target = folder / path
            if (
                target.is_file()
                and not target.is_symlink()
                and target.read_bytes() == text.encode()
            ):
                continue  # its time stays, so that nothing is recompiled
            if not target.parent.exists():
                target.parent.mkdir()
                undo.append(target.parent.rmdir)
            if os.path.lexists(target):
                (old / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(target, old / path, follow_symlinks=False)
                undo.append(partial(os.replace, old / path, target))
            else:
                undo.append(partial(target.unlink, missing_ok=True))
            os.replace(work / path, target)
    except BaseException:
        for step in reversed(undo):
            with contextlib.suppress(OSError):
                step()
        raise


# ---- The files -----------------------------------------------------------------------------------


def _for_cuda(text: str) -> str:
    """Return a runtime header without its CPU-only parts."""
    lines: list[str] = []
    stack: list[tuple[bool, bool, bool]] = []  # decided here; had a branch; this branch is in
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word in ("#if", "#ifdef", "#ifndef"):
            answer = _answer(rest) if word == "#if" else None
            stack.append((answer is not None, bool(answer), answer is not False))
            if answer is not None:
                continue
        elif word in ("#elif", "#else", "#endif") and stack[-1][0]:
            _, had, _ = stack.pop()
            if word != "#endif":
                now = not had and (word == "#else" or bool(_answer(rest)))
                stack.append((True, had or now, now))
            continue
        elif word == "#endif":
            stack.pop()
        if all(inside for _, _, inside in stack):
            lines.append(line)
    header_text = "\n".join(lines)
    header_text = re.sub(
        r"^#(pragma once|include \".*|define PINION_\w+( .*)?)$", "", header_text, flags=re.M
    )
    header_text = header_text.replace("PINION_INLINE", _INLINE).replace("PINION_UNROLL", _UNROLL)
    return re.sub(r"\n{3,}", "\n\n", header_text)


def _answer(condition: str) -> bool | None:
    """Return a condition's value in CUDA, or None if it does not depend on the target."""
    if "PINION_CUDA_HOST" in condition or "__clang__" in condition:  # whose pragmas nvcc takes
        return True
    if match := re.fullmatch(r"(!?)PINION_ISA_(\w+)", condition):
        return (match[2] == "CUDA") != bool(match[1])
    return None


@dataclass(frozen=True)
class _Array:
    """An input or result array of the exported header.

    Members
    -------
    name : in C++.
    size : elements of a sample.
    about : shape and unit, for a comment.
    """

    name: str
    size: int
    about: str


def _named(blocks: Sequence[Block], reserved: Sequence[str]) -> tuple[_Array, ...]:
    """Return the arrays, renamed where C++ or the header already uses a name."""
    # The header's own sizes are called size_ARRAY.
    names = [f"array_{b.name}" if b.name.startswith("size_") else b.name for b in blocks]
    arrays = []
    for block, name in zip(blocks, c_names(names, (*reserved, *_TAKEN)), strict=True):
        shape = " x ".join(map(str, block.shape)) or "1"
        arrays.append(_Array(name, prod(map(int, block.shape)), f"{shape}, {comment(block.unit)}"))
    return tuple(arrays)


def _names(arrays: Sequence[_Array]) -> tuple[str, ...]:
    return tuple(array.name for array in arrays)


def _fill(template: str, values: Mapping[str, str]) -> str:
    """Replace the ``@NAMES@`` of a template, in one pass: values are not expanded."""
    return re.sub(r"@([A-Z_]+)@", lambda match: values[match[1]], template)


@dataclass(frozen=True, kw_only=True)
class _Header:
    name: str
    title: str
    command: str
    inputs: tuple[_Array, ...]
    results: tuple[_Array, ...]
    dtype: str
    body: ThreadBody

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block in bytes."""
        return self.body.pitch * self.body.near * (4 if self.dtype == "float32" else 8)

    def files(self) -> dict[str, str]:
        """Return the text of all files except the record, by path."""
        values = self._values()
        text = _fill(texts.INTERFACE, values)
        values["CODE"] = text
        values["DIGEST"] = _digest(text.encode())
        example = {"ROLLOUT": "", "ROLLOUT_USE": ""}
        if self._moves():
            example = {
                "ROLLOUT": _fill(texts.ROLLOUT, values),
                "ROLLOUT_USE": _fill(texts.ROLLOUT_USE, values),
            }
        values |= example
        return {
            f"{self.name}.cuh": _fill(texts.HEADER, values),
            "example/hooks.cuh": _fill(texts.HOOKS, values),
            "example/example.cu": _fill(texts.EXAMPLE, values),
            "CMakeLists.txt": _fill(texts.CMAKE, values),
            "README.md": _fill(texts.README, values),
        }

    def _moves(self) -> bool:
        """Return whether the results contain a qdd of the same size as the inputs q and qd."""
        sizes = {array.name: array.size for array in self.inputs}
        qdd = next((array.size for array in self.results if array.name == "qdd"), 0)
        return qdd > 0 and sizes.get("q") == sizes.get("qd") == qdd

    def _values(self) -> dict[str, str]:
        """Return the values of the templates' placeholders by name."""
        first = self.results[0]
        return {
            "NAME": self.name,
            "TITLE": self.title,
            "VERSION": installation.version(),
            "COMMAND": self.command,
            "REAL": SCALARS[self.dtype],
            "RUNTIME": self._runtime(),
            "BODY": self.body.text.replace("PINION_INLINE", _INLINE),
            "ARRAYS": self._arrays(),
            "CONSTANTS": self._constants(),
            "THREADS": str(self.body.threads),
            "SHARED": str(self.shared_bytes),
            "STRIDED_IN": self._strided("Inputs", "Input", self.inputs),
            "STRIDED_OUT": self._strided("Results", "Result", self.results),
            "BLOCKS_IN": self._blocks("BlockInputs", "Input", self.inputs),
            "BLOCKS_OUT": self._blocks("BlockResults", "Result", self.results),
            "MAKERS": self._makers("Input", self.inputs) + self._makers("Result", self.results),
            "REQUEST": self._own("Request", self.inputs),
            "RESULT": self._own("Result", self.results),
            "COMPUTE": self._compute(),
            "SHOWN": first.name,
            "EXAMPLE_ARRAYS": "".join(self._example_array(a, True) for a in self.inputs)
            + "".join(self._example_array(a, False) for a in self.results),
            "GIVEN": ", ".join(f"{a.name}_device" for a in self.inputs),
            "MADE": ", ".join(f"{a.name}_device" for a in self.results),
            "FREE": "".join(
                f"  CHECK(cudaFree({a.name}_device));\n" for a in (*self.inputs, *self.results)
            ),
        }

    def _runtime(self) -> str:
        text = "\n".join(_for_cuda((HEADERS / file).read_text()) for file in _RUNTIME)
        text = text.replace("PINION_FUSED", f"{self.name}_FUSED")
        text = text.replace("namespace pinion {", f"namespace {self.name} {{\nnamespace runtime {{")
        ends = f"}} // namespace runtime\n}} // namespace {self.name}"
        text = text.replace("} // namespace pinion", ends)
        return f"{text.strip()}\n\n#undef {self.name}_FUSED"

    def _arrays(self) -> str:
        rows = [("in ", array) for array in self.inputs]
        rows += [("out", array) for array in self.results]
        return "\n".join(f"//     {side} {a.name}: {a.about}" for side, a in rows)

    def _constants(self) -> str:
        lines = []
        for arrays in (self.inputs, self.results):
            lines += [f"constexpr int {array.name} = {k};" for k, array in enumerate(arrays)]
        lines += [
            f"constexpr int size_{array.name} = {array.size};"
            for array in (*self.inputs, *self.results)
        ]
        return "\n".join(lines)

    def _method(self, kind: str, arrays: Sequence[_Array], element: str) -> str:
        """Return ``get`` or ``put`` of an accessor; `element` is the statement for one array."""
        head = "real get(int e)" if kind == "Input" else "void put(int e, real x)"
        lines = [f'    static_assert(A >= 0 && A < {len(arrays)}, "no such array");']
        for k, array in enumerate(arrays):
            call = element.format(k=k, name=array.name)
            last = k == len(arrays) - 1
            test = "" if k == 0 and last else f"if constexpr (A == {k}) "
            lines.append(f"    {'else ' if k else ''}{'' if last else test}{call};")
        body = "\n".join(lines)
        return f"  template <int A> __device__ __forceinline__ {head} const {{\n{body}\n  }}\n"

    def _accessor(self, kind: str, arrays: Sequence[_Array], types: Sequence[str]) -> str:
        members = "".join(f"  {kind} a{k};\n" for k, kind in enumerate(types))
        call = "return a{k}.get(e)" if kind == "Input" else "a{k}.put(e, x)"
        return f"{members}{self._method(kind, arrays, call)}"

    def _strided(self, struct: str, kind: str, arrays: Sequence[_Array]) -> str:
        types = [f"runtime::Strided{kind}<real>"] * len(arrays)
        members = ",\n            ".join(
            f"runtime::Strided{kind}<real>({a}.first, sample, {a}.step, {a}.apart)"
            for a in _names(arrays)
        )
        return self._source(struct, f"{kind}Array", kind, arrays, types, members)

    def _blocks(self, struct: str, kind: str, arrays: Sequence[_Array]) -> str:
        types = [f"runtime::Block{kind}<real, {array.size}, 16>" for array in arrays]
        members = ",\n            ".join(
            f"{of}({array.name}, sample)" for of, array in zip(types, arrays, strict=True)
        )
        member = "const real *" if kind == "Input" else "real *"
        return self._source(struct, member, kind, arrays, types, members)

    def _source(
        self,
        struct: str,
        member: str,
        kind: str,
        arrays: Sequence[_Array],
        types: Sequence[str],
        initialisers: str,
    ) -> str:
        """Return a C++ struct of a batch's arrays, whose ``at(sample)`` returns an accessor."""
        members = ""
        for array in arrays:
            space = "" if member.endswith("*") else " "
            members += f"  {member}{space}{array.name};\n"
        inner = "".join(f"  {line}\n" for line in self._accessor(kind, arrays, types).splitlines())
        return (
            f"struct {struct} {{\n{members}  struct Sample {{\n{inner}  }};\n"
            f"  __device__ __forceinline__ Sample at(long long sample) const {{\n"
            f"    return {{{initialisers}}};\n  }}\n}};"
        )

    def _makers(self, kind: str, arrays: Sequence[_Array]) -> str:
        struct = f"{kind}s"
        pointer = "const real *" if kind == "Input" else "real *"
        pointers = ", ".join(f"{pointer}{array.name}" for array in arrays)
        aos = ", ".join(f"{{{array.name}, {array.size}, 1}}" for array in arrays)
        soa = ", ".join(f"{{{array.name}, 1, n}}" for array in arrays)
        side = struct.lower()
        return (
            f"__host__ __device__ inline {struct} {side}_aos({pointers}) {{\n"
            f"  return {{{aos}}};\n}}\n"
            f"__host__ __device__ inline {struct} {side}_soa(long long n, {pointers}) {{\n"
            f"  return {{{soa}}};\n}}\n"
        )

    def _own(self, struct: str, arrays: Sequence[_Array]) -> str:
        """Return a C++ struct that holds one sample's arrays in its thread's own memory."""
        members = "".join(f"  real {a.name}[{max(a.size, 1)}];\n" for a in arrays)
        get = self._method("Input", arrays, "return {name}[e]")
        put = self._method("Result", arrays, "{name}[e] = x").replace(") const {", ") {")
        load = "".join(
            f"#pragma unroll\n    for (int e = 0; e < {a.size}; ++e) "
            f"{a.name}[e] = in.template get<{k}>(e);\n"
            for k, a in enumerate(arrays)
        )
        return (
            f"struct {struct} {{\n{members}{get}{put}"
            "  // Copies the values of another accessor.\n"
            "  template <class Other> __device__ __forceinline__ void load(const Other &in) {\n"
            f"{load}  }}\n}};"
        )

    def _compute(self) -> str:
        body = self.body
        if body.slots is None:
            scratch = (
                "// Shared memory of a thread: this function needs none.\n"
                "struct Scratch {};\n"
                "__device__ __forceinline__ Scratch scratch() { return {}; }"
            )
            lines = [
                f"real angle_values[{2 * body.turns + 1}];",
                "const runtime::RegisterTurns<real> turns = {angle_values};",
                "const runtime::Nothing slots = {};",
                "(void)scratch;",
            ]
            short = (
                "\n\ntemplate <class In, class Out>\n"
                "__device__ __forceinline__ void compute(const In &in, Out &&out) {\n"
                "  compute(in, out, Scratch());\n}"
            )
        else:
            scratch = (
                "// Shared memory of a thread, for values that registers cannot hold: of the\n"
                "// shared_bytes that a kernel's launch gives each block.\n"
                "struct Scratch {\n  real *near;\n};\n"
                "__device__ __forceinline__ Scratch scratch() {\n"
                f"  extern __shared__ double {self.name}_shared[];\n"
                f"  return {{(real *){self.name}_shared + threadIdx.x}};\n}}"
            )
            lines = [
                f"volatile real far[{body.far + 1}];"
                if body.far
                else "volatile real *const far = nullptr;",
                f"typedef runtime::Slots<real, {body.near}, {body.pitch}> Here;",
                "const Here slots = {scratch.near, far};",
                f"const runtime::SlotTurns<real, {body.slots}, Here> turns = {{slots}};",
            ]
            short = ""
        lines += [
            "const runtime::Reader<In> reader = {in};",
            "const runtime::Writer<Out> writer = {out};",
            "runtime::angles<real>(reader, turns, runtime::Nothing());",
            "runtime::kernel<real>(reader, turns, runtime::Nothing(), slots, writer);",
        ]
        inner = "".join(f"  {line}\n" for line in lines)
        return (
            f"{scratch}\n\ntemplate <class In, class Out>\n"
            "__device__ __forceinline__ void compute(const In &in, Out &&out, Scratch scratch) {\n"
            f"{inner}}}{short}"
        )

    def _example_array(self, array: _Array, is_input: bool) -> str:
        name, size = array.name, f"n * robot::size_{array.name}"
        lines = [f"std::vector<real> {name}_host({size});", f"real *{name}_device;"]
        if is_input:
            lines.append(f"fill({name}_host);")
        lines.append(f"CHECK(cudaMalloc(&{name}_device, {name}_host.size() * sizeof(real)));")
        if is_input:
            lines += [
                f"CHECK(cudaMemcpy({name}_device, {name}_host.data(),",
                f"                 {name}_host.size() * sizeof(real), cudaMemcpyHostToDevice));",
            ]
        return "".join(f"  {line}\n" for line in lines)
