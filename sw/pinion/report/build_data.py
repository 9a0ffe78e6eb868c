"""All that a build's page shows, as data: from its folder, and from what was found of it anew."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pinion.graph import parse_graph
from pinion.graph.evaluate import formats
from pinion.graph.names import INPUT
from pinion.link import Manifest, ManifestError
from pinion.link.accuracy import ErrorDistribution
from pinion.link.build_files import BOARD_REPORT, MODEL, SCHEDULE
from pinion.link.digests import DIGESTS, check_digests, read_digests
from pinion.link.frames import Layout
from pinion.link.protocol import WORDS_PER_BEAT, function_id
from pinion.link.transfer import LINK_MHZ, model
from pinion.robot import Model, model_from_dict

from .builds import build_figures, resources_of
from .skeleton import skeleton

GRAPH = "graph.txt"

_CHUNK = 1 << 20


def build_data(folder: Path, facts: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """One build.

    Parameters
    ----------
    folder : the build folder; its files must be as they were built.
    facts : what :func:`pinion.flow.facts.build_facts` found, None to go without.

    Returns
    -------
    JSON-able figures: ``manifest``, ``schedule``, ``utilisation``, ``formats``, ``robot``,
    ``link``, ``resources``, ``board``, ``verified``, ``files``, and the ``facts``.

    Raises
    ------
    pinion.link.ManifestError
        The folder is no build, or a file in it is damaged or of another version.
    """
    manifest = Manifest.read(folder)
    check_digests(folder)
    schedule = SCHEDULE.read(folder)
    try:
        robot = model_from_dict(json.loads((folder / MODEL).read_text()))
        chosen = _formats(folder, schedule)
        drawn = skeleton(robot)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise ManifestError(
            f"The build folder '{folder}' is not intact ({error}): build it again."
        ) from None
    verified = ErrorDistribution.find(folder)
    return {
        "folder": folder.name or str(folder),
        "row": build_figures(folder),
        "manifest": manifest.to_dict(),
        "schedule": schedule,
        "utilisation": utilisation(schedule),
        "formats": chosen,
        "robot": drawn | _joints(robot),
        "link": link_budget(manifest),
        "resources": resources_of(folder, manifest),
        "board": _board(folder, manifest),
        "verified": None if verified is None else _verified(verified, manifest),
        "files": _files(folder),
        "facts": dict(facts or {}),
    }


def utilisation(schedule: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Operations of each unit in an interval: ``kind``, ``unit``, ``operations``, ``share``.

    A unit takes one operation a cycle, so that an interval has as many places as cycles.
    """
    used = Counter((row["kind"], row["unit"]) for row in schedule["operations"])
    ii = schedule["ii"]
    return [
        {
            "kind": kind,
            "unit": unit,
            "operations": used[kind, unit],
            "share": used[kind, unit] / ii,
        }
        for kind, count in schedule["units"].items()
        for unit in range(count)
    ]


def _formats(folder: Path, schedule: Mapping[str, Any]) -> dict[str, Any]:
    """Formats of what the core stores: request words and results of operations.

    Returns
    -------
    ``of``: width and fraction bits of each operation's result, in the schedule's order; ``widths``:
    how many signals of each width; ``uniform``: the one format, None where there are several;
    ``regions``: for each its signals and the extremes of widths and fraction bits.
    """
    graph = parse_graph((folder / GRAPH).read_text())
    found = formats(graph)
    nodes = [row["node"] for row in schedule["operations"]]
    inputs = [i for i, node in enumerate(graph.nodes) if node.op == INPUT]
    # A unit may make two values, a sine and a cosine: the schedule names the first.
    regions: dict[str, list[int]] = {"requests": inputs} if inputs else {}
    for row in schedule["operations"]:
        regions.setdefault(row["region"] or "elsewhere", []).append(row["node"])
    signals = [found[i] for i in [*inputs, *nodes]]
    names = {(f.width, f.frac) for f in signals}
    return {
        "of": [[found[i].width, found[i].frac] for i in nodes],
        "signals": len(signals),
        "widths": sorted(Counter(f.width for f in signals).items()),
        "uniform": found[nodes[0]].name if nodes and len(names) == 1 else None,
        "regions": [
            {
                "region": name,
                "signals": len(own),
                "widths": [min(found[i].width for i in own), max(found[i].width for i in own)],
                "frac": [min(found[i].frac for i in own), max(found[i].frac for i in own)],
                "bits": sum(found[i].width for i in own),
            }
            for name, own in regions.items()
        ],
    }


def link_budget(manifest: Manifest) -> dict[str, Any]:
    """Bytes, beats and what bounds a stream of requests, and the model of the real link."""
    layout = Layout(
        function=function_id(manifest.function),
        build=manifest.hash,
        words_in=manifest.words_in,
        words_out=manifest.words_out,
    )
    needs = {
        "the core's interval": manifest.ii / manifest.clock_mhz,
        "requests on the link": manifest.words_in / WORDS_PER_BEAT / LINK_MHZ,
        "results on the link": manifest.words_out / WORDS_PER_BEAT / LINK_MHZ,
    }
    return {
        "bytes_in": 4 * manifest.words_in,
        "bytes_out": 4 * manifest.words_out,
        "beats_in": manifest.words_in / WORDS_PER_BEAT,
        "beats_out": manifest.words_out / WORDS_PER_BEAT,
        "request_1": layout.request_bytes(1),
        "response_1": layout.response_bytes(1),
        "us_each": needs,
        "bound": max(needs, key=lambda name: needs[name]),
        "model": model(manifest, layout),
    }


def _board(folder: Path, manifest: Manifest) -> dict[str, Any] | None:
    """What the tools of the build's board found for this very build."""
    found = BOARD_REPORT.find(folder / manifest.target)
    return found if found is not None and found["build"] == f"{manifest.hash:016x}" else None


def _verified(errors: ErrorDistribution, manifest: Manifest) -> dict[str, Any] | None:
    """What ``pinion verify`` left of this build."""
    if errors.build != f"{manifest.hash:016x}":
        return None
    return {
        **{"distribution": errors.distribution, "requests": errors.requests, "seed": errors.seed},
        **{"flagged": errors.flagged, "simulator": errors.simulator},
        "blocks": [
            {
                "name": block.name,
                "unit": block.unit,
                "largest": max(block.largest, default=0.0),
                "share": max(block.shares, default=0.0),
                "invalid": block.invalid,
            }
            for block in errors.blocks
        ],
    }


def _joints(robot: Model) -> dict[str, Any]:
    return {
        "joints": [
            {
                "name": body.joint.name,
                "kind": body.joint.kind.name.lower().replace("_", " "),
                "link": body.name,
                "parent": body.parent,
                "mass": body.inertia.mass,
            }
            for body in robot.bodies
        ],
        "name": robot.name,
    }


def _files(folder: Path) -> list[dict[str, Any]]:
    """Every file with its SHA-256 now, and whether the build wrote it just so."""
    listed = read_digests(folder)
    paths = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
    rows = []
    for name in sorted(paths, key=lambda name: (name not in listed, name)):
        with paths[name].open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if name == DIGESTS:
            state = "the list itself, intact"
        elif name in listed:
            state = "as built" if listed[name] == found else "CHANGED"
        else:
            state = "made later, not of the build"
        size = paths[name].stat().st_size
        rows.append({"name": name, "sha256": found, "bytes": size, "state": state})
    return rows
