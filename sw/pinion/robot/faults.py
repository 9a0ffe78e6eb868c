"""What no robot can have, found when its bodies are final, and said all at once.

A file's figures are judged after its joints are locked and its branches cut off, for the bodies
that are left to move: what belongs to the fixed base, or was cut off, does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from .errors import RobotError
from .inertia import LIGHTEST, TRIANGLE, ZERO, Tensor, about_com, physical_problem
from .loose_ties import loose_ties
from .model import Body, JointKind, Model
from .pivots import Idle, idle_joints

_SHOWN = 8
"""Faults and links that a message lists at most."""

_KEPT = "; it was kept "
"""How the note on an accepted inertia goes on."""

_NO_INVERSE = "as accept_inertia asks, but forward dynamics does not exist"

_KINEMATICS = (
    "Nothing that moves has any mass: the robot serves kinematics, and what needs its inertia is "
    "refused."
)

_ACCEPT = (
    "keep published figures with accept_inertia (--accept-inertia, or "
    '<pinion accept_inertia="true"/> in the <inertial>)'
)


@dataclass(frozen=True, kw_only=True)
class LinkFigures:
    """What a file or another library says of one link's inertia.

    Members
    -------
    link : the link's name; several figures of one are parts of it.
    mass : [kg].
    tensor : about the centre of mass [kg m^2].
    accepted : why the figures are kept even if no body can have them; "" where they are not.
    """

    link: str
    mass: float
    tensor: Tensor
    accepted: str = ""


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A model whose inertias nobody has judged yet, and what they were made of."""

    model: Model
    figures: tuple[LinkFigures, ...]

    def finished(self, *, accept_inertia: bool = False) -> Model:
        """The model, with a note on every inertia that is odd and was kept.

        Parameters
        ----------
        accept_inertia : keep figures that no real body can have, except negative masses, and joints
            that move no inertia, for which forward dynamics does not exist.

        Errors
        ------
        RobotError : a moving body that cannot be, a joint that moves no inertia while others do, or
            a mimic joint that follows none; the message names every such fault.
        """
        faults: list[_Fault] = []
        notes: list[str] = []
        odd_ones: dict[str, list[LinkFigures]] = {}
        for one in self.figures:
            if _problem(one):
                odd_ones.setdefault(one.link, []).append(one)
        for body in self.model.bodies:
            odd = [one for link in body.links for one in odd_ones.get(link, ())]
            if not odd:
                continue  # a sum of physical inertias is one
            whole = _whole(body)
            for one in odd:
                problem = _problem(one)
                accepted = one.accepted or ("as accept_inertia asks" if accept_inertia else "")
                if one.mass <= -LIGHTEST:
                    faults.append(_Fault(what=problem, remedy=_MASS))
                elif not whole:
                    notes.append(
                        f"{_sentence(problem)}; the body {body.name!r}, of which it is a part, is "
                        "physical all the same."
                    )
                elif accepted:
                    notes.append(f"{_sentence(problem)}{_KEPT}{accepted}.")
                else:
                    faults.append(_Fault(what=problem, remedy=_INERTIA))
        faults += [_Fault(what=what, remedy=_TIE) for what in loose_ties(self.model)]
        if massless(self.model) and not accept_inertia:
            notes.append(_KINEMATICS)
        else:
            idle = _idle(self.model, idle_joints(self.model))
            kept = [f"{_sentence(one.what)}{_KEPT}{_NO_INVERSE}." for one in idle]
            notes, faults = (notes + kept, faults) if accept_inertia else (notes, faults + idle)
        _raise(self.model, faults)
        return replace(self.model, notes=(*notes, *self.model.notes))


def check_joints(model: Model, *, before: Model) -> Model:
    """Return a model that was made from another if its joints move inertia as they did there.

    Errors
    ------
    RobotError : joints that move none any more while others do; the message names them all.
    """
    if massless(model):
        return model if massless(before) else replace(model, notes=(*model.notes, _KINEMATICS))
    idle = idle_joints(model)
    if idle:
        known = {before.bodies[one.joint].joint.name for one in idle_joints(before)}
        idle = [one for one in idle if model.bodies[one.joint].joint.name not in known]
    _raise(model, _idle(model, idle))
    return model


def massless(model: Model) -> bool:
    """Whether nothing that moves has any inertia, and nobody accepted that: no dynamics exist."""
    numbers = all(isinstance(body.inertia.mass, float) for body in model.bodies)  # not inputs
    if not numbers or any(body.inertia != ZERO or body.joint.armature for body in model.bodies):
        return False
    return bool(model.bodies) and not any(_NO_INVERSE in note for note in model.notes)


def idle_accepted(model: Model) -> tuple[str, ...]:
    """The names of joints that move no inertia and were accepted all the same."""
    if not any(_NO_INVERSE in note for note in model.notes):
        return ()
    return tuple(model.bodies[one.joint].joint.name for one in idle_joints(model))


def accepted_inertias(model: Model) -> tuple[str, ...]:
    """The notes of a model that speak of inertias which no body can have and which were kept."""
    return tuple(note for note in model.notes if _KEPT in note)


class _Remedy(NamedTuple):
    """What to do about a fault, and about several of its kind."""

    one: str
    several: str


_MASS = _Remedy("correct it", "correct the negative masses")
_INERTIA = _Remedy(f"correct it, or {_ACCEPT}", f"correct the inertias, or {_ACCEPT}")
_IDLE = _Remedy(
    "give a link behind it an <inertial>, or the joint an armature",
    "give links behind such a joint an <inertial>, or the joint an armature",
)
_TIE = _Remedy(
    "let it follow a joint that moves by itself, or hold it still by lock",
    "let mimic joints follow joints that move by themselves, or hold them still by lock",
)


@dataclass(frozen=True, kw_only=True)
class _Fault:
    """What is wrong, as half a sentence, and what to do about it."""

    what: str
    remedy: _Remedy


def _problem(one: LinkFigures) -> str:
    """What is wrong with a link's figures, '' where nothing is."""
    if one.mass <= -LIGHTEST:
        return f"the mass {one.mass!r} of link {one.link!r} is negative"
    if one.mass < LIGHTEST:
        if not any(one.tensor):
            return ""
        size = "zero" if one.mass == 0.0 else "next to nothing"
        return f"the mass {one.mass!r} of link {one.link!r} is {size} but its inertia is not"
    shown, problem = physical_problem(one.tensor)
    if not problem:
        return ""
    return (
        f"the inertia of link {one.link!r} is not physical: its principal moments about the "
        f"centre of mass are {shown} kg m^2, {problem}"
    )


def _whole(body: Body) -> str:
    """What is wrong with a body as a whole, '' where nothing is."""
    inertia = body.inertia
    if not inertia.mass > 0.0:
        return "no mass"
    return physical_problem(about_com(inertia))[1]


def _idle(model: Model, joints: Iterable[Idle]) -> list[_Fault]:
    return [
        _Fault(what=_idle_text(model, one), remedy=_idle_remedy(model.bodies[one.joint]))
        for one in joints
    ]


def _idle_remedy(body: Body) -> _Remedy:
    """A body that floats has to have mass itself: the joints behind it give way."""
    if body.joint.kind is not JointKind.FREE_FLYER:
        return _IDLE
    text = f"give the link {body.name!r} an <inertial> with mass and inertia"
    return _Remedy(text, text)


def _idle_text(model: Model, idle: Idle) -> str:
    body = model.bodies[idle.joint]
    way = {
        JointKind.REVOLUTE: "about its axis",
        JointKind.PRISMATIC: "along its axis",
        JointKind.HELICAL: "about its axis",
    }.get(body.joint.kind, "in one of its directions")
    start = f"the joint {body.joint.name!r} moves no inertia"
    if not idle.yielding:
        names = _listed(model.bodies[k].name for k in idle.bodies)
        mass = sum(model.bodies[k].inertia.mass for k in idle.bodies)
        one = len(idle.bodies) == 1
        behind = f"the link {names}" if one else f"the links {names}"
        return f"{start}: {behind} behind it, of {mass!r} kg, {'has' if one else 'have'} none {way}"
    others = [model.bodies[k].joint.name for k in idle.bodies[1:]]
    plural = "s" if len(others) > 1 else ""
    gives = "give" if plural else "gives"
    return (
        f"{start} of its own: the link {body.name!r}, of {body.inertia.mass!r} kg, has none {way}, "
        f"and the joint{plural} {_listed(others)} behind it {gives} way to whatever it does"
    )


def _listed(names: Iterable[str]) -> str:
    shown = list(map(repr, names))
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return ", ".join(shown[:_SHOWN]) + more


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _raise(model: Model, faults: Sequence[_Fault]) -> None:
    if not faults:
        return
    if len(faults) == 1:
        raise RobotError(f"{_sentence(faults[0].what)}; {faults[0].remedy.one}.")
    texts = [fault.what for fault in faults[:_SHOWN]]
    # Once is enough to say what a triangle is.
    texts[1:] = [text.replace(TRIANGLE, "") for text in texts[1:]]
    shown = "; ".join(f"({k + 1}) {text}" for k, text in enumerate(texts))
    more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
    kinds = list(dict.fromkeys(fault.remedy for fault in faults))
    advice = "; ".join(kind.several for kind in kinds)
    raise RobotError(f"The robot {model.name!r} has {len(faults)} faults: {shown}{more}; {advice}.")
