"""What hatchling adds to the packages: links of the project page, and `pinion.__version__`.

The addresses stand in CITATION.cff, which a release completes; without them nothing is added.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

# A relative link or picture of a page: `](` and what follows, without a scheme.
LINK = re.compile(r"(?P<picture>!?)(?P<text>\[[^\]]*\])\((?![a-z]+:|#)(?P<path>[^)\s]+)\)")

INIT = '''"""Robot dynamics in hardware: begin with `pinion.api`."""

__version__ = "{}"
'''


def addresses(root: Path) -> dict[str, str]:
    """Addresses that CITATION.cff has, by its words for them: `repository-code` and `url`."""
    text = (root / "CITATION.cff").read_text(encoding="utf-8")
    return dict(re.findall(r"^(repository-code|url): *\"?([^\s\"]+)\"?$", text, re.MULTILINE))


def absolute(page: str, repository: str, version: str) -> str:
    """A page whose links to files lead to those of a version's tag, on GitHub or GitLab."""

    def link(found: re.Match[str]) -> str:
        kind = "raw" if found["picture"] else "blob"
        target = f"{repository.rstrip('/')}/{kind}/v{version}/{found['path']}"
        return f"{found['picture']}{found['text']}({target})"

    return LINK.sub(link, page)


class Metadata(MetadataHookInterface):
    """The page of the project and its links."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Fill in `readme` and `urls`."""
        root = Path(self.root)
        known = addresses(root)
        page = (root / "README.md").read_text(encoding="utf-8")
        if repository := known.get("repository-code"):
            page = absolute(page, repository, metadata["version"])
            changes = f"{repository.rstrip('/')}/blob/v{metadata['version']}/CHANGELOG.md"
            metadata["urls"] = {"Repository": repository, "Changelog": changes}
        if site := known.get("url"):
            metadata["urls"] = {"Documentation": site, **metadata.get("urls", {})}
        metadata["readme"] = {"content-type": "text/markdown", "text": page}


class Version(BuildHookInterface[Any]):
    """The files that a wheel has in `pinion` itself, where a clone has none."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write them."""
        if version == "editable":
            return
        self.folder = tempfile.TemporaryDirectory()
        files = {"__init__.py": INIT.format(self.metadata.version), "py.typed": ""}
        for name, text in files.items():
            path = Path(self.folder.name) / name
            path.write_text(text, encoding="utf-8")
            build_data["force_include"][str(path)] = f"pinion/{name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove them again."""
        if version != "editable":
            self.folder.cleanup()
