"""Discovery of cards by their registers, without disturbing programs that use them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pinion.link import register
from pinion.link.registers import IDENTITY

from .card import read_build, read_named
from .errors import DriverError, TransportError
from .nodes import USER, FileNodes, translate

_PREFIX = re.compile(rf"(.*\d)_{USER}")


@dataclass(frozen=True, kw_only=True)
class CardInfo:
    """Description of a card, read from its registers; None for each value that could not be read.

    Members
    -------
    prefix : path of its device files up to the underscore; ``xdma:<prefix>`` opens it.
    problem : why it cannot be used, empty if it can.
    identity, version : identity of the card and version of its protocol.
    build : 64-bit hash of its build.
    functions : `pinion.link.function_id` of each function on it.
    words_in, words_out : words of a record of the first function.
    interval : core cycles between results.
    core_khz, link_khz : clocks that it was built for.
    status, error : registers STATUS and ERROR.
    """

    prefix: str
    problem: str = ""
    identity: int | None = None
    version: int | None = None
    build: int | None = None
    functions: tuple[int, ...] = ()
    words_in: int | None = None
    words_out: int | None = None
    interval: int | None = None
    core_khz: int | None = None
    link_khz: int | None = None
    status: int | None = None
    error: int | None = None

    @property
    def accessible(self) -> bool:
        """Whether this is a Pinion card whose registers this user can read."""
        return not self.problem


def cards(folder: Path = Path("/dev")) -> list[CardInfo]:
    """Return all cards with device files in a folder, sorted by name.

    Cards in use are listed as well: only their registers are opened, for reading.
    """
    prefixes = []
    for path in Path(folder).glob(f"*_{USER}"):
        match = _PREFIX.fullmatch(path.name)
        if match:
            prefixes.append(path.with_name(match.group(1)))
    return [read_card(prefix) for prefix in sorted(prefixes, key=_natural)]


def read_card(prefix: Path) -> CardInfo:
    """Read the description of a card; ``prefix`` is the stem of its device files (/dev/xdma0)."""
    where = str(prefix)
    nodes = FileNodes(prefix=prefix)
    action = "open"

    def read(offset: int) -> int:
        data = nodes.read_user(offset)
        if len(data) != 4:
            raise DriverError(
                f"'{where}_{USER}' ends at {offset:#x}: it is not a register space. Remove the "
                "file if it is a leftover, or load the kernel module xdma again."
            )
        return int.from_bytes(data, "little")

    try:
        nodes.open_user(write=False)
        action = "read"
        identity = read(register("IDENTITY").offset)
        if identity != IDENTITY:
            return CardInfo(
                prefix=where,
                identity=identity,
                problem=f"No Pinion card answers: the first register is {identity:#010x}. Load the "
                f"bitstream of a build.",
            )
        return CardInfo(
            prefix=where,
            identity=identity,
            version=read_named(read, "VERSION"),
            build=read_build(read),
            functions=(read_named(read, "FUNCTION_0"),) if read_named(read, "FUNCTIONS") else (),
            words_in=read_named(read, "WORDS_IN_0"),
            words_out=read_named(read, "WORDS_OUT_0"),
            interval=read_named(read, "INTERVAL"),
            core_khz=read_named(read, "CORE_KHZ"),
            link_khz=read_named(read, "LINK_KHZ"),
            status=read_named(read, "STATUS"),
            error=read_named(read, "ERROR"),
        )
    except OSError as error:
        problem: DriverError | TransportError = translate(
            error, node=f"{where}_{USER}", action=action
        )
        return CardInfo(prefix=where, problem=str(problem))
    except DriverError as error:
        return CardInfo(prefix=where, problem=str(error))
    finally:
        nodes.close()


def _natural(path: Path) -> tuple[str, int]:
    name = path.name.rstrip("0123456789")
    return name, int(path.name[len(name) :] or 0)
