"""Estimated delays on handmade netlists, figure by figure of the delay table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pinion.report.timing import place_in_words
from pinion.synthesis.arrivals import CombinationalLoopError
from pinion.synthesis.delays import DelayError, DelayTable, load_delays
from pinion.synthesis.netlist import flatten
from pinion.synthesis.roles import path_end, regions_of
from pinion.synthesis.timing import PathTiming, TimingGraph, estimate_timing

Cell = dict[str, Any]

# From the table for UltraScale+.
CLOCK, SETUP, LUT, FAR, NEAR = 0.077, 0.025, 0.12, 0.1, 0.05
NET, NET4, NET1024 = 0.26, 0.36, 1.1


def cell(
    kind: str, inputs: dict[str, list[Any]], outputs: dict[str, list[Any]], **parameters: str
) -> Cell:
    return {
        "type": kind,
        "parameters": parameters,
        "port_directions": {p: "input" for p in inputs} | {p: "output" for p in outputs},
        "connections": inputs | outputs,
    }


def ff(d: Any, q: int, **more: list[Any]) -> Cell:
    return cell("FDRE", {"C": [1], "D": [d], **more}, {"Q": [q]})


def lut(o: int, *inputs: Any) -> Cell:
    return cell(f"LUT{len(inputs)}", {f"I{k}": [bit] for k, bit in enumerate(inputs)}, {"O": [o]})


def module(
    inputs: dict[str, list[int]] | None = None,
    outputs: dict[str, list[Any]] | None = None,
    names: dict[str, list[int]] | None = None,
    **cells: Cell,
) -> dict[str, Any]:
    return {
        "ports": {n: {"direction": "input", "bits": b} for n, b in (inputs or {}).items()}
        | {n: {"direction": "output", "bits": b} for n, b in (outputs or {}).items()},
        "netnames": {n: {"bits": b, "hide_name": 0} for n, b in (names or {}).items()},
        "cells": cells,
    }


def worst(modules: dict[str, Any], *, ports: bool = False, **regions: Any) -> dict[str, Any]:
    table = load_delays("xcup")
    netlist = flatten(modules, "top", table)
    result = estimate_timing(netlist, table, regions=regions, ports=ports)
    first: dict[str, Any] = result["paths"][0]
    assert first["ns"] == pytest.approx(result["ns"]["typical"], abs=2e-3)
    return first


def test_a_path_is_the_sum_of_its_cells_and_nets() -> None:
    top = module(start=ff("0", 10), a=lut(11, 10), b=lut(12, 11, 10), end=ff(12, 13))
    path = worst({"top": top})
    # The first net has two loads; the last stays in its slice.
    assert path["ns"] == pytest.approx(CLOCK + NET4 + LUT + NET + LUT + NEAR + SETUP, abs=1e-3)
    assert path["logic_ns"] == pytest.approx(CLOCK + 2 * LUT + SETUP, abs=1e-3)
    assert path["short_ns"] == pytest.approx(path["ns"] - 0.25 * (NET4 + NET), abs=1e-3)
    assert (path["levels"], path["cells"], path["loads"]) == (2, {"LUT1": 1, "LUT2": 1}, 2)


def test_a_register_that_no_lookup_table_feeds_is_reached_from_outside_its_slice() -> None:
    path = worst({"top": module(start=ff("0", 10), end=ff(10, 11))})
    assert path["ns"] == pytest.approx(CLOCK + NET + FAR + SETUP, abs=1e-3)


def test_nets_take_longer_with_more_loads() -> None:
    loads = {f"r{k}": ff(10, 100 + k) for k in range(300)}
    assert worst({"top": module(start=ff("0", 10), **loads)})["ns"] == pytest.approx(
        CLOCK + NET1024 + FAR + SETUP, abs=1e-3
    )


def test_loads_count_across_modules_and_inverters() -> None:
    # A net with one load in the top has 300 in two instances, behind an inverter.
    inner = module(
        {"i": [2], "clk": [1]},
        invert=cell("INV", {"I": [2]}, {"O": [3]}),
        **{f"r{k}": ff(3, 100 + k) for k in range(150)},
    )
    inner_cell = cell("inner", {"i": [10], "clk": [1]}, {})
    path = worst({"top": module(start=ff("0", 10), one=inner_cell, two=inner_cell), "inner": inner})
    assert path["loads"] == 300
    assert path["ns"] == pytest.approx(CLOCK + NET1024 + FAR + SETUP, abs=1e-3)


def test_a_wire_through_a_module_joins_nets_outside_it() -> None:
    through = module({"i": [2]}, {"o": [2], "low": ["0"]})
    wire = cell("through", {"i": [10]}, {"o": [11], "low": [12]})
    top = module(start=ff("0", 10), wire=wire, logic=lut(13, 11, 12), end=ff(13, 14))
    path = worst({"top": top, "through": through})
    assert path["levels"] == 1
    assert path["ns"] == pytest.approx(CLOCK + NET + LUT + NEAR + SETUP, abs=1e-3)


def test_a_carry_chain_runs_along_its_column() -> None:
    def carry(ci: Any, s: list[Any], co: int, o: list[int]) -> Cell:
        ports = {"CI": [ci], "CYINIT": ["0"], "DI": ["0"] * 4, "S": s}
        return cell("CARRY4", ports, {"CO": [*range(co, co + 4)], "O": o})

    top = module(
        start=ff("0", 10),
        table=lut(11, 10),
        low=carry("0", [11, "0", "0", "0"], 20, [30, 31, 32, 33]),
        high=carry(23, ["0"] * 4, 40, [50, 51, 52, 53]),
        end=ff(53, 60),
    )
    chain = 0.015 + 0.186 + 0.023 + 0.082  # into S, to CO, to the next CI, to O
    expected = CLOCK + NET + LUT + chain + 0.03 + SETUP
    assert worst({"top": top})["ns"] == pytest.approx(expected, abs=1e-3)


def product(*, feeds: list[Cell], keeps: bool = True) -> dict[str, Any]:
    """A product with a register in front of each operand and one behind each bit."""
    block = cell("DSP48E2", {"A": [10, 11], "B": [12]}, {"P": [20, 21]}, PREG="0", AREG="0")
    registers = {f"in{k}": ff(30 + k, 10 + k) for k in range(3)}
    results = {f"out{k}": ff(20 + k, 40 + k) for k in range(2 if keeps else 1)}
    more = {} if keeps else {"logic": lut(50, 21), "end": ff(50, 51)}
    drivers = {f"lut{k}": lut(30 + k, 60) for k in range(3)}
    others = {f"other{k}": feed for k, feed in enumerate(feeds)}
    return module(
        start=ff("0", 60), block=block, **registers, **results, **more, **drivers, **others
    )


def test_registers_around_a_product_count_as_its_own() -> None:
    table = load_delays("xcup")
    inside = TimingGraph(flatten({"top": product(feeds=[])}, "top", table), table, ports=False)
    assert inside.absorbed == 5
    # The slowest: from a table through a net, not a wire in its slice, to the block's register.
    to_block = CLOCK + NET4 + LUT + NET + 0.28
    assert PathTiming(inside, scale=1.0).worst_ns == pytest.approx(
        max(to_block, 1.07 + 0.55 + 0.18)
    )
    # An operand with another reader keeps its registers outside, for all its bits.
    shared = {"top": product(feeds=[ff(10, 70)])}
    outside = TimingGraph(flatten(shared, "top", table), table, ports=False)
    assert outside.absorbed == 3
    to_product = CLOCK + NET4 + 1.0 + 0.55 + 0.18
    assert PathTiming(outside, scale=1.0).worst_ns == pytest.approx(to_product)
    # So does a product with a bit that goes elsewhere: its path continues through the block.
    bare = TimingGraph(
        flatten({"top": product(feeds=[], keeps=False)}, "top", table), table, ports=False
    )
    assert bare.absorbed == 3
    through = 1.07 + 0.55 + NET + LUT + NEAR + SETUP
    assert PathTiming(bare, scale=1.0).worst_ns == pytest.approx(through)


def test_ports_count_as_registers_where_asked_for() -> None:
    top = module({"i": [10]}, {"o": [12]}, a=lut(11, 10), b=lut(12, 11))
    table = load_delays("xcup")
    netlist = flatten({"top": top}, "top", table)
    none = estimate_timing(netlist, table, regions={}, ports=False)
    assert none["paths"] == [] and none["mhz"]["typical"] == 0
    path = worst({"top": top}, ports=True)
    assert path["from"]["cell"] == path["to"]["cell"] == "port"
    assert path["levels"] == 2


def test_memories_start_and_end_paths_and_are_read_between() -> None:
    shift = cell("SRL16E", {"A0": [10], "CE": ["1"], "CLK": [1], "D": [11]}, {"Q": [12]})
    top = module(address=ff("0", 10), data=ff("0", 11), shift=shift, end=ff(12, 13))
    path = worst({"top": top})
    assert path["cells"] == {} and path["from"]["cell"] == "SRL16E"
    assert path["ns"] == pytest.approx(0.55 + NET + FAR + SETUP, abs=1e-3)


def test_classes_of_paths_name_units_registers_and_regions() -> None:
    unit = module(
        {"slot": [2], "clk": [1]},
        names={"dot2_0_a_sel": [10, 11], "v7_s0": [12]},
        logic=lut(3, 2),
        low=ff(3, 10),
        high=ff(3, 11),
        stored=ff("0", 12, CE=[2]),
    )
    unit_cell = cell("top.datapath.dot2_0", {"slot": [5], "clk": [1]}, {})
    path = module({"slot": [5], "clk": [1]}, dot2_0=unit_cell)
    top = module(
        names={"slot": [20]},
        slot=ff("0", 20),
        datapath=cell("top.datapath", {"slot": [20], "clk": [1]}, {}),
    )
    modules = {"top": top, "top.datapath": path, "top.datapath.dot2_0": unit}
    schedule = {"operations": [{"kind": "dot2", "unit": 0, "region": f"pass[{k}]"} for k in (1, 2)]}
    table = load_delays("xcup")
    result = estimate_timing(
        flatten(modules, "top", table), table, regions=regions_of(schedule), ports=False
    )
    first, second = result["paths"]
    assert first["from"] == {
        **{"register": "slot", "unit": "", "inside": "", "regions": [], "cell": "FDRE"},
        "role": "top: slot",
    }
    assert first["to"]["register"] == "dot2_0_a_sel[0]" and first["to"]["unit"] == "dot2_0"
    assert first["to"]["regions"] == ["pass[1]", "pass[2]"] and first["endpoints"] == 2
    assert first["to"]["role"] == "select lines of an operand"
    assert second["to"]["role"] == "stored value, enable"


def test_a_block_in_a_unit_is_of_that_unit() -> None:
    table = load_delays("xcup")
    ports: dict[str, list[Any]] = {"slot": [5], "clk": [1]}
    names = ("top", "datapath", "link3", "dot2_0", "unit", "mac1")
    paths = [".".join(names[: k + 1]) for k in range(len(names))]
    modules = {
        path: module(ports, **{label: cell(f"{path}.{label}", ports, {})})
        for path, label in zip(paths, names[1:], strict=False)
    }
    modules[paths[-1]] = module(ports, names={"p": [9]}, sum=ff(5, 9))
    netlist = flatten(modules, "top", table)
    place = path_end(netlist, 0, port="", regions={"dot2_0": ("pass[1]",)})
    assert (place.register, place.unit, place.regions) == ("p", "dot2_0", ("pass[1]",))
    assert place.inside == "datapath.link3.dot2_0.unit.mac1"
    assert place.role == "mac: p"
    assert place_in_words(place.as_data()) == "p of mac1 of unit dot2_0 in pass[1]"
    # A file that has no unit for it has the path.
    older = place.as_data() | {"unit": "", "regions": []}
    assert place_in_words(older) == "p of mac1 of unit dot2_0"


def test_a_cell_without_a_name_is_still_a_place() -> None:
    table = load_delays("xcup")
    netlist = flatten({"top": module(a=ff("0", 10), b=ff(10, 11))}, "top", table)
    place = path_end(netlist, 0, port="", regions={})
    assert (place.register, place.inside, place.role) == ("", "", "top: FDRE")


def test_an_unknown_cell_is_refused() -> None:
    with pytest.raises(DelayError, match=r"'xcup' has no entry for the cell 'NEW1' with"):
        flatten({"top": module(a=cell("NEW1", {}, {}))}, "top", load_delays("xcup"))
    with pytest.raises(DelayError, match=r"no delay table 'none'"):
        load_delays("none")


@pytest.mark.parametrize("family", ["xcup", "ecp5"])
def test_tables_are_in_order(family: str) -> None:
    table = load_delays(family)
    assert (table.nets[1:] >= table.nets[:-1]).all() and len(table.nets) == len(table.loads) + 1
    assert table.scale["short"] < table.scale["typical"] == 1.0 < table.scale["long"]
    slow: DelayTable = replace(table, nets=2 * table.nets)
    assert slow.net(table.loads) == pytest.approx(2 * table.net(table.loads))


def test_a_path_crosses_modules_and_ends_at_registers() -> None:
    inner = module({"i": [2]}, {"o": [4]}, a=lut(3, 2), b=lut(4, 3))
    top = module(
        start=ff(20, 10),
        first=cell("inner", {"i": [10]}, {"o": [11]}),
        invert=cell("INV", {"I": [11]}, {"O": [12]}),
        second=cell("inner", {"i": [12]}, {"o": [13]}),
        end=ff(13, 14),
        behind=lut(20, 14),
    )
    path = worst({"top": top, "inner": inner})
    assert path["levels"] == 4 and path["cells"] == {"LUT1": 4}
    assert (path["from"]["cell"], path["to"]["cell"]) == ("FDRE", "FDRE")


@pytest.mark.parametrize(("address", "levels"), [("1", 1), (11, 3)])
def test_memories_of_luts_are_logic_from_address_to_output_alone(
    address: int | str, levels: int
) -> None:
    srl = cell("SRL16E", {"A0": [address], "CLK": [1], "D": [11]}, {"Q": [12]})
    top = module(start=ff("0", 10), before=lut(11, 10), srl=srl, after=lut(13, 12), end=ff(13, 14))
    assert worst({"top": top})["levels"] == levels


@pytest.mark.parametrize(("stage", "levels"), [("0", 3), ("1", 1)])
def test_a_dsp_block_is_logic_unless_it_has_registers(stage: str, levels: int) -> None:
    block = cell("DSP48E2", {"A": [11], "B": ["0"]}, {"P": [12]}, AREG="0", MREG=f"0000{stage}")
    logic = {"before": lut(11, 10), "after": lut(13, 12)}
    top = module(start=ff("0", 10), dsp=block, end=ff(13, 14), **logic)
    assert worst({"top": top})["levels"] == levels


def test_a_loop_is_an_error_with_a_name() -> None:
    top = module(one=lut(2, 1), two=lut(1, 2))
    with pytest.raises(CombinationalLoopError, match=r"loop through or upstream of (one|two)"):
        worst({"top": top})


def test_a_design_without_registers_has_no_path() -> None:
    table = load_delays("xcup")
    result = estimate_timing(flatten({"top": module()}, "top", table), table, regions={})
    assert result["paths"] == [] and result["ns"]["typical"] == 0.0 == result["mhz"]["typical"]
