"""Which pass of Yosys runs, read from a log that grows."""

from __future__ import annotations

from pathlib import Path

from pinion.gateware.yosys import PassReader


def test_passes_are_told_as_they_begin(tmp_path: Path) -> None:
    log, said = tmp_path / "x.log", list[str]()
    log.write_text("")
    look = PassReader(log, "Mapping", said.append)
    look()
    assert said == []

    def grows(text: str) -> str | None:
        with log.open("a") as file:
            file.write(text)
        before = len(said)
        look()
        return said[-1] if len(said) > before else None

    # Half a line is none, and what is inside of a pass of a pass is not told.
    assert grows("-- Executing script file `x.ys' --\n\n1. Executing RTL") is None
    assert grows("IL frontend.\n") == "Mapping: Yosys is at pass 1, RTLIL"
    assert grows("4.40. Executing TECHMAP pass (map to technology primitives).\n") == (
        "Mapping: Yosys is at pass 4.40, TECHMAP"
    )
    assert grows("\n4.40.12. Executing OPT_EXPR pass (perform const folding).\n") is None
    assert grows("4.41. Executing OPT pass\n5. Executing Verilog-2005 frontend: a.v\n") == (
        "Mapping: Yosys is at pass 5, Verilog-2005"
    )
    assert grows("Parsed 3.5. Executing nothing.\n") is None
    # Nothing comes behind that one, and whoever reads it is told so.
    assert grows("6. Executing ABC pass (technology mapping using ABC).\n") == (
        "Mapping: Yosys is at pass 6, ABC, the last one that it tells of"
    )
