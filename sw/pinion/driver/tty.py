"""A serial port of the operating system, for the serial transport."""

from __future__ import annotations

import contextlib
import importlib
import os

from pinion.base.installation import install_hint

from .errors import AccessError, BusyError, DriverError, MissingCardError


class TtyPort:
    """A serial port of the operating system, through pyserial.

    Raises
    ------
    DriverError
        Subclasses, if pyserial is missing or the port cannot be opened.
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
        # The boards' bridge otherwise delays answers by 16 ms.
        try:
            self._port.set_low_latency_mode(True)
        except (AttributeError, OSError, ValueError, NotImplementedError):
            return

    def read(self) -> bytes:
        """Return received bytes, or no bytes after 0.1 s."""
        return bytes(self._port.read(max(1, self._port.in_waiting)))

    def write(self, data: bytes) -> None:
        """Send all bytes."""
        self._port.write(data)

    def close(self) -> None:
        """Close the port, and pyserial's pipes, which stay open if the port is gone."""
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
            f"There is no serial port '{path}': plug the board in, and look for its name in "
            f"/dev/ttyUSB*."
        )
    if number in (1, 13):
        return AccessError(
            f"The serial port '{path}' may not be opened by this user: add the user to the file's "
            f"group, usually 'dialout'."
        )
    if number in (11, 16) or "lock" in text:
        return BusyError(f"The serial port '{path}' is in use: close the other program.")
    return DriverError(f"The serial port '{path}' cannot be opened: {text}.")
