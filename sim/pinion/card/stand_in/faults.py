"""Fault plans: the faults that a stand-in card injects, and when.

A plan is a TOML file or a :class:`FaultPlan`. Each fault names its kind and when it happens: at
packet numbers (``at``, counted from 0; resent packets count again), or at random
(``probability``, for each packet, or for each request with ``per = "request"``). The kind
``random`` means one fault of any kind after ``every`` requests on average.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

Side = Literal["request", "response"]

KINDS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "delay": ("A transfer takes `seconds` longer.", ("side", "seconds")),
    "short_read": (
        "A read ends after `beats` beats; the remainder of the packet stays in the card.",
        ("beats",),
    ),
    "etimedout": ("A transfer ends half-way with ETIMEDOUT.", ("side",)),
    "errno512": ("A transfer ends half-way with errno 512, as in older drivers.", ("side",)),
    "ebusy": ("The next opening of the response node fails with EBUSY.", ()),
    "split_tlast": ("TLAST is also on request beat `beat`, without harm.", ("beat",)),
    "partial_tkeep": (
        "Request beat `beat` has only `size` valid bytes, as with an unaligned buffer.",
        ("beat", "size"),
    ),
    "ring_wrap": (
        "The ring of descriptors wraps within the request: two transfers, without harm.",
        ("beat",),
    ),
    "corrupt_beat": ("Bit `bit` of beat `beat` is inverted.", ("side", "beat", "bit")),
    "lost_tail": ("The last `beats` beats of a packet never arrive.", ("side", "beats")),
    "card_reset": ("The card is configured again at request beat `beat`.", ("beat",)),
    "other_build": (
        "The card holds another build from this packet on, for `seconds`.",
        ("seconds",),
    ),
}
"""Kinds of faults: a description, and the parameters besides the time."""

RANDOM = "random"
_WHEN = ("kind", "at", "probability", "per")
_RANDOM_KEYS = ("kind", "every", "kinds")


class FaultPlanError(ValueError):
    """Error for an invalid fault plan; for a file the message names the line."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Fault of a plan; parameters that are None are chosen at random.

    Members
    -------
    kind : one of `KINDS`.
    at : packet numbers; empty for a random fault.
    probability : 0 to 1, for each packet or for each request.
    per : unit of the probability.
    side : the stream.
    seconds : duration of a delay, or of the presence of another build.
    beat : beat of the packet, counted from its header.
    beats : number of beats.
    size : valid bytes of a partial beat, 1 to 63.
    bit : 0 to 511.
    """

    kind: str
    at: tuple[int, ...] = ()
    probability: float = 0.0
    per: Literal["packet", "request"] = "packet"
    side: Side = "request"
    seconds: float = 0.001
    beat: int | None = None
    beats: int | None = None
    size: int | None = None
    bit: int | None = None

    def __post_init__(self) -> None:
        """Raise `FaultPlanError` if a parameter of the fault is invalid."""
        if self.kind not in KINDS:
            raise FaultPlanError(
                f"There is no fault '{self.kind}'; choose one of {', '.join(KINDS)}; for faults "
                f'of random kinds use FaultPlan.random, or kind = "{RANDOM}" in a file.'
            )
        _within("probability", self.probability, 0.0, 1.0)
        if not self.at and not self.probability:
            raise FaultPlanError(
                f"The fault '{self.kind}' never happens: give packet numbers in 'at', or a "
                f"'probability' above 0."
            )
        if any(not _whole(number) or number < 0 for number in self.at):
            raise FaultPlanError(
                f"'at' must list packet numbers, integers of at least 0, not {list(self.at)}."
            )
        _within("seconds", self.seconds, 0.0, 60.0)
        for name, low, high in (("beat", 0, 1 << 20), ("beats", 1, 1 << 20), ("bit", 0, 511)):
            _optional(name, getattr(self, name), low, high)
        _optional("size", self.size, 1, 63)
        _choice("side", self.side, ("request", "response"))
        _choice("per", self.per, ("packet", "request"))


@dataclass(frozen=True, kw_only=True)
class FaultPlan:
    """Faults of a run: individual ones, and random ones at an average rate.

    Members
    -------
    faults : faults with individual times.
    every : average number of requests between two faults of a random kind; None for no such faults.
    kinds : kinds of these faults.
    seed : seed of all random choices.
    """

    faults: tuple[Fault, ...] = ()
    every: float | None = None
    kinds: tuple[str, ...] = tuple(KINDS)
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise `FaultPlanError` if the plan is invalid."""
        if self.every is not None and not (_number(self.every) and self.every >= 1):
            raise FaultPlanError(
                f"'every' must be a number of requests, at least 1, not {self.every}."
            )
        if not self.kinds or set(self.kinds) - set(KINDS):
            unknown = ", ".join(sorted(set(self.kinds) - set(KINDS))) or "nothing"
            raise FaultPlanError(f"'kinds' lists {unknown}; choose from {', '.join(KINDS)}.")
        if not _whole(self.seed):
            raise FaultPlanError(f"The seed must be an integer, not {self.seed!r}.")

    @classmethod
    def random(
        cls, *, every: float, seed: int = 0, kinds: tuple[str, ...] | None = None
    ) -> FaultPlan:
        """Return a plan of one random fault per ``every`` requests on average."""
        return cls(every=every, seed=seed, kinds=tuple(KINDS) if kinds is None else kinds)

    @classmethod
    def read(cls, path: Path) -> FaultPlan:
        """Read a plan from a TOML file.

        Raises
        ------
        FaultPlanError
            If the file cannot be read or is invalid, with the line.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or error
            raise FaultPlanError(
                f"The fault plan '{path}' cannot be read ({why}): give a TOML file as described in "
                "docs/driver.md."
            ) from None
        return cls.parse(text, name=str(path))

    @classmethod
    def parse(cls, text: str, *, name: str = "The fault plan") -> FaultPlan:
        """Return a plan from TOML text; errors name the line."""
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise FaultPlanError(f"{name} is not valid TOML: {error}.") from None
        lines = _Lines(name, text)
        unknown = [key for key in data if key not in ("seed", "fault")]
        if unknown:
            raise lines.error(
                None, unknown[0], f"'{unknown[0]}' is unknown: give seed or [[fault]]"
            )
        tables = data.get("fault", [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise lines.error(None, "fault", "write every fault as a table [[fault]]")
        plan = {"seed": data.get("seed", 0)}
        faults: list[Fault] = []
        for number, table in enumerate(tables):
            try:
                if table.get("kind") == RANDOM:
                    plan |= _random_keys(table)
                else:
                    faults.append(_fault(table))
            except (FaultPlanError, TypeError) as error:
                raise lines.error(number, _named(table, str(error)), str(error)) from None
        try:
            return cls(faults=tuple(faults), **plan)
        except FaultPlanError as error:
            raise lines.error(None, "seed", str(error)) from None

    def text(self) -> str:
        """Return the plan as TOML text that `parse` reads."""
        parts = [f"seed = {self.seed}"]
        if self.every is not None:
            kinds = ", ".join(f'"{kind}"' for kind in self.kinds)
            parts.append(f'[[fault]]\nkind = "random"\nevery = {self.every}\nkinds = [{kinds}]')
        parts.extend(_toml(fault) for fault in self.faults)
        return "\n\n".join(parts) + "\n"


@dataclass(frozen=True, kw_only=True)
class FaultRecord:
    """Event on a stand-in, which a test can match with the driver's exceptions.

    Members
    -------
    kind : one of `KINDS`, or ``trap_N`` for a rule of the vendor's driver that the caller broke.
    packet : number of the request packet, -1 without one.
    sequence : sequence number in its header.
    time : seconds on the monotonic clock.
    detail : a description.
    """

    kind: str
    packet: int
    sequence: int
    time: float
    detail: str


@dataclass(kw_only=True)
class Injector:
    """Generator of a plan's faults for one packet after another."""

    plan: FaultPlan
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        """Seed the generator."""
        self.rng = random.Random(self.plan.seed)

    def draw(self, packet: int, *, count: int, length: int) -> list[Fault]:
        """Draw the faults of a packet, with every parameter set.

        Parameters
        ----------
        packet : its number.
        count : requests in it.
        length : its length in beats, which bounds the positions of faults.
        """
        faults = [fault for fault in self.plan.faults if self._happens(fault, packet, count)]
        if self.plan.every is not None:
            chance = 1 - (1 - 1 / self.plan.every) ** count
            if self.rng.random() < chance:
                faults.append(self._any())
        return [self._decided(fault, length) for fault in faults]

    def _happens(self, fault: Fault, packet: int, count: int) -> bool:
        if packet in fault.at:
            return True
        if not fault.probability:
            return False
        tries = count if fault.per == "request" else 1
        return self.rng.random() < 1 - (1 - fault.probability) ** tries

    def _any(self) -> Fault:
        kind = self.rng.choice(self.plan.kinds)
        side: Side = self.rng.choice(("request", "response"))
        longest = 0.1 if kind == "other_build" else 0.002
        return Fault(kind=kind, probability=1.0, side=side, seconds=self.rng.random() * longest)

    def _decided(self, fault: Fault, beats: int) -> Fault:
        def chosen(value: int | None, low: int, high: int) -> int:
            return self.rng.randint(low, max(low, high)) if value is None else value

        return replace(
            fault,
            beat=chosen(fault.beat, 0, beats - 1),
            beats=chosen(fault.beats, 1, max(1, beats // 2)),
            size=chosen(fault.size, 1, 63),
            bit=chosen(fault.bit, 0, 511),
        )


def _fault(table: Mapping[str, Any]) -> Fault:
    kind = table.get("kind")
    if not isinstance(kind, str):
        raise FaultPlanError('A fault needs a string as its kind, such as kind = "delay".')
    if kind not in KINDS:
        return Fault(kind=kind)  # refuses it
    keys = (*_WHEN, *KINDS[kind][1])
    for key in table:
        if key not in keys:
            raise FaultPlanError(
                f"'{key}' is not a parameter of the fault '{kind}', which has {', '.join(keys)}."
            )
    values = dict(table)
    at = values.get("at", ())
    values["at"] = tuple(at) if isinstance(at, (list, tuple)) else (at,)
    return Fault(**values)


def _random_keys(table: Mapping[str, Any]) -> dict[str, Any]:
    for key in table:
        if key not in _RANDOM_KEYS:
            raise FaultPlanError(
                f"'{key}' is not a parameter of the fault 'random', which has every and kinds."
            )
    if "every" not in table:
        raise FaultPlanError(
            "The fault 'random' has no 'every': give the number of requests between two faults."
        )
    settings = {"every": table["every"], "kinds": tuple(table.get("kinds", KINDS))}
    FaultPlan(**settings)  # checked here, so that the error names this table's line
    return settings


class _Lines:
    """Line numbers of the keys in a TOML text, which the parser does not report."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.lines = text.splitlines()

    def error(self, table: int | None, key: str, message: str) -> FaultPlanError:
        line = self._line(table, key)
        return FaultPlanError(f"{self.name}, line {line}: {message.rstrip('.')}.")

    def _line(self, table: int | None, key: str) -> int:
        starts = [i for i, line in enumerate(self.lines) if line.strip().startswith("[[fault]]")]
        first = 0 if table is None or table >= len(starts) else starts[table]
        for number in range(first, len(self.lines)):
            if self.lines[number].partition("=")[0].strip(" \t[]") == key:
                return number + 1
            if table is not None and number > first and number in starts:
                break
        return first + 1


def _named(table: Mapping[str, Any], message: str) -> str:
    for key in table:
        if (key != "kind" and f"'{key}'" in message) or message.startswith(f"The {key} "):
            return key
    return "kind"


def _toml(fault: Fault) -> str:
    lines = ["[[fault]]", f'kind = "{fault.kind}"']
    keys = (*_WHEN[1:], *KINDS[fault.kind][1])
    for item in fields(fault):
        value = getattr(fault, item.name)
        if item.name not in keys or value is None or value == item.default:
            continue
        literal = f'"{value}"' if isinstance(value, str) else value
        lines.append(f"{item.name} = {list(literal) if isinstance(literal, tuple) else literal}")
    return "\n".join(lines)


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _within(name: str, value: float, low: float, high: float) -> None:
    if not _number(value) or not low <= value <= high:
        raise FaultPlanError(f"'{name}' must be a number from {low:g} to {high:g}, not {value}.")


def _optional(name: str, value: int | None, low: int, high: int) -> None:
    if value is not None and not (_whole(value) and low <= value <= high):
        raise FaultPlanError(f"'{name}' must be an integer from {low} to {high}, not {value}.")


def _choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise FaultPlanError(f"'{name}' must be {' or '.join(choices)}, not '{value}'.")
