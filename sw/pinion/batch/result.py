"""Results of a batch: named arrays, flags and clock cycles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from pinion.base.html import html_table

SATURATED = "saturated"


class Result(Mapping[str, NDArray[Any]]):
    """Result arrays by name, as attributes (``result.tau``) and as items (``result["tau"]``).

    Members
    -------
    (each output of the function) : (n, ...), or (...) for a single request; float32 from a card.
    saturated : (n,) bool, or one bool: some value of this result exceeded its format's range, so
        its numbers are wrong. In floats, on CPUs and GPUs, some value is an infinity or NaN.
    cycles : clock cycles that the card took for the batch, or None if they are not counted.

    A result cannot be changed, except as the ``out`` of a later run, which rewrites its arrays. As
    a mapping it has the outputs and ``saturated``.
    """

    __slots__ = ("_arrays", "_cycles")

    _arrays: dict[str, NDArray[Any]]
    _cycles: int | None

    def __init__(
        self,
        *,
        arrays: Mapping[str, NDArray[Any]],
        saturated: NDArray[np.bool_],
        cycles: int | None,
    ) -> None:
        object.__setattr__(self, "_arrays", {**arrays, SATURATED: saturated})
        object.__setattr__(self, "_cycles", cycles)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the outputs, in record order."""
        return tuple(name for name in self._arrays if name != SATURATED)

    @property
    def saturated(self) -> NDArray[np.bool_]:
        """Whether each result is invalid, (n,) bool, or () for a single request."""
        return self._arrays[SATURATED]

    @property
    def cycles(self) -> int | None:
        """Clock cycles that the card took for the batch, None if they are not counted."""
        return self._cycles

    def _asdict(self) -> dict[str, NDArray[Any]]:
        """Return outputs and ``saturated`` as a dictionary, for example for ``numpy.savez``."""
        return dict(self._arrays)

    def __getattr__(self, name: str) -> NDArray[Any]:
        # Copying and pickling look up special names before there are any arrays.
        if name.startswith("__") or name in Result.__slots__:
            raise AttributeError(name)
        try:
            return self._arrays[name]
        except KeyError:
            raise AttributeError(self._unknown(name)) from None

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"A result cannot be changed: '{name}' was not set.")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"A result cannot be changed: '{name}' was not deleted.")

    def __getitem__(self, name: str) -> NDArray[Any]:
        try:
            return self._arrays[name]
        except KeyError:
            wrong = self._unknown(name)
            if name == "cycles":
                wrong = "The cycles of a result are not an array: use result.cycles."
            raise KeyError(wrong) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    # Arrays have no single truth value, so results are equal only if they are identical.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        outputs = {name: self._arrays[name] for name in self.names}
        return _rebuild, (outputs, self.saturated, self.cycles)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._arrays})

    def __repr__(self) -> str:
        parts = [f"{name}={self._arrays[name].shape}" for name in self.names]
        return f"Result({', '.join([*parts, *self._of_a_card()])})"

    def _repr_html_(self) -> str:
        rows = []
        for name in self.names:
            values = self._arrays[name]
            good = values[np.isfinite(values)]
            size = f"{np.abs(good).max():.4g}" if good.size else "-"
            shape = " x ".join(map(str, values.shape)) or "1"
            rows.append((name, shape, values.dtype.name, size))
        count = self.saturated.size
        return html_table(
            ", ".join(self._of_a_card()) or f"{count} result{'' if count == 1 else 's'}",
            rows,
            heads=("result", "shape", "dtype", "largest absolute value"),
        )

    def _of_a_card(self) -> list[str]:
        """Return a card's flags and cycles as text; empty for float results without a flag."""
        flagged = int(np.count_nonzero(self.saturated))
        counted = self._cycles is not None
        parts = [f"saturated: {flagged} of {self.saturated.size}"] if counted or flagged else []
        return parts + ([f"cycles={self._cycles}"] if counted else [])

    def _unknown(self, name: str) -> str:
        return f"This result has no '{name}'; it has {', '.join(self._arrays)} and cycles."


def not_finite(arrays: Mapping[str, NDArray[Any]], count: int) -> NDArray[np.bool_]:
    """Return which of `count` samples have a NaN or an infinity in one of the arrays (n, ...)."""
    bad = np.zeros(count, np.bool_)
    for values in arrays.values():
        finite = np.isfinite(values)
        if not finite.all():
            bad |= ~finite.reshape(count, -1).all(axis=1)
    return bad


def written(
    out: Mapping[str, Any] | None, arrays: Mapping[str, NDArray[Any]], saturated: NDArray[np.bool_]
) -> Result:
    """Return the result of a run on a CPU or GPU: ``out`` if it is a `Result`, else a new one."""
    if not isinstance(out, Result):
        return Result(arrays=arrays, saturated=saturated, cycles=None)
    object.__setattr__(out, "_arrays", {**arrays, SATURATED: saturated})
    object.__setattr__(out, "_cycles", None)
    return out


def _rebuild(
    arrays: Mapping[str, NDArray[Any]], saturated: NDArray[np.bool_], cycles: int | None
) -> Result:
    return Result(arrays=arrays, saturated=saturated, cycles=cycles)
