"""Components that implement each kind of unit.

Every distinct unit becomes one module of the design, converted once and instantiated by name.
Ordinary submodules would not work: Amaranth moves slices, extensions and constants of an
instance's ports into the instance, so that every use becomes a separate module and synthesis takes
minutes instead of seconds (docs/adr/0003).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from amaranth.hdl import Module

from pinion.base.amounts import amount
from pinion.fixedpoint import Format, FormatError, Overflow, Rounding
from pinion.fixedpoint.atan2 import Atan2
from pinion.fixedpoint.piecewise import Piecewise
from pinion.fixedpoint.reciprocal import Reciprocal
from pinion.fixedpoint.sincos import SinCos
from pinion.fixedpoint.sqrt import Sqrt
from pinion.fixedpoint.table import FixedTable
from pinion.formats import AutoFormats, FormatPlan
from pinion.graph import names
from pinion.hls import Timing, UnitKind

from .add import AddUnit
from .align import AlignUnit
from .atan2 import Atan2Unit
from .choices import AbsUnit, LessUnit, MinMaxUnit, SelectUnit
from .clamp import ClampUnit
from .dot import DotUnit
from .hypot2 import Hypot2Unit
from .reciprocal import ReciprocalUnit
from .sincos import SinCosUnit
from .sqrt import SqrtUnit
from .table import TableUnit
from .unit import Unit


@dataclass(frozen=True, kw_only=True)
class UnitComponent:
    """Constructor and port names of the unit for a function such as the sine or the reciprocal.

    Members
    -------
    make : creates the unit from the widths and parameters of a kind.
    operands : operand ports, in the order of an operation's operands.
    controls : control ports, in the order of an operation's control bits.
    """

    make: Callable[[UnitKind, Timing], Unit]
    operands: tuple[str, ...]
    controls: tuple[str, ...] = ()


def _sincos(kind: UnitKind, timing: Timing) -> Unit:
    angle, turn = map(int, kind.parameters)
    tables = SinCos(source=Format(kind.widths[0], angle), target=Format(kind.width, turn))
    return SinCosUnit(tables, port_stages=timing.port)


def _reciprocal(kind: UnitKind, timing: Timing) -> Unit:
    together, smallest = kind.parameters
    target = Format(kind.width, int(together))
    tables = Reciprocal(source=Format(kind.widths[0], 0), target=target, minimum=smallest or None)
    return ReciprocalUnit(tables, table_stages=timing.table)


def _clamp(kind: UnitKind, timing: Timing) -> Unit:
    low, high = map(int, kind.parameters)
    return ClampUnit(width=kind.width, low=low, high=high)


def _hypot2(kind: UnitKind, timing: Timing) -> Unit:
    return Hypot2Unit(width=kind.widths[0], shift=int(kind.parameters[0]), target_width=kind.width)


def _sqrt(kind: UnitKind, timing: Timing) -> Unit:
    odd, point = map(int, kind.parameters)
    formats = Sqrt(source=Format(kind.widths[0], odd), target=Format(kind.width, point))
    return SqrtUnit(formats, latency=timing.sqrt)


def _arctan2(kind: UnitKind, timing: Timing) -> Unit:
    angle = Format(kind.width, int(kind.parameters[0]))
    formats = Atan2(source=Format(kind.widths[0], 0), target=angle)
    return Atan2Unit(formats, latency=timing.arctan2)


def _look_up(kind: UnitKind, timing: Timing) -> Unit:
    operand, result, *numbers = kind.parameters
    table = FixedTable(
        source=Format(kind.widths[0], int(operand)),
        target=Format(kind.width, int(result)),
        piecewise=Piecewise.of(numbers),
    )
    return TableUnit(table, table_stages=timing.table)


def _less(kind: UnitKind, timing: Timing) -> Unit:
    frac = int(kind.parameters[0])
    return LessUnit(width=kind.widths[0], target_width=kind.width, target_frac=frac)


def _select(kind: UnitKind, timing: Timing) -> Unit:
    half = int(kind.parameters[0])
    return SelectUnit(condition_width=kind.widths[0], half=half, width=kind.width)


COMPONENTS: Mapping[str, UnitComponent] = MappingProxyType(
    {
        "sincos": UnitComponent(make=_sincos, operands=("x",), controls=("cosine",)),
        "reciprocal": UnitComponent(make=_reciprocal, operands=("x",)),
        "clamp": UnitComponent(make=_clamp, operands=("i",)),
        "abs": UnitComponent(make=lambda kind, timing: AbsUnit(width=kind.width), operands=("i",)),
        "minmax": UnitComponent(
            make=lambda kind, timing: MinMaxUnit(width=kind.width),
            operands=("a", "b"),
            controls=("largest",),
        ),
        "less": UnitComponent(make=_less, operands=("a", "b")),
        "select": UnitComponent(make=_select, operands=("condition", "a", "b")),
        "hypot2": UnitComponent(make=_hypot2, operands=("a", "b")),
        "sqrt": UnitComponent(make=_sqrt, operands=("x",)),
        "arctan2": UnitComponent(make=_arctan2, operands=("y", "x")),
        "look_up": UnitComponent(make=_look_up, operands=("x",)),
    }
)
"""Components by kind, of :data:`pinion.graph.ops.UNITS`."""


class Selector(Unit):
    """Multiplexer: ``o`` is input number ``sel``.

    Members
    -------
    i0, i1, ... : In(width)
    sel : In(ceil(log2 inputs))
    o : Out(width)

    Latency: 0 (combinational).
    Throughput: one result per cycle.
    """

    def __init__(self, *, inputs: int, width: int) -> None:
        if inputs < 2:
            raise ValueError(f"A selector needs at least 2 inputs, not {inputs}.")
        self.count = inputs
        self.width = width
        super().__init__(
            {f"i{i}": width for i in range(inputs)} | {"sel": (inputs - 1).bit_length()},
            {"o": width},
            latency=0,
        )

    def elaborate(self, platform: object) -> Module:
        """Build a switch on `sel` with one case for each input."""
        m = Module()
        with m.Switch(self.sel):
            for i in range(self.count - 1):
                with m.Case(i):
                    m.d.comb += self.o.eq(getattr(self, f"i{i}"))
            with m.Default():  # larger codes never occur and must not cost logic
                m.d.comb += self.o.eq(getattr(self, f"i{self.count - 1}"))
        return m


def timing_for(
    plan: FormatPlan | AutoFormats, *, multiplier_stages: int = 2, add: int = 1, port: int = 0
) -> Timing:
    """Return the latencies of the units for a format plan.

    Only units for per-signal formats round at their ports, so only they have `port` registers, and
    with them one more register after the table of reciprocals. The slow memories of FPGAs with
    18-bit multipliers also need that register, and so do the long shifts of uniform formats.
    """
    if isinstance(plan, AutoFormats):
        tables = plan.tables
        turn = SinCos(source=tables.angle, target=tables.turn)
        timing = Timing(
            multiplier_stages=multiplier_stages,
            rounding=0,
            port=port,
            word=tables.stored,
            point=None,
            table=2 if port or tables.multiplier.square else 1,
            add=add,
            sincos=SinCosUnit(turn, port_stages=port).latency,
        )
        if not tables.together:
            return timing
        pivot, inverse = Format(tables.stored, 0), Format(tables.stored, tables.together)
        unit = ReciprocalUnit(Reciprocal(source=pivot, target=inverse), table_stages=timing.table)
        return replace(timing, reciprocal=unit.latency)
    unit = SinCosUnit(SinCos(source=plan.default, target=plan.default))
    timing = Timing(
        multiplier_stages=multiplier_stages,
        add=add,
        word=plan.default.width,
        point=plan.default.frac,
        sincos=unit.latency,
    )
    try:
        uniform = Reciprocal(source=plan.default, target=plan.default)
    except FormatError:
        return timing  # many functions do not divide; for the others `make_unit` raises
    reciprocal = ReciprocalUnit(uniform, table_stages=timing.table)
    return replace(timing, reciprocal=reciprocal.latency)


def make_unit(kind: UnitKind, timing: Timing) -> Unit:
    """Create the hardware unit of this kind.

    Raises
    ------
    ValueError
        If no component implements this kind, or its latency differs from the schedule's.
    """
    target = Format(kind.width, 0)
    unit: Unit
    if kind.name == "dot":
        factors = kind.widths[: 2 * kind.products]
        widths_a, widths_b = set(factors[::2]), set(factors[1::2])
        if len(widths_a) > 1 or len(widths_b) > 1:
            raise ValueError(
                f"The products of a dot unit must have the same operand widths, not {kind.widths}."
            )
        unit = DotUnit(
            products=kind.products,
            width_a=widths_a.pop(),
            width_b=widths_b.pop(),
            shift=kind.shift,
            target=target,
            rounding=Rounding(kind.rounding),
            overflow=Overflow(kind.overflow),
            addend=kind.widths[-1] if kind.adds else 0,
            rounded_ports=kind.rounds,
            final_stage=bool(timing.rounding),
            port_stages=timing.port,
            multiplier_stages=timing.stages(kind.wide),
        )
        expected = timing.dot(kind.products, wide=kind.wide)
    elif kind.name == "add":
        if kind.shift or len(set(kind.widths)) > 1:
            raise ValueError(
                "The operands of an adder must have the same width, and its result the same binary "
                f"point; here the widths are {kind.widths}, and the result is shifted by "
                f"{kind.shift}."
            )
        unit = AddUnit(
            width=kind.widths[0],
            operands=len(kind.widths),
            target_width=target.width,
            overflow=Overflow(kind.overflow),
            latency=timing.add,
        )
        expected = timing.add
    elif kind.name == "align":
        unit = AlignUnit(
            source=Format(kind.widths[0], target.frac + kind.shift),
            target=target,
            rounding=Rounding(kind.rounding),
            overflow=Overflow(kind.overflow),
        )
        expected = timing.align
    elif kind.name in COMPONENTS:
        unit = COMPONENTS[kind.name].make(kind, timing)
        expected = timing.function(kind.name)
    else:
        raise ValueError(f"No component implements operations of the kind '{kind.name}'.")
    _check_offsets(kind, unit, timing)
    if kind.saturates != ("ovf" in unit.outputs):
        raise ValueError(
            f"The {kind.label} unit has {'no' if kind.saturates else 'an'} overflow flag, but the "
            f"datapath expects {'one' if kind.saturates else 'none'}."
        )
    if unit.latency != expected:
        raise ValueError(
            f"The {kind.label} unit has a latency of {amount(unit.latency, 'cycle')}, but the "
            f"schedule assumes {expected}."
        )
    return unit


def _check_offsets(kind: UnitKind, unit: Unit, timing: Timing) -> None:
    """Raise if the unit reads a port in a different cycle from the one the schedule assumes."""
    if kind.name != "dot":
        return
    ports = operand_ports(kind)
    for k, port in enumerate(ports):
        counted = timing.offset(names.DOT, len(ports), k, wide=kind.wide)
        if unit.offset(port) != counted:
            raise ValueError(
                f"The {kind.label} unit reads its port {port} after "
                f"{amount(unit.offset(port), 'cycle')}, but the schedule assumes {counted}."
            )


def operand_ports(kind: UnitKind) -> list[str]:
    """Return the names of a kind's operand ports, in the order of an operation's operands."""
    if kind.name == "dot":
        return [f"{letter}{i}" for i in range(kind.products) for letter in "ab"] + ["c"] * kind.adds
    if kind.name == "add":
        return ["a", "b", "c"][: len(kind.widths)]
    return ["i"] if kind.name == "align" else list(COMPONENTS[kind.name].operands)


def control_ports(kind: UnitKind) -> list[str]:
    """Return the names of a kind's control ports, in the order of an operation's control bits."""
    if kind.name == "dot":
        first = 0 if kind.adds else 1
        return [f"neg{i}" for i in range(first, kind.products)] + ["add"] * kind.adds
    if kind.name == "add":
        return ["sub", "sub_c"][: len(kind.widths) - 1]
    return [] if kind.name == "align" else list(COMPONENTS[kind.name].controls)


def multiplier_count(kind: UnitKind) -> int:
    """Return the number of products that a unit of this kind computes per cycle."""
    if kind.name not in COMPONENTS:
        return kind.products
    multipliers: int = getattr(COMPONENTS[kind.name].make(kind, Timing()), "multipliers", 0)
    return multipliers
