"""The datapath of a bound schedule: units, operand selection, registers, flags.

Structure (docs/adr/0003 has the measurements behind it):

- Units run freely and are never stalled. The only control is a slot counter of ``ii`` states:
  every selector, constant and sign is a function of the slot, registered beside its port.
- A result is in its unit's output register for one cycle; values that live longer have separate
  registers, loaded in the value's slot.
- Constants are words of small ROMs beside the ports that use them.
- Each request's flag travels in a shift register beside the data, one stage every ``ii`` cycles.
- A word of state has a register that advances only with a request.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

from amaranth.hdl import (
    C,
    Cat,
    ClockSignal,
    Instance,
    Module,
    Shape,
    ShapeLike,
    Signal,
    Value,
    signed,
)
from amaranth.lib.wiring import In, Out

from pinion.base.progress import SILENT, Progress
from pinion.graph import Graph, names
from pinion.graph.evaluate import formats
from pinion.graph.ops import constant_integer
from pinion.hls import Binding, Operand, UnitKind
from pinion.hls.operations import kind_names
from pinion.hls.schedule.binding import StateRegister

from .component import Component
from .copies import LOADS, MARK, Copies
from .dot import DotUnit
from .library import Selector, control_ports, make_unit, operand_ports
from .mac import Mac
from .shift import LENGTHS, ShiftRegister
from .unit import delay, look_up

# Cycles from a unit's overflow output to the request's flag.
FLAG_DELAY = 2

LARGE = 20_000
"""Words of storage above which a core counts as large."""

FUNCTIONS = 24
"""Functions of the slot per slot register; with more, synthesis shares logic among them until it is
several lookup tables deep."""


class Datapath(Component):
    """Component that executes a bound schedule: units, operand selection, registers, flags.

    Parameters
    ----------
    graph : the fixed graph.
    binding : of its schedule.
    progress : receives the completed share of the units during elaboration.

    Members
    -------
    slot_ahead : In
        Slot of the cycle after the next, 0 to ii - 1; 2 mod ii after a reset. Cycle 0 of a request
        falls in slot 0.
    word0, word1, ... : In(signed)
        Input words by position in the record, sampled at the end of every cycle of the last slot.
    flag_i : In(1)
        Flag that comes with the request, sampled with the words.
    lane0, lane1, ... : Out(signed)
        Result words; word w is on its lane in the cycle that the binding names.
    valid0, valid1, ..., fresh0, fresh1, ... : In(1), only those that words of state need
        Stage k, k times ``ii`` cycles old, holds a request; it is the first after a reset of the
        state.
    flag0, flag1, ... : Out(1)
        Flag of the request in stage k, k times ``ii`` cycles old.

    Latency: the schedule's, in cycles from slot 0 after the words are sampled.
    Throughput: one request every ``ii`` cycles.
    """

    def __init__(self, *, graph: Graph, binding: Binding, progress: Progress = SILENT) -> None:
        self.graph = graph
        self.progress = progress
        self.binding = binding
        self.ii = binding.schedule.ii
        self.formats = formats(graph)
        # Words are stored as integers of their input's format.
        ports: dict[str, object] = {
            "slot_ahead": In(range(max(2, self.ii))),
            "flag_i": In(1),
        }
        for position, node in enumerate(binding.inputs):
            ports[f"word{position}"] = In(signed(self.formats[node].width))
        self.valid_stages = sorted({state.taken(self.ii) // self.ii for state in binding.states})
        self.fresh_stages = sorted({(state.arrival - 1) // self.ii for state in binding.states})
        ports |= {f"valid{stage}": In(1) for stage in self.valid_stages}
        ports |= {f"fresh{stage}": In(1) for stage in self.fresh_stages}
        for lane in range(binding.lanes_out):
            ports[f"lane{lane}"] = Out(signed(self.lane_width))
        last = max(out.cycle for out in binding.outputs)
        self.flag_stages = (max(last, binding.schedule.length) + 16) // self.ii + 1
        for stage in range(self.flag_stages):
            ports[f"flag{stage}"] = Out(1)
        super().__init__(ports)
        self.modules: dict[str, str] = {}
        self.blocks: dict[str, Mac] = {}  # modules that are a single multiplier block

    @property
    def lane_width(self) -> int:
        """Width of the result words."""
        return max(self.formats[out.node].width for out in self.binding.outputs)

    # -- modules that are instantiated by name ---------------------------------------------------

    def _unit_module(self, kind: UnitKind) -> str:
        name = f"pinion_{self._names[kind]}"
        if name not in self.modules:
            unit = make_unit(kind, self.binding.schedule.timing)
            self.modules[name] = unit.to_rtlil(name)
            if isinstance(unit, DotUnit):
                self.blocks.update({f"{name}.{part}": mac for part, mac in unit.blocks().items()})
        return name

    def _shift_module(self, stages: int, width: int) -> str:
        name = f"pinion_shift{stages}x{width}"
        if name not in self.modules:
            self.modules[name] = ShiftRegister(stages=stages, width=width).to_rtlil(name)
        return name

    def _select(self, m: Module, choice: dict[int, int], inputs: list[Value], name: str) -> Signal:
        """Return the input selected in each slot; a register drives the select of each part."""
        count, width = len(inputs), max(value.shape().width for value in inputs)
        if len(choice) == count == self.ii:  # in slot order: the select needs no logic
            inputs = [inputs[choice[slot]] for slot in range(count)]
            choice = {slot: slot for slot in range(count)}
        o = Signal(signed(width), name=name)
        bits = LOADS if count <= 4 else LOADS // 2  # wider ones take two lookup tables a bit
        for part, low in enumerate(range(0, width, bits)):
            end = min(low + bits, width)
            module = f"pinion_mux{count}x{end - low}"
            if module not in self.modules:
                selector = Selector(inputs=count, width=end - low)
                self.modules[module] = selector.to_rtlil(module)
            label = f"{name}_{part}" if width > bits else name
            undivided = part == 0 and end == width
            ports = {f"i_i{k}": i if undivided else i[low:end] for k, i in enumerate(inputs)}
            sel = self._by_slot(m, choice, range(count), f"{label}_sel")
            m.submodules[f"{label}_mux"] = Instance(module, i_sel=sel, o_o=o[low:end], **ports)
        return o

    # -- control: functions of the slot ----------------------------------------------------------

    def _slot_of(self, m: Module) -> Signal:
        """Return the register with the current slot in a module, created on first use."""
        if m not in self._slots:
            slot = Signal(range(max(2, self.ii)), name="slot")
            m.d.sync += slot.eq(self._next_slot_of(m))
            self._slots[m] = slot
        return self._slots[m]

    def _next_slot_of(self, m: Module) -> Signal:
        """Return a module's register of the next cycle's slot; add a copy after every few uses.

        A single register would have a thousand loads all over the chip.
        """
        uses, copy = self._next_slots.get(m, (0, None))
        if copy is None or uses == FUNCTIONS:
            slots = range(max(2, self.ii))
            copy = Signal(slots, name="next_slot", init=1 % self.ii, attrs=dict(MARK))
            m.d.sync += copy.eq(self.slot_ahead)
            uses = 0
        self._next_slots[m] = uses + 1, copy
        return copy

    def _by_slot(self, m: Module, table: dict[int, int], shape: ShapeLike, name: str) -> Value:
        """Return a registered constant for each slot; slots without an entry have an arbitrary one.

        Each distinct bit has a register, which no other table shares: all tables of a cell
        together would load one register with hundreds of selectors.
        """
        shape = Shape.cast(shape)
        some = table[min(table)]  # holding the previous one would need an enable
        rows = [table.get(slot, some) for slot in range(self.ii)]
        if len({*rows}) == 1:
            return C(some, shape)
        columns = [
            sum((row >> bit & 1) << k for k, row in enumerate(rows)) for bit in range(shape.width)
        ]
        always = (1 << self.ii) - 1
        different = sorted({*columns} - {0, always})
        register = Signal(len(different), name=name, reset_less=True, attrs=dict(MARK))
        m.d.sync += register.eq(
            Cat((C(column, self.ii) >> self._next_slot_of(m))[0] for column in different)
        )
        value = Cat(
            register[different.index(column)] if column in different else C(column == always, 1)
            for column in columns
        )
        return value.as_signed() if shape.signed else value

    # -- elaboration -----------------------------------------------------------------------------

    def elaborate(self, platform: object) -> Module:
        """Build units, storage, operand selection, result lanes and flags."""
        m = Module()
        plan = self.binding.schedule
        kinds = set(plan.units)
        self._names = kind_names(kinds)
        self._outputs: dict[int, Signal] = {}  # a node's unit output
        self._slots: dict[Module, Signal] = {}
        self._next_slots: dict[Module, tuple[int, Signal | None]] = {}
        self._within: dict[tuple[Module, frozenset[int]], Signal] = {}
        self._overflow: dict[tuple[UnitKind, int], Signal] = {}
        self._cells: dict[tuple[UnitKind, int], Module] = {}
        self._home: dict[int, Module] = {}  # the cell that stores a node
        m.submodules.words = words = Module()
        self._home.update(dict.fromkeys(self.binding.inputs, words))
        self._home.update({state.node: words for state in self.binding.states})
        uses: dict[tuple[UnitKind, int], list[int]] = defaultdict(list)
        for i, operation in enumerate(plan.operations):
            uses[operation.kind, self.binding.unit[i]].append(i)
        for (kind, unit), members in uses.items():
            label = f"{self._names[kind]}_{unit}"
            result = Signal(signed(kind.width), name=f"{label}_o")
            # A cell contains a unit, the selection of its operands and the storage of its results:
            # small enough for synthesis and compilers, and placed close together.
            self._cells[kind, unit] = cell = Module()
            m.submodules[label] = cell
            for i in members:
                self._outputs[plan.operations[i].node] = result
                self._home[plan.operations[i].node] = cell
            if kind.saturates or any(
                o.narrows for i in members for o in plan.operations[i].operands
            ):
                self._overflow[kind, unit] = Signal(name=f"{label}_ovf")
        self._registers()
        for count, ((kind, unit), members) in enumerate(uses.items(), 1):
            self._unit(self._cells[kind, unit], kind, unit, members)
            self.progress.advance(count / len(uses))
        self._lanes(m)
        self._flags(m, uses)
        return m

    def _registers(self) -> None:
        """Build one chain of registers per value, loaded in the value's slot, in its unit's cell.

        In a large core words wait for hundreds of cycles in registers that nothing reads; those
        are components, which saves most of the time and memory of elaboration.
        """
        taps: dict[int, set[int]] | None = None
        if self.binding.registers >= LARGE:
            taps = defaultdict(set)
            for read in self.binding.reads():
                taps[read.node].add(read.stage)
        position = {node: k for k, node in enumerate(self.binding.inputs)}
        states = {state.node: state for state in self.binding.states}
        # Create the states' first registers first: one may read another.
        first = {
            node: Signal(signed(self.formats[node].width), name=f"state{k}_s0", reset_less=True)
            for k, node in enumerate(states)
        }
        self._stored: dict[int, dict[int, Signal]] = {}  # by node and stage
        enables: dict[tuple[Module, int], Copies] = {}
        for node, stages in sorted(self.binding.stages.items()):
            if node in position:
                name, source = f"word{position[node]}", getattr(self, f"word{position[node]}")
                slot = self.ii - 1
            elif node in states:
                name, source = f"state{list(states).index(node)}", first[node]
                slot = (states[node].arrival - 1) % self.ii
            else:
                name, source = f"v{node}", self._outputs[node]
                slot = self.binding.ready[node] % self.ii
            self._stored[node] = {}
            cell = self._home[node]
            enable: Value = C(1)
            if self.ii > 1:
                if (cell, slot) not in enables:
                    now = self._next_slot_of(cell) == slot
                    enables[cell, slot] = Copies(cell, now, name=f"slot{slot}_load")
                # One enable for the whole chain, so that it can become a shift register in memory.
                enable = enables[cell, slot].to(stages * len(source))
            statements = []
            if taps is not None and node in states:
                taps[node].add(0)
            for begin, stage in _pieces(stages, taps[node] if taps is not None else None):
                if node in states and stage == 0:
                    self._stored[node][0] = source
                    continue
                register = Signal(source.shape(), name=f"{name}_s{stage}", reset_less=True)
                if begin == stage:
                    statements.append(register.eq(source))
                else:
                    cell.submodules[f"{name}_wait{begin}"] = Instance(
                        self._shift_module(stage - begin + 1, len(source)),
                        i_clk=ClockSignal(),
                        i_i=source,
                        i_move=enable,
                        o_o=register,
                    )
                self._stored[node][stage] = register
                source = register
            if self.ii == 1:
                cell.d.sync += statements
                continue
            with cell.If(enable):
                cell.d.sync += statements
        for state in self.binding.states:
            self._state(state, enables)

    def _state(self, state: StateRegister, enables: dict[tuple[Module, int], Copies]) -> None:
        """Drive the first register of a word of state."""
        cell, register = self._home[state.node], self._stored[state.node][0]
        slot, cycle = (state.arrival - 1) % self.ii, state.taken(self.ii)
        enable: Value = C(1)
        if self.ii > 1:
            enable = enables[cell, slot].to(len(register))
        following = self.graph.nodes[state.following]
        if following.op == names.CONST:
            value: Value = C(self._constant(state.following), signed(len(register)))
        else:
            value = self._source(state.following, cycle)
        with cell.If(enable):
            with cell.If(getattr(self, f"fresh{(state.arrival - 1) // self.ii}")):
                cell.d.sync += register.eq(C(state.initial, signed(len(register))))
            with cell.Elif(getattr(self, f"valid{cycle // self.ii}")):
                cell.d.sync += register.eq(value)

    def _source(self, node: int, cycle: int) -> Signal:
        stage = self.binding.stage(node, cycle)
        return self._outputs[node] if stage < 0 else self._stored[node][stage]

    def _port(
        self,
        m: Module,
        reads: Iterable[tuple[int, Operand]],
        width: int,
        name: str,
        below: int = 0,
    ) -> tuple[Value, Value | None]:
        """Build an operand port: the operand of each slot's operation, shifted by wiring.

        Parameters
        ----------
        below : extra bits below the port's lowest, for rounding.

        Returns
        -------
        The word, and a bit that is set if it does not fit the port; None if every word fits.
        """
        sources: list[tuple[Signal, int]] = []
        narrows: list[bool] = []
        choice: dict[int, int] = {}
        constants: dict[int, int] = {}
        for cycle, operand in reads:
            slot = cycle % self.ii
            if operand.constant is not None:
                constants[slot] = operand.constant << below
                continue
            source = self._source(operand.node, cycle)
            matches = [
                k
                for k, (known_source, shift) in enumerate(sources)
                if known_source is source and shift == operand.shift
            ]
            choice[slot] = matches[0] if matches else len(sources)
            if not matches:
                sources.append((source, operand.shift))
                narrows.append(operand.narrows)
        width += below
        checked = any(narrows)
        inputs: list[Value] = [
            _shifted(source, shift - below, width, checked=checked, narrows=narrow)
            if checked or shift or below or len(source) != width
            else source
            for (source, shift), narrow in zip(sources, narrows, strict=True)
        ]
        if constants:
            if checked:  # constants fit, so their highest bit is clear
                constants = {slot: c & ((1 << width) - 1) for slot, c in constants.items()}
            inputs.append(self._by_slot(m, constants, signed(width + checked), f"{name}_rom"))
            choice.update(dict.fromkeys(constants, len(sources)))
        word = inputs[0]
        if len(inputs) > 1:
            word = self._select(m, choice, inputs, name)
        if not checked:
            return word, None
        return word[:width].as_signed(), word[width]

    def _unit(self, m: Module, kind: UnitKind, unit: int, members: list[int]) -> None:
        """Build one unit with its operand selection."""
        plan = self.binding.schedule
        label = f"{self._names[kind]}_{unit}"
        module = self._unit_module(kind)
        ports: dict[str, Value] = {}
        latency = plan.operations[members[0]].latency
        misfits: list[Value] = []
        for k, port in enumerate(operand_ports(kind)):
            reads = [
                (plan.start[i] + operand.offset, operand)
                for i in members
                if not (operand := plan.operations[i].operands[k]).unused
            ]
            if not reads:
                ports[f"i_{port}"] = C(0, kind.widths[k])
                continue
            below = int(kind.rounds and k % 2 == 1)
            word, misfit = self._port(m, reads, kind.widths[k], f"{label}_{port}", below)
            ports[f"i_{port}"] = word
            if misfit is not None:
                late = latency - reads[0][1].offset
                misfits.append(delay(m, misfit, late, f"{label}_{port}_misfit"))
        for k, port in enumerate(control_ports(kind)):
            uses = ((plan.start[i], plan.operations[i]) for i in members)
            bits = {(at + op.control_offset(k)) % self.ii: op.control[k] for at, op in uses}
            ports[f"i_{port}"] = self._by_slot(m, bits, 1, f"{label}_{port}")
        ports["o_o"] = self._outputs[plan.operations[members[0]].node]
        if kind.saturates:
            overflow = self._overflow[kind, unit]
            if misfits:
                unit_overflow = Signal(name=f"{label}_own_ovf")
                m.d.comb += overflow.eq(unit_overflow | _any(misfits))
                overflow = unit_overflow
            ports["o_ovf"] = overflow
        elif misfits:  # the unit itself has no flag
            m.d.comb += self._overflow[kind, unit].eq(_any(misfits))
        m.submodules.unit = Instance(module, i_clk=ClockSignal(), **ports)

    def _lanes(self, m: Module) -> None:
        for lane in range(self.binding.lanes_out):
            reads = []
            for out in self.binding.outputs:
                if out.lane == lane:
                    node = self.graph.nodes[out.node]
                    constant = self._constant(out.node) if node.op == names.CONST else None
                    reads.append((out.cycle, Operand(out.node, constant)))
            value, _ = self._port(m, reads, self.lane_width, f"lane{lane}_i")
            m.d.comb += getattr(self, f"lane{lane}").eq(value)

    def _constant(self, node: int) -> int:
        return constant_integer(self.graph.nodes[node])

    def _flags(self, m: Module, uses: dict[tuple[UnitKind, int], list[int]]) -> None:
        """Route overflow bits to the flags of their requests.

        An overflow in cycle r of a request is registered, gathered in the stage of cycle r + 1,
        registered again, and joins the request's flag in the stage of cycle r + 2.
        """
        plan = self.binding.schedule
        gathered: dict[int, list[Value]] = defaultdict(list)
        for key, members in uses.items():
            if key not in self._overflow:
                continue
            overflow = Signal(name=f"{self._names[key[0]]}_{key[1]}_seen", reset_less=True)
            m.d.sync += overflow.eq(self._overflow[key])
            stages: dict[int, list[int]] = defaultdict(list)
            for i in members:
                cycle = plan.ready(i) + 1
                # By the stage of the cycle in which the second register holds it.
                stages[(cycle + 1) // self.ii].append(cycle % self.ii)
            for stage, slots in stages.items():
                now = overflow & self._in_slots(m, slots)
                gathered[stage].append(now)
        flag: list[Signal] = []
        for stage in range(self.flag_stages):
            hit = Signal(name=f"hit{stage}", reset_less=True)
            register = Signal(name=f"flag_held{stage}", reset_less=True)
            if gathered[stage]:
                m.d.sync += hit.eq(_any(gathered[stage]))
            flag.append(register)
            m.d.comb += getattr(self, f"flag{stage}").eq(register | hit)
        last = self._slot_of(m) == self.ii - 1 if self.ii > 1 else C(1)
        with m.If(last):
            m.d.sync += flag[0].eq(self.flag_i)
            for stage in range(1, self.flag_stages):
                m.d.sync += flag[stage].eq(getattr(self, f"flag{stage - 1}"))
        with m.Else():
            for stage in range(self.flag_stages):
                m.d.sync += flag[stage].eq(getattr(self, f"flag{stage}"))

    def _in_slots(self, m: Module, slots: list[int]) -> Value:
        """Return whether the current slot is one of `slots`, from a register."""
        members = frozenset(slots)
        if self.ii == 1 or len(members) == self.ii:
            return C(1)
        if (m, members) not in self._within:
            name = "_".join(["in_slots", *map(str, sorted(members))])
            self._within[m, members] = register = Signal(name=name, reset_less=True)
            rows = [slot in members for slot in range(self.ii)]
            m.d.sync += register.eq(look_up(rows, 1, self._next_slot_of(m)))
        return self._within[m, members]


def _pieces(stages: int, taps: Collection[int] | None) -> Iterator[tuple[int, int]]:
    """Split a chain into single registers and runs of unread ones; yield each first and last index.

    Parameters
    ----------
    taps : registers that are read; None for pieces of one register each.
    """
    first = 0
    while first < stages:
        length = 1
        if taps is not None:
            run = min(stage for stage in (*taps, stages - 1) if stage >= first) - first + 1
            length = next((length for length in LENGTHS if length <= run), 1)
        yield first, first + length - 1
        first += length


# Terms of a disjunction in series: Amaranth recurses through them.
_ROW = 64


def _any(bits: list[Value]) -> Value:
    if len(bits) > _ROW:
        half = len(bits) // 2
        return _any(bits[:half]) | _any(bits[half:])
    result = bits[0]
    for bit in bits[1:]:
        result = result | bit
    return result


def _shifted(source: Value, shift: int, width: int, *, checked: bool, narrows: bool) -> Value:
    """Return `width` bits of a signed value from bit `shift` up, zero-padded and sign-extended.

    With `checked`, one more bit on top says that the value does not fit, which only happens if it
    `narrows`.
    """
    moved = Cat(C(0, -shift), source) if shift < 0 else source[min(shift, len(source) - 1) :]
    available = len(moved)
    word = (
        moved[:width] if available >= width else Cat(moved, moved[-1].replicate(width - available))
    )
    if not checked:
        return word.as_signed()
    high = moved[width - 1 :] if narrows else C(0, 1)
    return Cat(word, high.any() & ~high.all()).as_signed()
