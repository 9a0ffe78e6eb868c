"""Top-level module of a build as one RTLIL file: its core between the DMA engine's ports."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from shlex import quote

from amaranth.back import rtlil

from pinion import gateware, link
from pinion.base import installation
from pinion.gateware.emit import RTLIL as CORE_RTLIL
from pinion.gateware.link.path import TopParameters
from pinion.gateware.link.top import TOP, Top
from pinion.link import Manifest, ManifestError, layout_of

RTLIL = "top.il"

LINK_MHZ = 250.0
"""User clock of the DMA engine, for PCIe Gen3 x16 with 512 bits."""


def top_parameters(
    manifest: Manifest, *, crossing: bool = True, link_mhz: float = LINK_MHZ
) -> TopParameters:
    """Return the top's parameters for a build.

    Parameters
    ----------
    manifest : manifest of the build.
    crossing : the core has a separate clock; otherwise it uses the link's.
    link_mhz : clock of the link.
    """
    layout = layout_of(manifest)
    return TopParameters(
        function=layout.function,
        build=layout.build,
        words_in=layout.words_in,
        parameter_words=layout.parameter_words,
        lanes_in=manifest.lanes_in,
        beats_in=manifest.beats_in,
        words_out=manifest.words_out,
        lanes_out=manifest.lanes_out,
        beats_out=manifest.beats_out,
        ii=manifest.ii,
        core_khz=round(1000 * (manifest.clock_mhz if crossing else link_mhz)),
        link_khz=round(1000 * link_mhz),
        crossing=crossing,
        states=bool(manifest.states),
    )


def top_rtlil(folder: Path, *, crossing: bool = True, link_mhz: float = LINK_MHZ) -> str:
    """Return the RTLIL of module ``pinion_top`` and of everything in it, including the core.

    The text depends only on the build and the parameters, not on source positions or paths. Its
    first two lines are comments: generator, version and content, then the digest of the rest.

    Parameters
    ----------
    folder : the build folder.
    crossing : the core has a separate clock, ``core_clk``; otherwise it uses the link's.
    link_mhz : clock of the link, for a register that reports it.

    Raises
    ------
    ManifestError
        If the folder is not a build folder.
    """
    folder = Path(folder)
    manifest, core = Manifest.read_core(folder), _core(folder)
    parameters = top_parameters(manifest, crossing=crossing, link_mhz=link_mhz)
    text = rtlil.convert(Top(parameters=parameters), name=TOP, emit_src=False)
    return _sealed(_headline(parameters, core), f"{text}\n{core}")


def write_top(folder: Path, *, crossing: bool = True, link_mhz: float = LINK_MHZ) -> Path:
    """Write ``top.il`` into a build folder, unless it is already up to date.

    The file is written atomically. Parameters and errors are those of `top_rtlil`.

    Returns
    -------
    The path of the file.
    """
    folder = Path(folder)
    path = folder / RTLIL
    manifest, core = Manifest.read_core(folder), _core(folder)
    parameters = top_parameters(manifest, crossing=crossing, link_mhz=link_mhz)
    try:
        existing = path.read_text()
    except (FileNotFoundError, UnicodeDecodeError):
        existing = ""
    headline, _, body = existing.partition("\n")
    expected = _headline(parameters, core)
    if headline == expected and existing == _sealed(expected, body.partition("\n")[2]):
        return path
    text = top_rtlil(folder, crossing=crossing, link_mhz=link_mhz)
    descriptor, scratch = tempfile.mkstemp(dir=folder, prefix=f".{RTLIL}-")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        os.replace(scratch, path)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise
    return path


def _core(folder: Path) -> str:
    try:
        return (folder / CORE_RTLIL).read_text()
    except FileNotFoundError:
        raise ManifestError(
            f"'{folder}' is not a build folder: it has no {CORE_RTLIL}. Create one with "
            f"`pinion build ROBOT FUNCTION -o {quote(str(folder))}`."
        ) from None


def _sealed(headline: str, text: str) -> str:
    """Return the file's content with a digest, so that a damaged file is detected and replaced."""
    return f"{headline}\n# sha256 {sha256(text.encode()).hexdigest()}\n{text}"


def _headline(parameters: TopParameters, core: str) -> str:
    """Return the first line: generator, version, and a digest of all that the text depends on."""
    content = "\n".join((repr(parameters), version("amaranth"), _sources(), core))
    return f"# pinion.boards.top {installation.version()} {sha256(content.encode()).hexdigest()}"


@cache
def _sources() -> str:
    """Return a digest of the gateware around the core; if it changes, a top is outdated."""
    folders = [Path(folder) / "link" for folder in gateware.__path__]
    folders += [Path(folder) for folder in link.__path__]
    digest = sha256()
    for path in sorted((p for f in folders for p in f.glob("*.py")), key=lambda p: p.name):
        digest.update(path.read_bytes())
    return digest.hexdigest()
