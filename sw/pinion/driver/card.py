"""Register checks, before any transfer, that a card holds the expected build."""

from __future__ import annotations

from collections.abc import Callable

from pinion.link import MAX_COUNT, PROTOCOL_VERSION, Layout, register
from pinion.link.registers import IDENTITY

from .errors import WrongBuildError, WrongCardError

Read = Callable[[int], int]

NOBODY = 0xFFFFFFFF
"""Value of every register of a card that has left the bus."""


def read_named(read: Read, name: str) -> int:
    """Read a register by name."""
    return read(register(name).offset)


def check_identity(read: Read, *, where: str) -> None:
    """Raise `WrongCardError` if a device is not a Pinion card or uses another protocol version.

    Parameters
    ----------
    read : reads a register by its offset.
    where : name of the card for the message.
    """
    identity = read_named(read, "IDENTITY")
    if identity == NOBODY:
        raise WrongCardError(
            f"The card at {where} has left the bus: its registers read as all ones. "
            f"Load its bitstream and rescan the bus, or restart the host."
        )
    if identity != IDENTITY:
        raise WrongCardError(
            f"The device at {where} is not a Pinion card: its first register is {identity:#010x} "
            f"instead of {IDENTITY:#010x}. Load the bitstream of a build, or give another address."
        )
    version = read_named(read, "VERSION")
    if version != PROTOCOL_VERSION:
        raise WrongCardError(
            f"The card at {where} uses version {version} of the record protocol, but this driver "
            f"uses version {PROTOCOL_VERSION}: build its bitstream with the installed Pinion, or "
            f"install the version of Pinion that built it."
        )


def read_build(read: Read) -> int:
    """Read the 64-bit hash of a card's build."""
    return read_named(read, "BUILD_HIGH") << 32 | read_named(read, "BUILD_LOW")


def check_card(read: Read, layout: Layout, *, where: str) -> None:
    """Raise `WrongCardError` or `WrongBuildError` if a card does not hold the expected build.

    Raises
    ------
    WrongCardError
        If it is not a Pinion card, or has another protocol version.
    WrongBuildError
        If it holds another build, or its registers disagree with the manifest.
    """
    check_identity(read, where=where)
    build = read_build(read)
    if build != layout.build:
        raise WrongBuildError(
            f"The card at {where} holds another build: its hash is {build:016x} instead of the "
            f"manifest's {layout.build:016x}. Load the bitstream of this build, or open the folder "
            f"of the build that the card holds."
        )
    expected = {
        "FUNCTION_0": layout.function,
        "WORDS_IN_0": layout.words_in,
        "WORDS_OUT_0": layout.words_out,
        "MAX_COUNT": MAX_COUNT,
    }
    for name, value in expected.items():
        actual = read_named(read, name)
        if actual != value:
            raise WrongBuildError(
                f"The card at {where} has the right build hash {build:016x}, but its register "
                f"{name} is {actual:#x} instead of {value:#x}: build the folder and its bitstream "
                f"again."
            )
