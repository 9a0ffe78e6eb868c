"""Names of frames in a function's options, and of the arrays of their results.

An option lists frames as ``elbow,tool=link_7@0,0,0.1``: links, fixed joints, or either with an
offset [m] (:func:`pinion.dynamics.frame_placement`). A result of a frame is called by its name and
the frame's label, ``p_tool``: the text before ``=``, otherwise the frame's name with an underscore
in place of every run of characters other than ASCII letters, digits and underscores.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from .blocks import Block
from .errors import FunctionError

REFERENCES: Mapping[str, str] = MappingProxyType(
    {
        "local_world_aligned": "of its origin in base axes",
        "local": "of its origin in its own axes",
        "world": "of its point at the base's origin in base axes",
    }
)
"""Words of each reference of a frame's motion in the description of a row."""

_NUMBER = r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*"
_FRAME = re.compile(rf"[^,]*@{_NUMBER},{_NUMBER},{_NUMBER}(?=,|$)|[^,]+")
_LABEL = re.compile(r"([A-Za-z_][A-Za-z_0-9]*)=(.+)", re.DOTALL)


def split_frames(text: str) -> tuple[str, ...]:
    """Split a string into frames at its commas, except those within offsets."""
    frames = (frame.strip() for frame in _FRAME.findall(text))
    return tuple(frame for frame in frames if frame)


def frame_labels(frames: Sequence[str]) -> tuple[str, ...]:
    """Return the labels of frames, after which their results are named.

    Raises
    ------
    FunctionError
        If two frames have the same label, or a name contains a comma.
    """
    text = ",".join(frames)
    if split_frames(text) != tuple(frames):
        raise FunctionError(
            f"The frames {', '.join(map(repr, frames))} cannot be read from the string {text!r}: "
            "write an offset as LINK@X,Y,Z; names must have no commas, and no leading or trailing "
            "spaces."
        )
    labels: dict[str, str] = {}
    for frame in frames:
        label = _split(frame)[0]
        if label in labels:
            raise FunctionError(
                f"The frames {labels[label]!r} and {frame!r} both name their results '{label}': "
                "name each frame once, or give the second a label, as in "
                f"{_fresh(label)}={_split(frame)[1]}."
            )
        labels[label] = frame
    return tuple(labels)


def _fresh(label: str) -> str:
    """Return a valid label similar to one that is invalid or already used."""
    return f"{label}_2" if label[:1].isalpha() or label[:1] == "_" else f"frame_{label}"


def frame_names(frames: Sequence[str]) -> tuple[str, ...]:
    """Return the frames without labels, as :func:`pinion.dynamics.frame_placement` expects."""
    return tuple(_split(frame)[1] for frame in frames)


def blocks_of_frames(blocks: Sequence[Block], frames: Sequence[str]) -> tuple[Block, ...]:
    """Return the results of every frame, frame by frame, named after the frame."""
    return tuple(
        replace(block, name=f"{block.name}_{label}")
        for label in frame_labels(frames)
        for block in blocks
    )


def _split(frame: str) -> tuple[str, str]:
    if match := _LABEL.fullmatch(frame):
        label, name = match.groups()
        return label, name
    return re.sub(r"\W+", "_", frame, flags=re.ASCII), frame
