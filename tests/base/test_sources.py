"""Digests of Pinion's own sources."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from pinion.base import sources
from pinion.base.sources import PACKAGES, SourceError, package_digest, source_digest, up_to

ROOT = Path(__file__).parents[2]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a package of the namespace, ``pinion.toy``."""
    folder = tmp_path / "pinion" / "toy"
    (folder / "runtime").mkdir(parents=True)
    (folder / "__init__.py").write_text("x = 1\n")
    (folder / "runtime" / "toy.hpp").write_text("#define X 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def test_every_edit_counts(package: Path) -> None:
    digests = [package_digest(["toy"])]

    def changed() -> bool:
        digests.append(package_digest(["toy"]))
        return digests[-1] not in digests[:-1]

    assert not changed()
    file = package / "runtime" / "toy.hpp"
    stamp = file.stat().st_mtime_ns
    file.write_text("#define X 22\n")
    os.utime(file, ns=(stamp, stamp))
    assert changed(), "another size"
    os.utime(file, ns=(stamp, stamp + 1))
    assert changed(), "another time"
    file.rename(file.with_name("other.hpp"))
    assert changed(), "another name"
    (package / "data.urdf").touch()
    assert changed(), "a file more"
    (package / "data.urdf").unlink()
    assert not changed(), "it is as it was before"


def test_what_python_and_editors_make_does_not_count(package: Path) -> None:
    digest = package_digest(["toy"])
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "toy.pyc").touch()
    (package / ".toy.py.swp").touch()
    (package / ".#toy.py").symlink_to("nowhere")
    (package / "link").symlink_to("nowhere")
    assert package_digest(["toy"]) == digest


def test_the_version_counts(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = package_digest(["toy"])
    monkeypatch.setattr(sources, "version", lambda: "9.9")
    assert package_digest(["toy"]) != digest


def test_order_does_not_count_and_packages_do() -> None:
    assert package_digest(PACKAGES) == package_digest(PACKAGES[::-1])
    assert package_digest(PACKAGES[1:]) != package_digest(PACKAGES)


def test_the_content_counts_on_every_machine_alike(package: Path) -> None:
    file, digest = package / "__init__.py", source_digest(["toy"])
    os.utime(file, ns=(1, 1))
    assert source_digest(["toy"]) == digest
    file.write_text("x = 2\n")
    assert source_digest(["toy"]) != digest


def test_the_list_has_every_package_on_the_floors_in_their_order() -> None:
    """A forgotten package would silently give stale kernels and figures."""
    floors = [
        set(re.findall(r"\((\w+)\)", line))
        for line in (ROOT / ".importlinter").read_text().splitlines()
        if line.startswith("    (")
    ]
    numbers = {name: len(floors) - k for k, floor in enumerate(floors) for name in floor}
    assert sorted(PACKAGES, key=lambda name: numbers[name]) == list(PACKAGES)
    presenting = {"__main__", "cli", "bench", "console", "control", "api", "report"}
    assert set(PACKAGES) == numbers.keys() - presenting
    assert up_to("compute")[-1] == "compute" and "hls" not in up_to("compute")


def test_headers_of_the_runtime_are_part_of_the_sources() -> None:
    (folder,) = sources._folders("compute")
    paths = " ".join(entry.path for entry in sources._files(folder))
    assert "/runtime/vec.hpp" in paths and "/printer.py" in paths


def test_a_missing_package_is_named() -> None:
    with pytest.raises(SourceError, match=r"^The package pinion\.nonsense is missing: .*\.$"):
        package_digest(["nonsense"])
