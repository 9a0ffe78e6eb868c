"""The installed copy of Pinion: its version, and how to install its extras.

The distribution is called ``pinion-rbd``; the name ``pinion`` on PyPI belongs to another project.
``pip install 'pinion-rbd[hw]'`` reads the extra's list from the installed copy, clone or wheel, so
the hint works even if no index has ``pinion-rbd``.
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
"""Name of the distribution; the import and the command are called ``pinion``."""

_NAMESAKE = "pinion"

_REQUIREMENT = re.compile(r"\s*([\w.-]+)[^;]*")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([\w-]+)['\"]")

# Extras that only repeat others.
_COLLECTIONS = ("all", "dev")

# Packages whose import name differs from their distribution name.
_IMPORTED_AS = {
    **{"pyserial": "serial", "pyvcd": "vcd", "pin": "pinocchio", "cuda-core": "cuda"},
    "cocotbext-axi": "cocotbext",
}


class MissingExtraError(ModuleNotFoundError):
    """Error for missing packages of extras; the message tells the user how to install them."""


def version() -> str:
    """Return the version of the installed distribution, or ``0+unknown`` if there is none."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "0+unknown"


def namesake() -> str | None:
    """Return a warning if the other project called ``pinion`` is installed as well, else None.

    Both packages install the command ``pinion``, and the last one installed wins.
    """
    try:
        namesake_version = metadata.version(_NAMESAKE)
    except metadata.PackageNotFoundError:
        return None
    return (
        f"The package {_NAMESAKE} {namesake_version}, a tool for pinouts of KiCad boards, is also "
        "installed in this environment and has a command of the same name; uninstalling it deletes "
        f"this one. Install {DISTRIBUTION} in a separate environment, or uninstall {_NAMESAKE} and "
        "run `pip install --force-reinstall --no-deps` with the source that "
        f"{DISTRIBUTION} was installed from."
    )


def require(*extras: str) -> None:
    """Check that the packages of extras can be imported, before any work starts.

    Parameters
    ----------
    extras : optional dependencies in ``pyproject.toml``, such as ``hw``.

    Raises
    ------
    MissingExtraError
        If a package is missing; the message names the packages and one command for all of them.
    """
    listed = [(extra, _module(requirement)) for extra, requirement in _optional()]
    missing = {module: extra for extra, module in listed if extra in extras and not _there(module)}
    if missing:
        names, lacking = sorted(missing), [extra for extra in extras if extra in missing.values()]
        packages = f"{', '.join(names[:-1])} and {names[-1]} are" if names[1:] else f"{names[0]} is"
        raise MissingExtraError(f"{packages} missing: {install_hint(*lacking)}.")


@contextmanager
def needs(refusal: Callable[[str], Exception]) -> Iterator[None]:
    """Turn a failed import of an extra's package into an error that says how to install it.

    Parameters
    ----------
    refusal : builds the error from its message.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        sentence = missing_module(error)
        if sentence is None:  # a bug
            raise
        raise refusal(sentence) from error


def install_hint(*extras: str) -> str:
    """Return the end of a sentence on installing extras: ``install ... with `pip install ...```.

    If Pinion is not installed (a source tree on the path), this is the command for a clone.

    Parameters
    ----------
    extras : optional dependencies in ``pyproject.toml``, such as ``hw``.
    """
    phrase = " and ".join(f"'{extra}'" for extra in extras)
    phrase = f"the extra{'s' if extras[1:] else ''} {phrase}"
    if version() == "0+unknown":
        return f"install {phrase} with `pip install -e '.[{','.join(extras)}]'` in Pinion's clone"
    return f"install {phrase} with `pip install '{DISTRIBUTION}[{','.join(extras)}]'`"


def missing_module(error: ModuleNotFoundError) -> str | None:
    """Return the error message for an import that failed because a package is missing.

    None if the missing module is part of Pinion or Python: that is a bug and deserves its
    traceback.
    """
    if isinstance(error, MissingExtraError):
        return str(error)
    package = (error.name or "").partition(".")[0]
    if package in ("", "pinion") or package in sys.stdlib_module_names:
        return None
    extra = next((extra for extra, line in _optional() if _module(line) == package), None)
    if extra is None:
        return (
            f"The Python module {package} is missing: install the package that contains it, often "
            f"with `pip install {package}`."
        )
    return f"{package} is missing: {install_hint(extra)}."


def _module(requirement: str) -> str:
    """Return the import name of a required package."""
    match = _REQUIREMENT.match(requirement)
    name = match.group(1).lower() if match else ""
    return _IMPORTED_AS.get(name, re.sub(r"[-.]", "_", name))


def _there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _optional() -> Iterator[tuple[str, str]]:
    """Yield each extra with each of its requirements, except extras that only repeat others."""
    try:
        requirements = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return
    for line in requirements:
        extra = _EXTRA.search(line)
        if extra and extra.group(1) not in _COLLECTIONS:
            yield extra.group(1), line.partition(";")[0].strip()
