"""Is this the card that the program was made for? Registers only, before anything else is done."""

from __future__ import annotations

from collections.abc import Callable

from pinion.link import MAX_COUNT, PROTOCOL_VERSION, Layout, Manifest, function_id, register
from pinion.link.registers import IDENTITY

from .errors import WrongBuildError, WrongCardError

Read = Callable[[int], int]

NOBODY = 0xFFFFFFFF
"""What every register of a card reads as that is not on the bus any more."""


def layout_of(manifest: Manifest) -> Layout:
    """Lengths and identity of the packets of a build."""
    return Layout(
        function=function_id(manifest.function),
        build=manifest.hash,
        words_in=manifest.words_in,
        words_out=manifest.words_out,
    )


def read_named(read: Read, name: str) -> int:
    """Read a register by its name."""
    return read(register(name).offset)


def check_identity(read: Read, *, where: str) -> None:
    """Refuse what is no Pinion card, or speaks another version of the protocol.

    Parameters
    ----------
    read : reads a register by its offset.
    where : name of the card for the message.

    Raises
    ------
    WrongCardError
        With what was found.
    """
    found = read_named(read, "IDENTITY")
    if found == NOBODY:
        raise WrongCardError(
            f"The card at {where} does not answer, its registers read as all ones: it left the "
            f"bus. Load its bitstream and rescan the bus, or restart the host."
        )
    if found != IDENTITY:
        raise WrongCardError(
            f"What is at {where} is no Pinion card: its first register is {found:#010x} instead "
            f"of {IDENTITY:#010x}. Load the bitstream of a build, or give another address."
        )
    version = read_named(read, "VERSION")
    if version != PROTOCOL_VERSION:
        raise WrongCardError(
            f"The card at {where} speaks version {version} of the record protocol, this driver "
            f"version {PROTOCOL_VERSION}: build its bitstream with the Pinion that is installed "
            f"here, or install the Pinion that it was built with."
        )


def read_build(read: Read) -> int:
    """The 64-bit hash of the build that a card holds."""
    return read_named(read, "BUILD_HIGH") << 32 | read_named(read, "BUILD_LOW")


def check_card(read: Read, layout: Layout, *, where: str) -> None:
    """Refuse a card that does not hold a build.

    Raises
    ------
    WrongCardError
        When it is no Pinion card, or another protocol's.
    WrongBuildError
        When it holds another build, or its registers disagree with the manifest.
    """
    check_identity(read, where=where)
    build = read_build(read)
    if build != layout.build:
        raise WrongBuildError(
            f"The card at {where} holds another build: its hash is {build:016x}, that of the "
            f"manifest is {layout.build:016x}. Load the bitstream of this build, or open the "
            f"folder of the build that the card holds."
        )
    wanted = {
        "FUNCTION_0": layout.function,
        "WORDS_IN_0": layout.words_in,
        "WORDS_OUT_0": layout.words_out,
        "MAX_COUNT": MAX_COUNT,
    }
    for name, value in wanted.items():
        found = read_named(read, name)
        if found != value:
            raise WrongBuildError(
                f"The card at {where} has the right build hash {build:016x}, but its register "
                f"{name} is {found:#x} instead of {value:#x}: make the build and its bitstream "
                f"again."
            )
