"""The page in a real browser: it opens from a file, answers to a pointer, and asks nobody."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pinion.flow.build import Build, build
from pinion.flow.facts import build_facts
from pinion.report.build_data import build_data
from pinion.report.build_page import MOST_BYTES, build_page, write_page

BROWSERS = ("chromium", "chromium-browser", "google-chrome")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser() -> str:
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium is installed (Debian: apt-get install chromium)")
    return found


def seen(browser: str, path: Path, *, width: int = 1280) -> tuple[dict[str, Any], str]:
    """What the page's own tour of itself found, and what the browser complained of."""
    command = [
        *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"),
        *(f"--window-size={width},1000", "--virtual-time-budget=5000", "--dump-dom"),
        f"{path.as_uri()}#selftest",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    (found,) = re.findall(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(html.unescape(found)), "\n".join(console)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("browser") / "iiwa14"
    build("iiwa14", "fd_derivatives_from_minv", path, ii=8, formats="auto", target="vcu118")
    return path


@pytest.fixture(scope="module")
def path(folder: Path) -> Path:
    page = build_page([build_data(folder, build_facts(Build.read(folder), states=200))])
    write_page(folder.parent / "page.html", page)
    return folder.parent / "page.html"


@pytest.mark.parametrize("width", [1280, 500])
def test_it_opens_points_and_zooms(browser: str, folder: Path, path: Path, width: int) -> None:
    assert path.stat().st_size < MOST_BYTES
    found, console = seen(browser, path, width=width)
    rows = Build.read(folder).schedule["operations"]
    assert found["drawn"] and found["operations"] == len(rows)
    first = rows[0]
    for words in (
        f"operation %{first['node']}",
        f"unit {first['kind']} {first['unit']}",
        f"cycle {first['start']}, result in cycle {first['start'] + first['latency']}",
        f"source {first['line']}",
        f"region {first['region']}",
    ):
        assert words in found["tip"]
    assert found["zoom"] < 0.9 and found["back"] == 1
    assert "operation %" in found["said"] and found["turned"]
    assert found["requests"] == [] and found["failures"] == [] and console == ""
    assert found["wider"] <= 0, "no sideways scrolling of the page"
    print(f"DOMContentLoaded after {found['ready']} ms at {width} pixels")


def test_a_foreign_script_or_address_is_stopped(browser: str, path: Path, tmp_path: Path) -> None:
    """The policy holds even where a text got through: the browser refuses both."""
    page = path.read_text()
    mark = '<p class="brand">'
    evil = '<script>document.title = "gone"</script><img src="https://example.org/x.png">'
    wrong = tmp_path / "wrong.html"
    wrong.write_text(page.replace(mark, evil + mark, 1))
    found, console = seen(browser, wrong)
    refused = [line for line in console.splitlines() if "Content Security Policy" in line]
    assert any("inline script" in line for line in refused)
    assert any("example.org" in line for line in refused)
    # With a policy that does not know the page's own script nothing is drawn at all.
    broken = tmp_path / "broken.html"
    broken.write_text(page.replace("script-src", "script-source", 1))
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    done = subprocess.run(
        [*command, f"{broken.as_uri()}#selftest"],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    assert "Nothing on this page" in done.stdout and '<pre id="seen">' not in done.stdout
    assert found["drawn"]
