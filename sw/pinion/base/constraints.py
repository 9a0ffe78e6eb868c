"""The folder of the boards' files."""

from __future__ import annotations

from pathlib import Path


def constraints_folder() -> Path:
    """Return the folder of the boards' files: of the installed package, or the repository's.

    Raises
    ------
    FileNotFoundError
        If it is missing.
    """
    module = Path(__file__).resolve()
    for folder in (module.parents[1] / "boards" / "constraints", module.parents[3] / "constraints"):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(
        f"The folder 'constraints' for '{module.parents[1]}' is missing: reinstall Pinion, or run "
        "it from its repository."
    )
