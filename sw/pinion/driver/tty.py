"""A serial port of the operating system, for the serial transport."""

from __future__ import annotations

import contextlib
import importlib
import os

from pinion.base.installation import install_hint

from .errors import AccessError, BusyError, DriverError, MissingCardError


class TtyPort:
    """A serial port of the operating system, by pyserial.

    Raises
    ------
    DriverError
        Its subclasses: pyserial is missing, or the port cannot be had.
    """

    def __init__(self, *, path: str, baud: int) -> None:
        try:
            serial = importlib.import_module("serial")
        except ImportError:
            raise DriverError(f"Serial ports need pyserial: {install_hint('serial')}.") from None
        try:
            self._port = serial.Serial(path, baud, timeout=0.1, exclusive=True)
        except (OSError, ValueError) as error:
            raise _refused(path, error) from error
        # The bridge of the boards otherwise keeps answers for 16 ms.
        try:
            self._port.set_low_latency_mode(True)
        except (AttributeError, OSError, ValueError, NotImplementedError):
            return

    def read(self) -> bytes:
        """What has come, or nothing after a tenth of a second."""
        return bytes(self._port.read(max(1, self._port.in_waiting)))

    def write(self, data: bytes) -> None:
        """Send all of it."""
        self._port.write(data)

    def close(self) -> None:
        """Close it, also where it is gone: pyserial leaves its pipes open then."""
        try:
            self._port.close()
        except (OSError, ValueError):
            self._port.fd, self._port.is_open = None, False
            for name in ("read_r", "read_w", "write_r", "write_w"):
                number = getattr(self._port, f"pipe_abort_{name}", None)
                if number is not None:
                    setattr(self._port, f"pipe_abort_{name}", None)
                    with contextlib.suppress(OSError):
                        os.close(number)


def _refused(path: str, error: Exception) -> DriverError:
    number = getattr(error, "errno", None)
    text = str(error)
    if number in (2, 6, 19):
        return MissingCardError(
            f"There is no serial port '{path}': plug the board in, and see /dev/ttyUSB* for its "
            f"name."
        )
    if number in (1, 13):
        return AccessError(
            f"The serial port '{path}' may not be opened by this user: add the user to the group "
            f"of the file, mostly 'dialout'."
        )
    if number in (11, 16) or "lock" in text:
        return BusyError(f"The serial port '{path}' is in use: close the other program.")
    return DriverError(f"The serial port '{path}' cannot be opened: {text}.")
