"""The folder of versions of the site: its contents, their order, and refusals."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from docs.site.publish import PublishError, main, order, publish

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return the parts of a built site that publishing uses."""
    place = tmp_path / "site"
    (place / "assets").mkdir(parents=True)
    shutil.copy(ROOT / "docs/assets/versions.js", place / "assets")
    return place


def _publish(site: Path, folder: Path, version: str, text: str = "") -> list[str]:
    (site / "version.json").write_text(json.dumps({"version": version}))
    (site / "index.html").write_text(text or version)
    return publish(site, folder)


def _listed(folder: Path) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads((folder / "versions.json").read_text())
    return listed


def test_versions_stand_beside_each_other_the_newest_release_as_latest(
    site: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "a" / "versions"
    for version in ("0.9.0", "0.10.0", "0.11.0.dev1", "0.2.0"):
        versions = _publish(site, folder, version)
    assert versions == ["0.11.0.dev1", "0.10.0", "0.9.0", "0.2.0"]
    assert [row["version"] for row in _listed(folder)] == versions
    assert [row["aliases"] for row in _listed(folder)] == [[], ["latest"], [], []]
    assert (folder / "latest/index.html").read_text() == "0.10.0"
    assert (folder / "0.9.0/index.html").read_text() == "0.9.0"
    assert "latest/index.html" in (folder / "index.html").read_text()
    assert {p.name for p in folder.iterdir()} == {
        *versions,
        "latest",
        "versions.json",
        "index.html",
    }


def test_a_version_is_replaced_and_copies_list_the_others(site: Path, tmp_path: Path) -> None:
    folder = tmp_path / "versions"
    _publish(site, folder, "0.1.0", "first")
    (folder / "0.1.0" / "gone.html").write_text("x")
    _publish(site, folder, "0.1.0", "second")
    for copy in (folder / "0.1.0", folder / "latest"):
        assert (copy / "index.html").read_text() == "second"
        assert not (copy / "gone.html").exists()
        assert "const published = true;" in (copy / "assets/versions.js").read_text()
    # The site itself is as it was built, and asks for nothing.
    assert "const published = false;" in (site / "assets/versions.js").read_text()


def test_before_a_release_what_is_newest_is_latest(site: Path, tmp_path: Path) -> None:
    _publish(site, tmp_path / "v", "0.1.0.dev1")
    _publish(site, tmp_path / "v", "0.1.0.dev2")
    assert (tmp_path / "v/latest/index.html").read_text() == "0.1.0.dev2"


def test_what_is_no_site_and_no_folder_of_versions_is_refused(site: Path, tmp_path: Path) -> None:
    with pytest.raises(PublishError, match=r"is not a built site \(.*\): run make docs"):
        publish(site, tmp_path / "versions")
    (tmp_path / "home").mkdir()
    (tmp_path / "home/letter.txt").write_text("x")
    with pytest.raises(PublishError, match=r"home' holds files but no versions\.json"):
        _publish(site, tmp_path / "home", "0.1.0")
    with pytest.raises(PublishError, match="'next' is not a version"):
        _publish(site, tmp_path / "versions", "next")
    assert not (tmp_path / "versions").exists()
    assert order("1.0.0rc1") < order("1.0.0") < order("1.0.1")


def test_the_command_says_what_is_there(
    site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["versions"]) == 2
    assert "make docs" in capsys.readouterr().err
    (tmp_path / "build").mkdir()
    site.rename(tmp_path / "build/site")
    (tmp_path / "build/site/version.json").write_text('{"version": "0.1.0"}')
    assert main(["versions"]) == 0
    assert capsys.readouterr().out == "publish: versions has 0.1.0\n"
    assert main([""]) == 2
