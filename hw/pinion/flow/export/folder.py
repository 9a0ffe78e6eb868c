"""The exported folder: all that other designs need of a core, written completely or not at all."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from pinion.base.escaping import comment
from pinion.base.places import check_place, scratch_beside, settle
from pinion.base.progress import SILENT, Progress
from pinion.flow.build import Build
from pinion.gateware.dsp48e2 import VERILOG as DSP48E2
from pinion.gateware.dsp48e2 import explicit_text
from pinion.gateware.emit import RTLIL
from pinion.gateware.foreign import check_rtlil, check_verilog
from pinion.gateware.imported import CORE

from .interface import ExportError, check_name, core_description, core_ports, module_name
from .ipxact import component_xml, vlnv_version
from .readme import readme_values
from .records import records_header
from .rtl import exported_verilog
from .vectors import IntegerModel, make_vectors, vectors_data

REQUESTS = 64
MOST_REQUESTS = 100_000
SEED = 20210218

_PLACE = re.compile(r"%%(\w+)%%")


def export(
    folder: Path,
    out: Path,
    *,
    model: Callable[[Build], IntegerModel],
    requests: int = REQUESTS,
    name: str | None = None,
    progress: Progress = SILENT,
) -> dict[str, Any]:
    """Write a self-contained folder with the core of a build.

    Parameters
    ----------
    folder : the build folder.
    out : the folder to make; it may exist if it is empty.
    model : returns the integer model of the build, for the test vectors:
        ``lambda build: pinion.cosim.reference.Reference(build).expected``.
    requests : number of test vectors.
    name : of the top module and prefix of all others; robot and function by default.
    progress : receives each step.

    Returns
    -------
    The content of ``core.json``, and ``files``, the paths; JSON-able.

    Raises
    ------
    ValueError
        Subclasses with a message: no build folder, a folder that is not empty, an invalid name.
    """
    if not 1 <= requests <= MOST_REQUESTS:
        raise ExportError(f"The test bench needs 1 to {MOST_REQUESTS} requests, not {requests}.")
    checked = None if name is None else check_name(name)
    folder, out = Path(folder), Path(out)
    _refuse(out)
    build = Build.read(folder)
    name = checked or module_name(build.manifest)
    try:
        rtlil = (folder / RTLIL).read_text()
    except OSError:
        raise ExportError(f"The build folder '{folder}' has no {RTLIL}: build it again.") from None
    _check_hash(folder, build, rtlil)
    check_rtlil(rtlil, where=folder / RTLIL)
    explicit = explicit_text(folder)
    check_verilog(explicit, where=folder / DSP48E2)
    progress.step("Evaluating the integer model")
    vectors = make_vectors(build, model(build), count=requests, seed=SEED)
    progress.step("Writing Verilog")
    texts = _texts(name, build, rtlil, explicit)
    texts["tb/vectors.json"] = json.dumps(vectors_data(name, build, vectors), indent=1) + "\n"
    with scratch_beside(out) as scratch:
        parts = scratch / "export"
        for path, text in texts.items():
            (parts / path).parent.mkdir(parents=True, exist_ok=True)
            (parts / path).write_text(text)
        settle(parts, out)
    return core_data(name, build) | {"files": sorted(texts)}


def core_data(name: str, build: Build) -> dict[str, Any]:
    """Return the content of ``core.json``: name, ports, sizes, timing and hash."""
    m = build.manifest
    return {
        "generator": f"Pinion {m.version}",
        "name": name,
        "verilog": f"rtl/{name}.v",
        "robot": m.robot,
        "function": m.function,
        "options": m.options,
        "formats": m.formats,
        "hash": f"{m.hash:016x}",
        "ii": m.ii,
        "latency_cycles": m.latency_cycles,
        "clock_mhz": m.clock_mhz,
        "lanes_in": m.lanes_in,
        "beats_in": m.beats_in,
        "words_in": m.words_in,
        "lanes_out": m.lanes_out,
        "beats_out": m.beats_out,
        "words_out": m.words_out,
        "ports": [
            {"name": p.name, "direction": p.direction, "width": p.width} for p in core_ports(m)
        ],
        **{
            key: [
                {"name": a.name, "shape": list(a.shape), "unit": a.unit, "words": a.words}
                for a in arrays
            ]
            for key, arrays in (("inputs", m.inputs), ("outputs", m.outputs))
        },
    }


def _texts(name: str, build: Build, rtlil: str, explicit: str) -> dict[str, str]:
    """Return the text of every file except the vectors, by path."""
    manifest = build.manifest
    ports = core_ports(manifest)
    values = {
        "name": name,
        "version": comment(manifest.version),
        "vlnv_version": vlnv_version(manifest),
        "hash": f"{manifest.hash:016x}",
        "description": core_description(manifest),
    }
    return {
        f"rtl/{name}.v": exported_verilog(name, manifest, ports, rtlil, explicit),
        CORE: json.dumps(core_data(name, build), indent=1) + "\n",
        "component.xml": component_xml(name, manifest, ports, _file_sets(name)),
        "records.h": records_header(name, manifest),
        f"{name}.core": fill_template("fusesoc.core", values),
        "tb/bench.py": fill_template("bench.py", values),
        "tb/run.py": fill_template("run.py", values),
        "tb/Makefile": fill_template("Makefile", values),
        "README.md": fill_template(
            "README.md", values | readme_values(name, build, ports, rtlil, explicit)
        ),
    }


def _file_sets(name: str) -> dict[str, list[tuple[str, str]]]:
    """Return the file sets for IP-XACT, which has no file type for Python or JSON."""
    return {
        "rtl": [(f"rtl/{name}.v", "verilogSource")],
        "records": [("records.h", "cSource")],
        "bench": [("tb/bench.py", "unknown"), ("tb/vectors.json", "unknown")],
    }


def fill_template(template: str, values: Mapping[str, str]) -> str:
    """Return a template's text with every ``%%key%%`` replaced."""
    text = (files(__package__) / "templates" / f"{template}.in").read_text()
    return _PLACE.sub(lambda match: values[match[1]], text)


def _check_hash(folder: Path, build: Build, rtlil: str) -> None:
    """Raise if the build hash in the RTL, a constant of 64 bits, differs from the manifest's."""
    if f"64'{build.manifest.hash:064b}" not in rtlil:
        raise ExportError(
            f"'{folder / RTLIL}' does not match its manifest (build {build.manifest.hash:016x}): "
            "build the folder again."
        )


def _refuse(out: Path) -> None:
    check_place(out, "export", ExportError)
    if out.exists() and not out.is_dir():
        raise ExportError(f"'{out}' is a file: give a folder for the export.")
    if out.exists() and any(out.iterdir()):
        raise ExportError(f"'{out}' is not empty: give an empty or a new folder for the export.")
