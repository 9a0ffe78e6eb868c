"""The card's registers by name."""

from __future__ import annotations

import threading

from pinion.link import REGISTERS, register

from .process import Owner
from .transport import Transport

_PAIRS = tuple(row.name[:-4] for row in REGISTERS if row.name.endswith("_LOW"))


class Registers:
    """A card's registers as attributes, read on access: ``device.registers.ACCEPTED``.

    A pair of a low and a high word also has a common name for one number: ``BUSY``, ``BUILD``.
    """

    __slots__ = ("_lock", "_owner", "_transport")

    def __init__(self, *, transport: Transport) -> None:
        self._transport = transport
        self._owner = Owner()
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> int:
        self._owner.check()
        if name in _PAIRS:
            # Reading the low word latches the high one, so no other read may come in between.
            with self._lock:
                low = self._transport.read_register(register(f"{name}_LOW").offset)
                return self._transport.read_register(register(f"{name}_HIGH").offset) << 32 | low
        try:
            row = register(name)
        except KeyError as error:
            raise AttributeError(str(error.args[0])) from None
        return self._transport.read_register(row.offset)

    def dump(self) -> dict[str, int]:
        """Return all values by name, in the table's order; a register pair gives one number."""
        names: dict[str, None] = {}
        for row in REGISTERS:
            names[row.name.removesuffix("_LOW").removesuffix("_HIGH")] = None
        return {name: getattr(self, name) for name in names}

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(row.name for row in REGISTERS), *_PAIRS})
