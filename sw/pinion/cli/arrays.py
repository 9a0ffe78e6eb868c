"""Reading and writing .npz files of named arrays."""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pinion.console.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read the arrays of an .npz file by name.

    Raises
    ------
    UsageError
        If the file is not an .npz file, or holds Python objects.
    """
    import numpy as np

    try:
        data = np.load(path, allow_pickle=False)
        if isinstance(data, np.lib.npyio.NpzFile):
            with data:
                return dict(data)
    except OSError as error:
        raise UsageError(
            f"The requests '{path}' cannot be read ({error.strerror or error}): give an .npz file "
            "with named arrays, as written by numpy.savez."
        ) from None
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        # NumPy treats unknown content as pickled objects, and advises how to load them.
        why = "another kind of file, or arrays of objects" if "pickle" in str(error) else error
        raise UsageError(
            f"'{path}' cannot be read as an .npz file of plain arrays ({why}): write it with "
            "numpy.savez."
        ) from None
    raise UsageError(f"'{path}' contains a single array: write named arrays with numpy.savez.")


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write an .npz file, completely or not at all."""
    import numpy as np

    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **arrays)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)  # mkstemp's files are private
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
