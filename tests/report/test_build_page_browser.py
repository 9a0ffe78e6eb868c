"""The page in a real browser: it opens from a file, reacts to a pointer, and needs no network."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pinion.cosim import verify
from pinion.flow.build import Build
from pinion.flow.facts import build_facts
from pinion.report.build_data import build_data
from pinion.report.build_page import MOST_BYTES, _asset, build_page, write_page
from pinion.synthesis.synth import synth
from tests.support.builds import build

BROWSERS = ("chromium", "chromium-browser", "google-chrome")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser() -> str:
    browser_path = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser_path is None:
        pytest.skip("no Chromium is installed (Debian: apt-get install chromium)")
    return browser_path


def seen(browser: str, path: Path, *, width: int = 1280) -> tuple[dict[str, Any], str]:
    """Return the results of the page's self-test, and the browser's complaints."""
    command = [
        *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"),
        *(f"--window-size={width},1000", "--virtual-time-budget=5000", "--dump-dom"),
        f"{path.as_uri()}#selftest",
    ]
    completed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    (report,) = re.findall(r'<pre id="seen">(.*?)</pre>', completed.stdout, re.DOTALL)
    console = [line for line in completed.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(html.unescape(report)), "\n".join(console)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build with everything that a page can show for a card: counts, and a verification."""
    path = tmp_path_factory.mktemp("browser") / "iiwa14"
    build("iiwa14", "fd_derivatives_from_minv", path, ii=8, formats="auto", target="vcu118")
    synth(path)
    assert verify(path, samples=200)["ok"]
    return path


@pytest.fixture(scope="module")
def data(folder: Path) -> list[dict[str, Any]]:
    other = folder.parent / "rnea"
    build("iiwa14", "rnea", other, ii=8)
    return [
        build_data(build, build_facts(Build.read(build), states=200)) for build in (folder, other)
    ]


@pytest.fixture(scope="module")
def path(folder: Path, data: list[dict[str, Any]]) -> Path:
    write_page(folder.parent / "page.html", build_page(data))
    return folder.parent / "page.html"


@pytest.mark.parametrize("width", [1280, 390])
def test_it_opens_points_and_zooms(
    browser: str, folder: Path, path: Path, data: list[dict[str, Any]], width: int
) -> None:
    assert path.stat().st_size < MOST_BYTES
    report, console = seen(browser, path, width=width)
    rows = Build.read(folder).schedule["operations"]
    assert report["drawn"] and report["operations"] == len(rows)
    first = rows[0]
    for words in (
        f"operation %{first['node']}",
        f"unit {first['kind']} {first['unit']}",
        f"cycle {first['start']}, result in cycle {first['start'] + first['latency']}",
        f"source {first['line']}",
        f"region {first['region']}",
        "dot: qd[0] * qd[0]",
        f"{first['line']}: {data[0]['facts']['sources'][first['line']]}",
    ):
        assert words in report["tip"]
    assert report["zoom"] < 0.9 and report["back"] == 1
    assert "operation %" in report["said"] and report["turned"]
    assert report["requests"] == [] and report["failures"] == [] and console == ""
    assert report["wider"] <= 0, "no sideways scrolling of the page"
    assert report["unmarked"] == 0, "what scrolls sideways says so"
    assert report["covered"] == 0, "no box is under the tail of another"
    # Both builds, each with its chart; parts one at a time, and all signals.
    assert report["builds"] == [["build0"], ["build1"]]
    assert report["charts"] == [len(build["schedule"]["operations"]) for build in data]
    (parts,) = report["parts"]
    assert parts == [[name] for name in ("vcu118", "u250")]
    assert report["signals"] == data[0]["formats"]["signals"]
    last, fmt = rows[-1], data[0]["formats"]["of"][-1]
    assert report["signal"][:2] == [f"%{last['node']}", last["region"]]
    assert report["signal"][2:5] == [str(n) for n in (fmt[0], fmt[0] - fmt[1], fmt[1])]
    words = path.read_text()
    assert "0 of 200 requests wrong" in words and "Slowest path of each class" in words
    print(
        f"{path.stat().st_size:,} bytes, {report['operations']:,} operations in the first of "
        f"{len(data)} builds; DOMContentLoaded after {report['ready']} ms at {width} pixels"
    )


def test_a_tail_over_a_box_is_seen(
    browser: str, data: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = _asset("page.js")
    assert script.count("of [true, false]") == 1
    wrong = {"page.js": script.replace("of [true, false]", "of [false, true]")}
    monkeypatch.setattr(
        "pinion.report.build_page._asset", lambda name: wrong.get(name) or _asset(name)
    )
    write_page(tmp_path / "page.html", build_page(data[1:]))
    report, _ = seen(browser, tmp_path / "page.html")
    assert report["covered"] > 0 and report["drawn"]


def test_a_foreign_script_or_address_is_stopped(browser: str, path: Path, tmp_path: Path) -> None:
    """The policy holds even if a text slips through: the browser refuses both."""
    page = path.read_text()
    mark = '<p class="brand">'
    evil = '<script>document.title = "gone"</script><img src="https://example.org/x.png">'
    wrong = tmp_path / "wrong.html"
    wrong.write_text(page.replace(mark, evil + mark, 1))
    report, console = seen(browser, wrong)
    refused = [line for line in console.splitlines() if "Content Security Policy" in line]
    assert any("inline script" in line for line in refused)
    assert any("example.org" in line for line in refused)
    # If the policy does not include the page's script, nothing is drawn.
    broken = tmp_path / "broken.html"
    broken.write_text(page.replace("script-src", "script-source", 1))
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    completed = subprocess.run(
        [*command, f"{broken.as_uri()}#selftest"],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    assert "Nothing on this page" in completed.stdout and '<pre id="seen">' not in completed.stdout
    assert report["drawn"]
