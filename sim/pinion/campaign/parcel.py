"""A build folder as bytes, for workers without a shared file system."""

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
from pinion.card.programs import Models, ProgramReference
from pinion.cosim import Reference
from pinion.flow import Build
from pinion.link import Manifest
from pinion.link.digests import DIGESTS, check_digests, read_digests
from pinion.processor.folder import ProgramFolder

from .devices import open_device
from .errors import CampaignError
from .measure import MeasuredDevice
from .plan import Plan
from .tally import FigureTally

_LEVEL = 6

Files = Mapping[str, bytes]


class Bench(Protocol):
    """Interface of an open device on a worker."""

    def chunk(self, plan: Plan, number: int, requests: Any) -> tuple[FigureTally, bytes | None]:
        """Compute a chunk; return its statistics, and its results if they are stored.

        Parameters
        ----------
        requests : the chunk's requests, None to sample them.
        """

    def close(self) -> None:
        """Close the device."""


class Parcel(Protocol):
    """Interface of the serialized work of a campaign: a build or a function."""

    @property
    def digest(self) -> str:
        """SHA-256 of everything besides the requests that determines the results."""

    def open(self, place: Path, device: str) -> Bench:
        """Open a device for this work, with its files under the folder ``place`` of the worker."""


def pack(folder: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Return the compressed content of files in a folder, by path."""
    return {name: zlib.compress((folder / name).read_bytes(), _LEVEL) for name in sorted(names)}


def unpack(files: Files, folder: Path) -> None:
    """Replace a folder with files from `pack`; it is written completely or not at all.

    Raises
    ------
    CampaignError
        If a path leads out of the folder.
    """
    with scratch_beside(folder) as scratch:
        part = scratch / "build"
        for name, data in files.items():
            inside = PurePosixPath(name)
            if inside.is_absolute() or not inside.parts or ".." in inside.parts:
                raise CampaignError(f"The file {name!r} is outside the folder that was sent.")
            path = part / inside
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(zlib.decompress(data))
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(part, folder)


def reference_of(folder: Path) -> Models:
    """Return the reference models of a folder that ``pinion build`` or ``pinion program`` wrote."""
    if Manifest.read(folder).is_program:
        return ProgramReference(ProgramFolder.read(folder))
    return Reference(Build.read(folder))


@dataclass(frozen=True)
class BuildParcel:
    """Packed files of a folder, only those that ``pinion build`` or ``pinion program`` wrote.

    Members
    -------
    digest : SHA-256 of its ``digests.json``, which lists those of all other files.
    files : compressed files by path.
    """

    digest: str
    files: Files

    @classmethod
    def of(cls, folder: Path) -> BuildParcel:
        """Pack a build folder.

        Raises
        ------
        pinion.link.ManifestError
            If a file changed since it was built.
        """
        check_digests(folder)
        digest = sha256((folder / DIGESTS).read_bytes()).hexdigest()
        return cls(digest, pack(folder, [DIGESTS, *read_digests(folder)]))

    @property
    def size(self) -> int:
        """Compressed size of the files [bytes]."""
        return sum(map(len, self.files.values()))

    def open(self, place: Path, device: str) -> Bench:
        """Write the build under ``place`` and open a device for it that compares its results."""
        reference = reference_of(self.unpack(place))
        return MeasuredDevice(reference, open_device(reference, device))

    def unpack(self, place: Path) -> Path:
        """Write the build folder under ``place``, unless it is there intact, and return its path.

        Raises
        ------
        CampaignError, pinion.link.ManifestError
            If what arrived does not match what was sent.
        """
        folder = place / self.digest
        try:
            if sha256((folder / DIGESTS).read_bytes()).hexdigest() == self.digest:
                check_digests(folder)
                return folder
        except (OSError, ValueError):
            pass  # missing or damaged
        unpack(self.files, folder)
        if sha256((folder / DIGESTS).read_bytes()).hexdigest() != self.digest:
            raise CampaignError(
                f"The build that arrived in '{folder}' does not match the one that was sent "
                f"({self.digest[:16]}...)."
            )
        check_digests(folder)
        return folder
