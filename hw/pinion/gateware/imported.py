"""Exported cores as components of other Amaranth designs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from amaranth.hdl import ClockSignal, Instance, Module, ResetSignal
from amaranth.lib import stream
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import In, Out

from .component import Component

CORE = "core.json"
WORD = 32

_KEYS = ("name", "verilog", "hash", "ii", "latency_cycles", "lanes_in", "lanes_out")


class ImportedCoreError(ValueError):
    """Error for a folder that is not an intact exported core."""


class ExportedCore(Component):
    """Component around the Verilog of a core that ``pinion export`` wrote.

    The Verilog is added to the platform as a separate file; without a platform, pass the file
    ``verilog`` to the tool that reads the design. Amaranth's own simulator does not read Verilog:
    it simulates only what surrounds the core.

    Parameters
    ----------
    folder : the exported folder.

    Members
    -------
    i : In(stream.Signature({"data": 32 * lanes_in, "last": 1}))
        Requests: ``beats_in`` beats of ``lanes_in`` float32 words, the first lowest; ``last`` on
        the last beat of each.
    o : Out(stream.Signature({"data": 32 * lanes_out, "last": 1, "flag": 1}))
        Results, in the order of the requests; ``flag`` on the last beat marks an unusable result.
    protocol_error : Out(1)
        Some request's ``last`` was not on its last beat; stays until reset.
    build_hash : Out(64)

    ``facts`` is the content of ``core.json``: sizes, arrays of the records, ports, timing.

    Latency: ``facts["latency_cycles"]``, from the first beat of a request to the last beat
    of its result, on an idle core with a receiver that is always ready.
    Throughput: one record every ``facts["ii"]`` cycles.

    Raises
    ------
    ImportedCoreError : the folder lacks a file, or a file belongs to another build.
    """

    def __init__(self, *, folder: Path) -> None:
        self.folder = Path(folder)
        self.facts = _read(self.folder)
        self.verilog = self.folder / self.facts["verilog"]
        super().__init__(
            {
                "i": In(stream.Signature(_beat(self.facts["lanes_in"], "last"))),
                "o": Out(stream.Signature(_beat(self.facts["lanes_out"], "last", "flag"))),
                "protocol_error": Out(1),
                "build_hash": Out(64),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Instantiate the Verilog module in the domain ``sync``."""
        m = Module()
        if hasattr(platform, "add_file"):
            platform.add_file(self.verilog.name, self.verilog.read_text())
        m.submodules.core = Instance(
            self.facts["name"],
            i_aclk=ClockSignal(),
            i_aresetn=~ResetSignal(allow_reset_less=True),
            i_s_axis_tdata=self.i.payload.data,
            i_s_axis_tlast=self.i.payload.last,
            i_s_axis_tvalid=self.i.valid,
            o_s_axis_tready=self.i.ready,
            o_m_axis_tdata=self.o.payload.data,
            o_m_axis_tlast=self.o.payload.last,
            o_m_axis_tuser=self.o.payload.flag,
            o_m_axis_tvalid=self.o.valid,
            i_m_axis_tready=self.o.ready,
            o_protocol_error=self.protocol_error,
            o_build_hash=self.build_hash,
        )
        return m


def _beat(lanes: int, *bits: str) -> StructLayout:
    return StructLayout({"data": WORD * lanes, **dict.fromkeys(bits, 1)})


def _read(folder: Path) -> dict[str, Any]:
    """Return the metadata of an exported core, checked against its Verilog."""
    try:
        facts = json.loads((folder / CORE).read_text())
        missing = [key for key in _KEYS if key not in facts]
        if missing:
            raise ValueError(f"{CORE} lacks {', '.join(missing)}")
        verilog = (folder / facts["verilog"]).read_text()
        if f"build {facts['hash']}" not in verilog.partition("\n")[0]:
            raise ValueError(f"{facts['verilog']} and {CORE} belong to different builds")
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ImportedCoreError(
            f"'{folder}' is not an intact exported core ({error}): create one with "
            "'pinion export DIR -o OUT'."
        ) from None
    return dict(facts)
