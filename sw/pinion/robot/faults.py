"""Checks of a robot's final bodies, with all faults in one message.

A file's figures are checked after joints are locked and branches cut off, for the bodies that still
move: figures of the fixed base, or of what was cut off, do not matter.
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
"""Largest number of faults and of links in a message."""

_KEPT = "; it was kept "
"""Continuation of the note on an accepted inertia."""

_NO_INVERSE = "as accept_inertia asks, but forward dynamics does not exist"

_KINEMATICS = (
    "No moving body has mass: only functions of kinematics, which need no inertia, are possible."
)

_ACCEPT = (
    "keep published figures with accept_inertia (--accept-inertia, or "
    '<pinion accept_inertia="true"/> in the <inertial>)'
)


@dataclass(frozen=True, kw_only=True)
class LinkFigures:
    """Inertia of one link as a file or another library states it.

    Members
    -------
    link : the link's name; several entries with one name are parts of it.
    mass : [kg].
    tensor : about the centre of mass [kg m^2].
    accepted : why unphysical figures are kept, "" if they are not.
    """

    link: str
    mass: float
    tensor: Tensor
    accepted: str = ""


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A model with unchecked inertias, and the links' inertias as their source states them."""

    model: Model
    figures: tuple[LinkFigures, ...]

    def finished(self, *, accept_inertia: bool = False) -> Model:
        """Return the checked model, with a note on every unphysical inertia that was kept.

        Parameters
        ----------
        accept_inertia : keep figures that no real body can have, except negative masses, and joints
            that move no inertia, for which forward dynamics does not exist.

        Errors
        ------
        RobotError : an unphysical moving body, a joint that moves no inertia while others do, or a
            mimic joint without a leader; the message names every such fault.
        """
        faults: list[_Fault] = []
        notes: list[str] = []
        odd_ones: dict[str, list[LinkFigures]] = {}
        for figures in self.figures:
            if _problem(figures):
                odd_ones.setdefault(figures.link, []).append(figures)
        for body in self.model.bodies:
            odd = [figures for link in body.links for figures in odd_ones.get(link, ())]
            if not odd:
                continue  # a sum of physical inertias is one
            body_problem = _whole(body)
            for figures in odd:
                problem = _problem(figures)
                accepted = figures.accepted or ("as accept_inertia asks" if accept_inertia else "")
                if figures.mass <= -LIGHTEST:
                    faults.append(_Fault(problem=problem, remedy=_MASS))
                elif not body_problem:
                    notes.append(
                        f"{_sentence(problem)}; the inertia of the whole body {body.name!r} is "
                        "physical nevertheless."
                    )
                elif accepted:
                    notes.append(f"{_sentence(problem)}{_KEPT}{accepted}.")
                else:
                    faults.append(_Fault(problem=problem, remedy=_INERTIA))
        faults += [_Fault(problem=problem, remedy=_TIE) for problem in loose_ties(self.model)]
        if massless(self.model) and not accept_inertia:
            notes.append(_KINEMATICS)
        else:
            idle = _idle(self.model, idle_joints(self.model))
            idle_notes = [f"{_sentence(fault.problem)}{_KEPT}{_NO_INVERSE}." for fault in idle]
            notes, faults = (
                (notes + idle_notes, faults) if accept_inertia else (notes, faults + idle)
            )
        _raise(self.model, faults)
        return replace(self.model, notes=(*notes, *self.model.notes))


def check_joints(model: Model, *, before: Model) -> Model:
    """Return an edited model, with a note if it has no inertia left; raise for newly idle joints.

    Errors
    ------
    RobotError : joints that no longer move any inertia while others do; the message names them all.
    """
    if massless(model):
        return model if massless(before) else replace(model, notes=(*model.notes, _KINEMATICS))
    idle = idle_joints(model)
    if idle:
        idle_before = {before.bodies[entry.joint].joint.name for entry in idle_joints(before)}
        idle = [entry for entry in idle if model.bodies[entry.joint].joint.name not in idle_before]
    _raise(model, _idle(model, idle))
    return model


def massless(model: Model) -> bool:
    """Return whether no moving body has any inertia and the caller has not accepted this."""
    for body in model.bodies:
        inertia, armature = body.inertia, body.joint.armature
        values = (inertia.mass, *inertia.h, *inertia.I, armature)
        # Inputs are no numbers, and are not compared.
        if not all(isinstance(x, int | float) for x in values) or inertia != ZERO or armature:
            return False
    return bool(model.bodies) and not any(_NO_INVERSE in note for note in model.notes)


def idle_accepted(model: Model) -> tuple[str, ...]:
    """Return the names of joints that move no inertia and were accepted."""
    if not any(_NO_INVERSE in note for note in model.notes):
        return ()
    return tuple(model.bodies[entry.joint].joint.name for entry in idle_joints(model))


def accepted_inertias(model: Model) -> tuple[str, ...]:
    """Return the model's notes on unphysical inertias that were kept."""
    return tuple(note for note in model.notes if _KEPT in note)


class _Remedy(NamedTuple):
    """Advice on a single fault, and on several of its kind."""

    single: str
    several: str


_MASS = _Remedy("correct it", "correct the negative masses")
_INERTIA = _Remedy(f"correct it, or {_ACCEPT}", f"correct the inertias, or {_ACCEPT}")
_IDLE = _Remedy(
    "give mass and inertia (<inertial>) to the links that this joint moves, or give the joint "
    "an armature",
    "give mass and inertia (<inertial>) to the links that such a joint moves, or give the joint "
    "an armature",
)
_TIE = _Remedy(
    "let the mimic joint follow an independent joint, or lock the mimic joint",
    "let mimic joints follow independent joints, or lock the mimic joints",
)


@dataclass(frozen=True, kw_only=True)
class _Fault:
    """A fault of a robot: the problem as a clause, and its remedy."""

    problem: str
    remedy: _Remedy


def _problem(figures: LinkFigures) -> str:
    """Return what is wrong with a link's mass or inertia; '' if nothing is."""
    if figures.mass <= -LIGHTEST:
        return f"the mass {figures.mass!r} of link {figures.link!r} is negative"
    if figures.mass < LIGHTEST:
        if not any(figures.tensor):
            return ""
        size = "zero" if figures.mass == 0.0 else "negligible"
        return (
            f"the mass {figures.mass!r} of link {figures.link!r} is {size} but its inertia is not"
        )
    moments, problem = physical_problem(figures.tensor)
    if not problem:
        return ""
    return (
        f"the inertia of link {figures.link!r} is not physical: its principal moments about the "
        f"centre of mass are {moments} kg m^2, {problem}"
    )


def _whole(body: Body) -> str:
    """Return what is wrong with a body's merged inertia; '' if nothing is."""
    inertia = body.inertia
    if not inertia.mass > 0.0:
        return "no mass"
    return physical_problem(about_com(inertia))[1]


def _idle(model: Model, joints: Iterable[Idle]) -> list[_Fault]:
    return [
        _Fault(problem=_idle_text(model, entry), remedy=_idle_remedy(model.bodies[entry.joint]))
        for entry in joints
    ]


def _idle_remedy(body: Body) -> _Remedy:
    """Return the remedy for a joint that moves no inertia; a floating body itself needs mass."""
    if body.joint.kind is not JointKind.FREE_FLYER:
        return _IDLE
    text = f"give the link {body.name!r} an <inertial> with mass and inertia"
    return _Remedy(text, text)


def _idle_text(model: Model, idle: Idle) -> str:
    body = model.bodies[idle.joint]
    direction = {
        JointKind.REVOLUTE: "about the joint's axis",
        JointKind.PRISMATIC: "along the joint's axis",
        JointKind.HELICAL: "about the joint's axis",
    }.get(body.joint.kind, "in one of the joint's directions")
    start = f"the joint {body.joint.name!r} moves no inertia"
    if not idle.yielding:
        names = _listed(model.bodies[k].name for k in idle.bodies)
        mass = sum(model.bodies[k].inertia.mass for k in idle.bodies)
        single = len(idle.bodies) == 1
        behind = f"the link {names}" if single else f"the links {names}"
        verb = "has" if single else "have"
        return f"{start}: {behind} behind it, of {mass!r} kg, {verb} none {direction}"
    others = [model.bodies[k].joint.name for k in idle.bodies[1:]]
    plural = "s" if len(others) > 1 else ""
    gives = "give" if plural else "gives"
    return (
        f"{start} of its own: the link {body.name!r}, of {body.inertia.mass!r} kg, has none "
        f"{direction}, and the joint{plural} {_listed(others)} behind it {gives} way "
        "to its motion"
    )


def _listed(names: Iterable[str]) -> str:
    quoted = list(map(repr, names))
    more = f" and {len(quoted) - _SHOWN} more" if len(quoted) > _SHOWN else ""
    return ", ".join(quoted[:_SHOWN]) + more


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _raise(model: Model, faults: Sequence[_Fault]) -> None:
    if not faults:
        return
    if len(faults) == 1:
        raise RobotError(f"{_sentence(faults[0].problem)}; {faults[0].remedy.single}.")
    texts = [fault.problem for fault in faults[:_SHOWN]]
    # One explanation of the triangle inequality is enough.
    texts[1:] = [text.replace(TRIANGLE, "") for text in texts[1:]]
    listed = "; ".join(f"({k + 1}) {text}" for k, text in enumerate(texts))
    more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
    kinds = list(dict.fromkeys(fault.remedy for fault in faults))
    advice = "; ".join(kind.several for kind in kinds)
    raise RobotError(
        f"The robot {model.name!r} has {len(faults)} faults: {listed}{more}; {advice}."
    )
