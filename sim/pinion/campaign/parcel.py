"""What travels to workers that share no file system with anybody: a build folder as bytes."""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from pinion.base.places import scratch_beside
from pinion.cosim.reference import Reference
from pinion.flow.build import Build
from pinion.link.digests import DIGESTS, check_digests, read_digests

from .devices import open_device
from .errors import CampaignError
from .measure import Judged
from .plan import Plan
from .tally import Tally

_LEVEL = 6

Files = Mapping[str, bytes]


class Bench(Protocol):
    """A device on a worker, with what its requests are answered by."""

    def chunk(self, plan: Plan, number: int, given: Any) -> tuple[Tally, bytes | None]:
        """Figures of a chunk, and its results where they are kept.

        Parameters
        ----------
        given : the chunk's requests, None where they are drawn.
        """

    def close(self) -> None:
        """Give back what the device holds."""


class Parcel(Protocol):
    """What workers compute, on its way."""

    @property
    def digest(self) -> str:
        """SHA-256 of all that results follow from besides the requests."""

    def open(self, place: Path, device: str) -> Bench:
        """Open a device, with files below a place that is the worker's own."""


def pack(folder: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Files of a folder by path, compressed."""
    return {name: zlib.compress((folder / name).read_bytes(), _LEVEL) for name in sorted(names)}


def unpack(files: Files, folder: Path) -> None:
    """Write files into a folder, which is there afterwards as a whole or not at all.

    Raises
    ------
    CampaignError
        A path leads out of the folder.
    """
    with scratch_beside(folder) as scratch:
        part = scratch / "build"
        for name, data in files.items():
            inside = PurePosixPath(name)
            if inside.is_absolute() or not inside.parts or ".." in inside.parts:
                raise CampaignError(f"The file {name!r} is not in the folder that was sent.")
            path = part / inside
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(zlib.decompress(data))
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(part, folder)


@dataclass(frozen=True)
class BuildParcel:
    """A build folder on its way: all that ``pinion build`` wrote, and nothing else.

    Members
    -------
    digest : SHA-256 of its ``digests.json``, which has those of all other files.
    files : by path, compressed.
    """

    digest: str
    files: Files

    @classmethod
    def of(cls, folder: Path) -> BuildParcel:
        """Pack a build folder.

        Raises
        ------
        pinion.link.ManifestError
            A file of it is not as it was built.
        """
        check_digests(folder)
        digest = sha256((folder / DIGESTS).read_bytes()).hexdigest()
        return cls(digest, pack(folder, [DIGESTS, *read_digests(folder)]))

    @property
    def size(self) -> int:
        """Bytes that travel."""
        return sum(map(len, self.files.values()))

    def open(self, place: Path, device: str) -> Bench:
        """Open a device that computes the build, and is judged."""
        reference = Reference(Build.read(self.unpack(place)))
        return Judged(reference, open_device(reference, device))

    def unpack(self, place: Path) -> Path:
        """The build folder below a place; what is there and whole is taken as it is.

        Raises
        ------
        CampaignError, pinion.link.ManifestError
            What arrived is not what was sent.
        """
        folder = place / self.digest
        try:
            if sha256((folder / DIGESTS).read_bytes()).hexdigest() == self.digest:
                check_digests(folder)
                return folder
        except (OSError, ValueError):
            pass  # none, or damaged
        unpack(self.files, folder)
        if sha256((folder / DIGESTS).read_bytes()).hexdigest() != self.digest:
            raise CampaignError(
                f"The build that arrived in '{folder}' is not {self.digest[:16]}..."
            )
        check_digests(folder)
        return folder
