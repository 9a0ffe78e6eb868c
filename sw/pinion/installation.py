"""How this copy of Pinion was installed: its version, and how to install one of its extras.

The distribution is called ``pinion-rbd``; the name ``pinion`` on PyPI belongs to another project.
Since Pinion is installed from a clone or from a wheel and need not be on an index, a hint names the
packages that an extra lists, which are on PyPI, and not the extra of ``pinion-rbd`` itself.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import metadata

__all__ = ["DISTRIBUTION", "install_hint", "missing_module", "version"]

DISTRIBUTION = "pinion-rbd"
"""The name under which Pinion is installed; import and command are called ``pinion``."""

_REQUIREMENT = re.compile(r"\s*([\w.-]+)[^;]*")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([\w-]+)['\"]")

# Extras that repeat what others list.
_COLLECTIONS = ("dev",)

# Where a package is imported under another name than it is installed under.
_IMPORTED_AS = {"pyserial": "serial", "pyvcd": "vcd", "pin": "pinocchio", "cuda-core": "cuda"}


def version() -> str:
    """The version of the installed distribution, or ``0+unknown`` where none is installed."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "0+unknown"


def install_hint(extra: str) -> str:
    """How to install an extra, as the end of a sentence: ``install ... with `pip install ...```.

    The command installs the packages that the extra lists, so it works for a clone and for a wheel
    alike. Where nothing is installed (a source tree on the path), it is the command for a clone.

    Parameters
    ----------
    extra : one of the optional dependencies in ``pyproject.toml``, such as ``hw``.
    """
    packages = [requirement for name, requirement in _optional() if name == extra]
    if not packages:
        return f"install the extra '{extra}' with `pip install -e '.[{extra}]'` in Pinion's clone"
    quoted = " ".join(f"'{requirement}'" for requirement in packages)
    return f"install the extra '{extra}' with `pip install {quoted}`"


def missing_module(error: ModuleNotFoundError) -> str | None:
    """The sentence for an import that failed since a package of an extra is not installed.

    None where the missing module is Pinion's own or Python's: that is a defect and deserves its
    traceback.
    """
    package = (error.name or "").partition(".")[0]
    if package in ("", "pinion") or package in sys.stdlib_module_names:
        return None
    extra = _extra_of(package)
    if extra is None:
        return f"The Python package {package} is missing: install it with `pip install {package}`."
    return f"{package} is missing: {install_hint(extra)}."


def _extra_of(package: str) -> str | None:
    """The extra that lists a package, given by the name it is imported under, or None."""
    for extra, requirement in _optional():
        match = _REQUIREMENT.match(requirement)
        name = match.group(1).lower() if match else ""
        if package == _IMPORTED_AS.get(name, re.sub(r"[-.]", "_", name)):
            return extra
    return None


def _optional() -> Iterator[tuple[str, str]]:
    """Extras and the requirements that each lists."""
    try:
        requirements = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return
    for line in requirements:
        extra = _EXTRA.search(line)
        if extra and extra.group(1) not in _COLLECTIONS:
            yield extra.group(1), line.partition(";")[0].strip()
