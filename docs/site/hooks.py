"""Hooks of MkDocs, named by ``mkdocs.yml``: generated pages, links out of ``docs``, equations.

Generated pages exist only in the site and are made from the code that they describe, so they cannot
be out of date.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:  # `mkdocs build` does not look here, `python -m mkdocs` does
    sys.path.insert(0, str(ROOT))

from docs.site import equations, links, notebook, publish, records, reference  # noqa: E402  after the path

from pinion.base import installation  # noqa: E402  after the path

# Roles of reStructuredText around a name in a docstring: the name alone says it on a page.
ROLE = re.compile(r":(?:func|class|meth|mod|data|attr|exc):(?=<code>|<a )")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the version into the footer, and lists of generated pages into the menu."""
    config.copyright = f"Pinion {installation.version()}, Apache License 2.0"
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    addresses = dict(re.findall(r'^(repository-code|url): *"?([^\s"]+)"?$', citation, re.MULTILINE))
    if repository := addresses.get("repository-code"):
        config.copyright += f', <a href="{repository}">source</a>'
    config.site_url = addresses.get("url", config.site_url)
    config.nav = _menu(config.nav or [], _lists())
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    written = {
        f.src_uri: Path(f.abs_src_path or "").read_text("utf-8") for f in files if _is_page(f)
    }
    file_pages = links.outside(ROOT, written)
    for name, content in {**_generated(), **file_pages}.items():
        # Only the pages that link to files lead to them.
        within = InclusionLevel.NOT_IN_NAV if name.startswith("files/") else InclusionLevel.INCLUDED
        files.append(File.generated(config, name, content=content, inclusion=within))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links to files outside of ``docs`` into links to the pages that show them."""
    del config, files
    return links.inside(ROOT, page.file.src_uri, markdown)


def on_page_content(html: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Convert equations, and remove the roles of reStructuredText."""
    del config, files
    html = equations.to_mathml(html, where=page.file.src_uri)
    return ROLE.sub("", html)


def _generated() -> dict[str, str | bytes]:
    version = json.dumps({"version": installation.version()}) + "\n"
    version_file: dict[str, str | bytes] = {publish.VERSION: version}
    return {**version_file, **reference.pages(), **records.pages(ROOT), **notebook.pages(ROOT)}


def _is_page(file: File) -> bool:
    return file.src_uri.endswith(".md") and not file.generated_by and file.inclusion.is_included()


def _lists() -> dict[str, list[Any]]:
    return {"reference/python/": reference.modules(), "adr/": records.menu(ROOT)}


def _menu(nav: list[Any], lists: dict[str, list[Any]]) -> list[Any]:
    """Return the menu with a list of pages for each folder that it names."""
    menu: list[Any] = []
    for item in nav:
        if isinstance(item, dict):
            ((title, below),) = item.items()
            if isinstance(below, list):
                below = _menu(below, lists)
            elif below in lists:
                below = lists[below]
            item = {title: below}
        menu.append(item)
    return menu
