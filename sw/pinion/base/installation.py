"""How this copy of Pinion was installed: its version, and how to install one of its extras.

The distribution is called ``pinion-rbd``; the name ``pinion`` on PyPI belongs to another project.
``pip install 'pinion-rbd[hw]'`` reads what the installed copy lists under that extra, whether it is
a clone's or a wheel's, so that the hint works where no index has ``pinion-rbd``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from importlib.util import find_spec

__all__ = [
    "DISTRIBUTION",
    "install_hint",
    "missing_module",
    "namesake",
    "needs",
    "require",
    "version",
]

DISTRIBUTION = "pinion-rbd"
"""The name under which Pinion is installed; import and command are called ``pinion``."""

_NAMESAKE = "pinion"

_REQUIREMENT = re.compile(r"\s*([\w.-]+)[^;]*")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([\w-]+)['\"]")

# Extras that repeat what others list.
_COLLECTIONS = ("all", "dev")

# Where a package is imported under another name than it is installed under.
_IMPORTED_AS = {
    **{"pyserial": "serial", "pyvcd": "vcd", "pin": "pinocchio", "cuda-core": "cuda"},
    "cocotbext-axi": "cocotbext",
}


class MissingExtraError(ModuleNotFoundError):
    """Packages of extras are not installed; the message is the sentence for the user."""


def version() -> str:
    """The version of the installed distribution, or ``0+unknown`` where none is installed."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "0+unknown"


def namesake() -> str | None:
    """What to say where the other project called ``pinion`` is installed beside Pinion, or None.

    Both packages write the command ``pinion``, and the last one that was installed has it.
    """
    try:
        other = metadata.version(_NAMESAKE)
    except metadata.PackageNotFoundError:
        return None
    return (
        f"The package {_NAMESAKE} {other}, a tool for pinouts of KiCad boards, is installed in "
        "this environment too and has a command of this name; uninstalling it deletes this one. "
        f"Install {DISTRIBUTION} in an environment of its own, or uninstall {_NAMESAKE} and run "
        f"`pip install --force-reinstall --no-deps` with what {DISTRIBUTION} was installed from."
    )


def require(*extras: str) -> None:
    """Check that the packages of extras can be imported, before any work.

    Parameters
    ----------
    extras : optional dependencies in ``pyproject.toml``, such as ``hw``.

    Raises
    ------
    MissingExtraError
        When a package is missing; the message names the packages and one command for all of them.
    """
    listed = [(extra, _module(requirement)) for extra, requirement in _optional()]
    missing = {module: extra for extra, module in listed if extra in extras and not _there(module)}
    if missing:
        names, lacking = sorted(missing), [one for one in extras if one in missing.values()]
        packages = f"{', '.join(names[:-1])} and {names[-1]} are" if names[1:] else f"{names[0]} is"
        raise MissingExtraError(f"{packages} missing: {install_hint(*lacking)}.")


@contextmanager
def needs(refusal: Callable[[str], Exception]) -> Iterator[None]:
    """Imports of packages that an extra brings: one that is missing is a sentence.

    Parameters
    ----------
    refusal : makes the error that is raised then from the sentence, which says how to install it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        sentence = missing_module(error)
        if sentence is None:  # a defect
            raise
        raise refusal(sentence) from error


def install_hint(*extras: str) -> str:
    """How to install extras, as the end of a sentence: ``install ... with `pip install ...```.

    Where nothing is installed (a source tree on the path), it is the command for a clone.

    Parameters
    ----------
    extras : optional dependencies in ``pyproject.toml``, such as ``hw``.
    """
    what = " and ".join(f"'{extra}'" for extra in extras)
    what = f"the extra{'s' if extras[1:] else ''} {what}"
    if version() == "0+unknown":
        return f"install {what} with `pip install -e '.[{','.join(extras)}]'` in Pinion's clone"
    return f"install {what} with `pip install '{DISTRIBUTION}[{','.join(extras)}]'`"


def missing_module(error: ModuleNotFoundError) -> str | None:
    """The sentence for an import that failed since a package of an extra is not installed.

    None where the missing module is Pinion's own or Python's: that is a defect and deserves its
    traceback.
    """
    if isinstance(error, MissingExtraError):
        return str(error)
    package = (error.name or "").partition(".")[0]
    if package in ("", "pinion") or package in sys.stdlib_module_names:
        return None
    extra = next((extra for extra, line in _optional() if _module(line) == package), None)
    if extra is None:
        return f"The Python package {package} is missing: install it with `pip install {package}`."
    return f"{package} is missing: {install_hint(extra)}."


def _module(requirement: str) -> str:
    """The name that a required package is imported under."""
    match = _REQUIREMENT.match(requirement)
    name = match.group(1).lower() if match else ""
    return _IMPORTED_AS.get(name, re.sub(r"[-.]", "_", name))


def _there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _optional() -> Iterator[tuple[str, str]]:
    """Extras and the requirements that each lists, but for those that only repeat others."""
    try:
        requirements = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return
    for line in requirements:
        extra = _EXTRA.search(line)
        if extra and extra.group(1) not in _COLLECTIONS:
            yield extra.group(1), line.partition(";")[0].strip()
