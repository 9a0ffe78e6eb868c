"""A mapped netlist as arrays: numbered cells and nets, and pins by kind as in the delay table.

Yosys writes every module once, however many instances the design has. Each is read once
(`_Module`), and instances add offsets: a core of a hundred thousand cells takes seconds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pinion.base.arrays import Floats, Ints

from .delays import CellDelays, DelayTable, matches

# Tools absorb these into their neighbours; they have neither delay nor load.
FREE = {"INV": ("I", "O"), "BUF": ("I", "O")}

# Paths between many pins go through a point inside the cell if that saves arcs.
_DIRECT = 64

_COLUMNS = {
    "arcs": ("source", "target", "cell", "pin"),
    "launches": ("node", "cell", "pin"),
    "captures": ("node", "cell", "pin"),
    "loads": ("node", "cell", "pin"),
    "outputs": ("node", "cell", "pin"),
}


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Table of cell pins: nodes (nets, or points inside cells), cells, pin kinds, delays [ns]."""

    node: Ints
    cell: Ints
    pin: Ints
    ns: Floats


@dataclass(frozen=True, kw_only=True)
class Netlist:
    """Flat netlist of a design as arrays.

    Members
    -------
    nodes : number of nets and of points inside cells.
    source, target, cell, pin, ns : of each arc, a path through a cell: its end nodes, its cell, the
        kind of the entry pin (-1 for a point inside), and its delay without the net in front.
    launches, captures : where clocked cells start and end paths.
    loads : input pins; the number of a net's rows is its number of loads.
    outputs : output pins.
    inputs, results : nodes of the top module's ports.
    pins : (type of cell, port, entry of the delay table) by kind of pin.
    """

    nodes: int
    source: Ints
    target: Ints
    cell: Ints
    pin: Ints
    ns: Floats
    launches: Rows
    captures: Rows
    loads: Rows
    outputs: Rows
    inputs: Ints
    results: Ints
    pins: tuple[tuple[str, str, CellDelays], ...]
    _first: tuple[int, ...]
    _places: tuple[tuple[str, _Module], ...]

    def place(self, cell: int) -> tuple[str, str, str]:
        """Return a cell's instance path (each level followed by a dot), label and type."""
        path, module, local = self._find(cell)
        return path, module.labels[local], module.kinds[local]

    def module(self, cell: int) -> str:
        """Return the name of the module that holds a cell."""
        return self._find(cell)[1].name

    def register(self, cell: int) -> str:
        """Return the design's name for the net that a cell drives, or "" if it has none."""
        _, module, local = self._find(cell)
        return module.output_name(local)

    def _find(self, cell: int) -> tuple[str, _Module, int]:
        k = bisect_right(self._first, cell) - 1
        path, module = self._places[k]
        return path, module, cell - self._first[k]


def flatten(modules: Mapping[str, Any], top: str, table: DelayTable) -> Netlist:
    """Flatten a hierarchical netlist into arrays.

    Parameters
    ----------
    modules : ``modules`` of Yosys' JSON netlist, hierarchy kept, mapped to primitives.
    top : name of the top module.
    table : delays of the family.

    Raises
    ------
    pinion.synthesis.delays.DelayError
        If the table lacks a cell.
    """
    reader = _Reader(modules, table)
    flat = _Flat()
    root = reader.module(top)
    numbers = flat.fresh(root, np.empty(0, np.int64), np.empty(0, np.int64))
    flat.place(root, "", numbers)

    def rows(name: str) -> Rows:
        columns = flat.columns[name]
        return Rows(**{column: _join(parts) for column, parts in columns.items()})

    arcs = {column: _join(parts) for column, parts in flat.columns["arcs"].items()}
    ports = {direction: numbers[root.ports_of(direction)] for direction in ("input", "output")}
    return Netlist(
        nodes=flat.nodes,
        **arcs,
        launches=rows("launches"),
        captures=rows("captures"),
        loads=rows("loads"),
        outputs=rows("outputs"),
        inputs=ports["input"],
        results=ports["output"],
        pins=tuple(reader.pins),
        _first=tuple(flat.first),
        _places=tuple(flat.places),
    )


def _join(parts: list[NDArray[Any]]) -> Any:
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


class _Module:
    """Module of the netlist, with its nodes and its own cells numbered from 0."""

    def __init__(self, name: str, data: Mapping[str, Any]) -> None:
        self.name = name
        self.data = data
        self.nodes = 0
        self.labels: list[str] = []
        self.kinds: list[str] = []
        self.rows: dict[str, dict[str, Any]] = {
            table: {column: [] for column in (*columns, "ns")}
            for table, columns in _COLUMNS.items()
        }
        self.ports: dict[str, list[int]] = {}  # nodes, -1 for constants
        # Label, module, and nodes of its ports inside and outside.
        self.children: list[tuple[str, _Module, Ints, Ints]] = []
        self._names: dict[int, str] | None = None

    def add(self, table: str, ns: float, *values: int) -> None:
        rows = self.rows[table]
        for column, value in zip(_COLUMNS[table], values, strict=True):
            rows[column].append(value)
        rows["ns"].append(ns)

    def freeze(self) -> None:
        for columns in self.rows.values():
            for name, values in columns.items():
                kind = np.float64 if name == "ns" else np.int64
                columns[name] = np.array(values, kind)

    def ports_of(self, direction: str) -> Ints:
        ports = self.data["ports"]
        driven = {
            node
            for name, nodes in self.ports.items()
            if ports[name].get("direction") == direction
            for node in nodes
            if node >= 0
        }
        return np.array(sorted(driven), np.int64)

    def output_name(self, local: int) -> str:
        """Return the design's name of the net that a cell drives; "" if it has none."""
        if self._names is None:
            self._names = {}
            for name, net in self.data.get("netnames", {}).items():
                if not net.get("hide_name"):
                    for index, bit in enumerate(net["bits"]):
                        label = name if len(net["bits"]) == 1 else f"{name}[{index}]"
                        self._names.setdefault(bit, label)
        cell = self.data["cells"][self.labels[local]]
        for port, bits in cell["connections"].items():
            if cell["port_directions"][port] == "output":
                for bit in bits:
                    if bit in self._names:
                        return self._names[bit]
        return ""


class _Reader:
    """Reader of modules, which numbers the kinds of pins."""

    def __init__(self, modules: Mapping[str, Any], table: DelayTable) -> None:
        self._data = modules
        self._table = table
        self._known: dict[str, _Module] = {}
        self._forms: dict[Any, _Form] = {}
        self.pins: list[tuple[str, str, CellDelays]] = []

    def module(self, name: str) -> _Module:
        if name not in self._known:
            self._known[name] = self._read(name)
        return self._known[name]

    def _read(self, name: str) -> _Module:
        data = self._data[name]
        module = _Module(name, data)
        nets = _Nets()
        inside: list[tuple[str, Mapping[str, Any], _Module]] = []
        for label, cell in data["cells"].items():
            kind = cell["type"]
            wires = cell["connections"]
            if kind in FREE:
                source, target = FREE[kind]
                nets.unite(wires[source][0], wires[target][0])
            elif kind in self._data and not _is_primitive(self._data[kind]):
                child = self.module(kind)
                inside.append((label, wires, child))
                # Wires through a child join nets outside it.
                groups: dict[int, list[Any]] = defaultdict(list)
                for port, bits in wires.items():
                    for node, bit in zip(child.ports[port], bits, strict=True):
                        if node >= 0:
                            groups[node].append(bit)
                for first, *others in groups.values():
                    for other in others:
                        nets.unite(first, other)
        for port, value in data["ports"].items():
            module.ports[port] = [nets.number(bit) for bit in value["bits"]]
        for label, wires, child in inside:
            pairs = [
                (node, outside)
                for port, bits in wires.items()
                for node, bit in zip(child.ports[port], bits, strict=True)
                if node >= 0 and (outside := nets.number(bit)) >= 0
            ]
            both = np.array(pairs, np.int64).reshape(-1, 2)
            module.children.append((label, child, both[:, 0], both[:, 1]))
        for label, cell in data["cells"].items():
            kind = cell["type"]
            is_module = kind in self._data and not _is_primitive(self._data[kind])
            if not is_module and kind not in FREE and not kind.startswith("$"):  # notes, not cells
                self._cell(module, nets, label, cell)
        module.nodes = nets.count
        module.freeze()
        return module

    def _cell(self, module: _Module, nets: _Nets, label: str, cell: Mapping[str, Any]) -> None:
        form = self._form(cell)
        number = len(module.labels)
        module.labels.append(label)
        module.kinds.append(cell["type"])
        wires = cell["connections"]
        points = [nets.fresh() for _ in range(form.points)]

        def node(port: str, bit: int) -> int:
            return points[bit] if port == "@" else nets.number(wires[port][bit])

        for port, bit, pin in form.loads:
            if (net := node(port, bit)) >= 0:
                module.add("loads", 0.0, net, number, pin)
        for port, bit, pin in form.outputs:
            if (net := node(port, bit)) >= 0:
                module.add("outputs", 0.0, net, number, pin)
        for table in ("launches", "captures"):
            for port, bit, pin, ns in form.clocked[table]:
                if (net := node(port, bit)) >= 0:
                    module.add(table, ns, net, number, pin)
        for sources, targets, ns in form.arcs:
            ends = [net for port, bit in targets if (net := node(port, bit)) >= 0]
            for port, bit, pin in sources:
                if (net := node(port, bit)) >= 0:
                    for end in ends:
                        module.add("arcs", ns, net, end, number, pin)

    def _form(self, cell: Mapping[str, Any]) -> _Form:
        """Return a cell's pins and arcs with delays from the table; shared by equal cells."""
        kind, parameters = cell["type"], cell.get("parameters", {})
        widths = tuple((port, len(bits)) for port, bits in cell["connections"].items())
        entry = self._table.find(kind, parameters)
        key = (kind, id(entry), widths)
        if key not in self._forms:
            self._forms[key] = self._make_form(kind, entry, widths, cell["port_directions"])
        return self._forms[key]

    def _make_form(
        self,
        kind: str,
        entry: CellDelays,
        widths: tuple[tuple[str, int], ...],
        directions: Mapping[str, str],
    ) -> _Form:
        numbers: dict[str, int] = {}

        def pin(port: str) -> int:
            if port not in numbers:
                numbers[port] = len(self.pins)
                self.pins.append((kind, port, entry))
            return numbers[port]

        def of(patterns: str, direction: str) -> list[tuple[str, int]]:
            if patterns.startswith("@"):
                return [("@", names.index(patterns))]
            return [
                (port, bit)
                for port, width in widths
                if directions[port] == direction
                for bit in range(width)
                if matches(port, bit, patterns)
            ]

        names = sorted({end for line in entry.path for end in line[:2] if end.startswith("@")})
        form = _Form(clocked={"launches": [], "captures": []})
        loads: dict[tuple[str, int], None] = {}
        for ports, ns in entry.setup:
            for port, bit in of(ports, "input"):
                loads[port, bit] = None
                form.clocked["captures"].append((port, bit, pin(port), ns))
        for ports, ns in entry.launch:
            for port, bit in of(ports, "output"):
                form.clocked["launches"].append((port, bit, pin(port), ns))
        for start, end, ns in entry.path:
            sources, targets = of(start, "input"), of(end, "output")
            loads.update(dict.fromkeys(s for s in sources if s[0] != "@"))
            entering = [(port, bit, -1 if port == "@" else pin(port)) for port, bit in sources]
            if len(sources) * len(targets) > _DIRECT:
                names.append(f"@{len(names)}")
                point = ("@", len(names) - 1)
                form.arcs += [(entering, [point], ns), ([(*point, -1)], targets, 0.0)]
            else:
                form.arcs.append((entering, targets, ns))
        form.points = len(names)
        form.loads = [(port, bit, pin(port)) for port, bit in loads]
        form.outputs = [
            (port, bit, pin(port))
            for port, width in widths
            if directions[port] == "output"
            for bit in range(width)
        ]
        return form


@dataclass
class _Form:
    """Pins, clocked ports and arcs of a kind of cell; the port ``@`` is a point inside it."""

    clocked: dict[str, list[tuple[str, int, int, float]]]
    points: int = 0

    def __post_init__(self) -> None:
        self.loads: list[tuple[str, int, int]] = []
        self.outputs: list[tuple[str, int, int]] = []
        self.arcs: list[tuple[list[tuple[str, int, int]], list[tuple[str, int]], float]] = []


class _Nets:
    """Nets of one module; connected bits of the JSON netlist share a number."""

    def __init__(self) -> None:
        self.count = 0
        self._same: dict[Any, Any] = {}
        self._numbers: dict[Any, int] = {}

    def unite(self, first: Any, second: Any) -> None:
        """Record that two bits are connected; constants stay separate."""
        if not isinstance(first, str) and not isinstance(second, str):
            first, second = self._root(first), self._root(second)
            if first != second:
                self._same[second] = first

    def number(self, bit: Any) -> int:
        """Return the number of a bit's net; -1 for a constant."""
        if isinstance(bit, str):
            return -1
        root = self._root(bit) if bit in self._same else bit
        if root not in self._numbers:
            self._numbers[root] = self.fresh()
        return self._numbers[root]

    def fresh(self) -> int:
        self.count += 1
        return self.count - 1

    def _root(self, bit: Any) -> Any:
        while bit in self._same:
            bit = self._same[bit]
        return bit


class _Flat:
    """Flat netlist under construction, to which instances are added."""

    def __init__(self) -> None:
        self.nodes = 0
        self.cells = 0
        self.first: list[int] = []
        self.places: list[tuple[str, _Module]] = []
        self.columns: dict[str, dict[str, list[NDArray[Any]]]] = {
            table: {column: [] for column in (*columns, "ns")}
            for table, columns in _COLUMNS.items()
        }

    def fresh(self, module: _Module, inner: Ints, outer: Ints) -> Ints:
        """Number the nodes of an instance, given the numbers of its ports' nodes."""
        numbers = np.full(module.nodes, -1, np.int64)
        numbers[inner] = outer
        inner_nodes = numbers < 0
        count = int(inner_nodes.sum())
        numbers[inner_nodes] = np.arange(self.nodes, self.nodes + count)
        self.nodes += count
        return numbers

    def place(self, module: _Module, path: str, numbers: Ints) -> None:
        self.first.append(self.cells)
        self.places.append((path, module))
        for table, columns in module.rows.items():
            for name, values in columns.items():
                if name in ("node", "source", "target"):
                    values = numbers[values]
                elif name == "cell":
                    values = values + self.cells
                self.columns[table][name].append(values)
        self.cells += len(module.labels)
        for label, child, inner, outer in module.children:
            self.place(child, f"{path}{label}.", self.fresh(child, inner, numbers[outer]))


def _is_primitive(module: Mapping[str, Any]) -> bool:
    attributes = module.get("attributes", {})
    return any(key in attributes for key in ("blackbox", "whitebox", "abc9_box"))
