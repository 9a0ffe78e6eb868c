"""The built site in headless Chromium, from a folder: wide, narrow, light, dark, and its search.

`make docs-browser` builds the site first; photographs go into ``build/screenshots``.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from docs.site.publish import publish

from tests.support.browser import Browser, find_browser

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "build" / "site"
PICTURES = ROOT / "build" / "screenshots"

WIDE, NARROW = (1440, 900), (390, 844)


class QuietHandler(SimpleHTTPRequestHandler):
    """A file server that writes no log."""

    def log_message(self, format: str, *args: Any) -> None:
        del format, args


# What most readers see, and pages with what is hard to lay out: tables, code, equations, pictures.
SHOWN = (
    "index",
    "start",
    "notebook",
    "functions",
    "graph",
    "link",
    "results",
    "guides/where-each-backend-wins",
    "reference/commands",
    "reference/json",
    "reference/python/pinion.api",
    "concepts/rnea-derivatives",
    "project/changelog",
    "architecture",
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_browser() is None, reason="there is no Chromium here"),
    pytest.mark.skipif(
        not (SITE / "index.html").is_file(), reason="the site is not built; say: make docs"
    ),
]

# Elements that stick out of the window, where no ancestor lets them scroll or cuts them.
OVERFLOW = """(() => {
  const wide = document.documentElement.clientWidth;
  const page = document.documentElement.scrollWidth - wide;
  if (page <= 0) return [];
  const found = [`page: ${page} px`];
  for (const e of document.body.querySelectorAll("*")) {
    if (e.getBoundingClientRect().right <= wide + 1) continue;
    let held = false;
    for (let a = e.parentElement; a && a !== document.body; a = a.parentElement)
      held = held || getComputedStyle(a).overflowX !== "visible";
    if (!held) found.push(`${e.tagName}.${e.className}: ${e.textContent.slice(0, 40)}`);
  }
  return found.slice(0, 5);
})()"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = find_browser()
    assert path is not None
    with Browser(path) as opened:
        yield opened


def _pages() -> list[Path]:
    return sorted(p for p in SITE.rglob("*.html") if p.name != "404.html")


def test_no_page_has_an_error_asks_the_network_or_is_wider_than_a_phone(browser: Browser) -> None:
    wrong = []
    pages = _pages()
    assert len(pages) > 80
    browser.look(width=NARROW[0], height=NARROW[1], phone=True)
    for page in pages:
        browser.open(page)
        name = page.relative_to(SITE)
        wrong += [f"{name}: wider than the window: {element}" for element in browser.ask(OVERFLOW)]
        wrong += [f"{name}: not loaded: {request}" for request in browser.trouble.failed]
        wrong += [f"{name}: error: {error}" for error in browser.trouble.errors]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pages_are_photographed_as_asked(
    browser: Browser, size: tuple[int, int], dark: bool
) -> None:
    browser.look(width=size[0], height=size[1], dark=dark, phone=size == NARROW)
    for name in SHOWN:
        page = SITE / f"{name}.html"
        assert page.is_file(), f"{name} is not on the site"
        browser.open(page)
        scheme = browser.ask("document.body.getAttribute('data-md-color-scheme')")
        assert scheme == ("slate" if dark else "default")
        assert browser.ask(OVERFLOW) == []
        assert not browser.trouble.failed
        assert not browser.trouble.errors
        look = f"{'wide' if size == WIDE else 'narrow'}-{'dark' if dark else 'light'}"
        place = PICTURES / look / f"{name.replace('/', '-')}.png"
        browser.photograph(place)
        assert place.stat().st_size > 5000


def test_a_wide_table_scrolls_under_the_names_of_its_rows(browser: Browser) -> None:
    browser.look(width=1300, height=900)
    browser.open(SITE / "results.html")
    left, beyond = browser.ask(
        "(() => { const box = document.querySelector('.md-typeset__scrollwrap');"
        " box.scrollLeft = 200; const cell = box.querySelector('td').getBoundingClientRect();"
        " return [cell.left - box.getBoundingClientRect().left, box.scrollWidth - box.clientWidth];"
        " })()"
    )
    assert beyond > 200
    assert left == 0


def test_drawings_for_white_paper_have_it_and_the_overview_has_its_own(browser: Browser) -> None:
    grounds = {}
    for name, picture in (("index", "flow.svg"), ("results", "overview.svg")):
        browser.look(width=WIDE[0], height=WIDE[1], dark=True)
        browser.open(SITE / f"{name}.html")
        image = f"document.querySelector('article img[src$=\"{picture}\"]')"
        style = "['backgroundColor', 'colorScheme']"
        grounds[picture] = browser.ask(f"{style}.map(k => getComputedStyle({image})[k])")
    assert grounds["flow.svg"] == ["rgb(255, 255, 255)", "light"]
    assert grounds["overview.svg"] == ["rgba(0, 0, 0, 0)", "dark"]


def _search(browser: Browser, words: str) -> list[str]:
    """Return the titles that the search of the page finds."""
    browser.open(SITE / "index.html")
    browser.ask("location.hash = ''; document.querySelector('.md-search__input').focus()")
    browser.ask(
        "(() => { const box = document.querySelector('.md-search__input');"
        f" box.value = {words!r};"
        " box.dispatchEvent(new Event('input', {bubbles: true}));"
        " box.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true})); })()"
    )
    meta = "document.querySelector('.md-search-result__meta').textContent.trim()"
    browser.until(lambda: "document" in browser.ask(meta))
    titles: Any = browser.ask(
        "[...document.querySelectorAll('.md-search-result__article h1')].map(e => e.textContent)"
    )
    return list(titles)


def test_the_search_finds_without_a_network(browser: Browser) -> None:
    browser.look(width=WIDE[0], height=WIDE[1])
    assert len(_search(browser, "rnea")) >= 3
    assert browser.trouble.failed == []
    assert browser.trouble.errors == []
    # And nothing where there is nothing.
    assert _search(browser, "zzyzzxq") == []


def test_versions_are_listed_by_a_server_and_left_out_from_a_folder(
    browser: Browser, tmp_path: Path
) -> None:
    site, folder = tmp_path / "site", tmp_path / "versions"
    shutil.copytree(SITE, site)
    for version in ("0.0.9", "0.1.0"):
        (site / "version.json").write_text(json.dumps({"version": version}))
        publish(site, folder)
    handler = partial(QuietHandler, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    listed = "[...document.querySelectorAll('.md-version__link')].map(e => e.textContent.trim())"
    browser.look(width=WIDE[0], height=WIDE[1])
    try:
        for version in ("0.0.9", "latest"):
            browser.open(f"http://127.0.0.1:{server.server_port}/{version}/concepts/rnea.html")
            browser.until(lambda: len(browser.ask(listed)) == 2)
            assert browser.ask(listed) == ["0.1.0", "0.0.9"]
            assert browser.trouble.failed == []
            assert browser.trouble.errors == []
    finally:
        server.shutdown()
        server.server_close()
    browser.open(folder / "0.1.0" / "concepts" / "rnea.html")
    assert browser.ask(listed) == []
    assert browser.trouble.failed == []
    assert browser.trouble.errors == []


def test_equations_are_set_and_nothing_is_left_of_their_source(browser: Browser) -> None:
    browser.look(width=WIDE[0], height=WIDE[1])
    browser.open(SITE / "concepts/rnea-derivatives.html")
    assert browser.ask("document.querySelectorAll('math').length") > 5
    text = browser.ask("document.querySelector('article').innerText")
    assert "$$" not in text
    assert "\\dot" not in text


def test_the_browser_notices_what_these_tests_look_for(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text(
        "<html><body><div class='x' style='width: 3000px'>wide</div>"
        "<img src='gone.png'><script src='https://example.invalid/x.js'></script>"
        "<script>nothing_there()</script></body></html>"
    )
    browser.look(width=NARROW[0], height=NARROW[1])
    browser.open(page)
    assert any("DIV.x" in element for element in browser.ask(OVERFLOW))
    failed = {request.split(": ")[0].rsplit("/", 1)[1] for request in browser.trouble.failed}
    assert {"gone.png", "x.js"} <= failed
    assert any("nothing_there" in error for error in browser.trouble.errors)
