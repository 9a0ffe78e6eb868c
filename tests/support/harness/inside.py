"""Access to a component's internal registers, for the invariants of an induction."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from amaranth.asserts import AnySeq
from amaranth.hdl import Fragment, Module, Signal, Value, ValueLike
from amaranth.lib.memory import Memory


class Inside:
    """Component that is elaborated once, so that a harness can refer to its internal signals.

    Children are opened before any signal is asked for: which elaborates the rest of them.

    Parameters
    ----------
    component : an elaborable object that nothing has elaborated yet.
    """

    def __init__(self, component: Any) -> None:
        self._component = component
        self._module = component.elaborate(None)
        component.elaborate = lambda platform: self._fragment

    def child(self, name: str) -> Inside:
        """Return a submodule whose internal signals can be accessed in the same way."""
        return Inside(getattr(self._module.submodules, name))

    def hollow(self, name: str) -> Any:
        """Empty a submodule, so that the harness drives its outputs; return it."""
        child = getattr(self._module.submodules, name)
        child.elaborate = lambda platform: Module()
        return child

    def look(self, name: str, address: ValueLike) -> Value:
        """Return the content of a memory at an address, through an additional read port."""
        memory = getattr(self._module.submodules, name)
        assert isinstance(memory, Memory), name
        port = memory.read_port(domain="comb")
        self._module.d.comb += port.addr.eq(address)
        return port.data

    def signal(self, name: str) -> Signal:
        """Return a signal that the component assigns, given its name.

        Raises
        ------
        KeyError
            When none is called so, or several are.
        """
        signals = self._signals.get(name, [])
        if len(signals) > 1:  # a register of the same name as a port
            signals = [signal for signal in signals if signal is not getattr(self._component, name)]
        if len(signals) != 1:
            raise KeyError(
                f"The component assigns {len(signals)} signals named {name!r} instead of one."
            )
        return signals[0]

    def port(self, name: str) -> Any:
        """Return a port of the component by name; only its parent may connect it."""
        return getattr(self._component, name)

    def state(self, *names: str) -> Value:
        """Return whether the component's state machine is in one of these states."""
        encoding = self._fragment.generated["fsm"].encoding
        state = self.signal("fsm_state")
        within: Value = state == encoding[names[0]]
        for name in names[1:]:
            within = within | (state == encoding[name])
        return within

    @cached_property
    def _fragment(self) -> Any:
        return Fragment.get(self._module, None)

    @cached_property
    def _signals(self) -> dict[str, list[Signal]]:
        by_name: dict[str, list[Signal]] = {}
        for statements in self._fragment.statements.values():
            for signal in statements._lhs_signals():
                if not isinstance(signal, Signal):  # the clock or reset of a domain
                    continue
                same_name = by_name.setdefault(signal.name, [])
                if not any(signal is other for other in same_name):
                    same_name.append(signal)
        return by_name


def abstracted(m: Module, inside: Inside, name: str) -> Any:
    """Replace a checksum with an arbitrary function of the beats so far, and return its ports.

    Whatever the checksum is, it stands as long as no beat comes; what a proof shows with any value
    of it holds with the right one.
    """
    checksum = inside.hollow(name)
    with m.If(checksum.valid | checksum.start):
        m.d.sync += checksum.crc.eq(AnySeq(len(checksum.crc)))
    return checksum
