"""Fuzzing of the host with corrupted manifests, which it must read as written or reject."""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from pinion.driver import request_dtype, result_dtype
from pinion.link import Array, Manifest, ManifestError, layout_of
from pinion.link.manifest import MANIFEST
from tests.support.fuzz.mutate import Mutator
from tests.support.fuzz.tally import Tally, error_text

FILES = 0.02
"""Share of the cases that go through a file: writing one takes ten times as long as reading it."""


def sample() -> Manifest:
    """Return a small manifest with every kind of entry."""
    return Manifest(
        version="0",
        robot="two_link",
        robot_source="generated",
        function="minv",
        options={"derivatives": "column"},
        formats="auto",
        objective="area",
        max_error=1e-3,
        target="sim",
        ii=4,
        clock_mhz=250.0,
        inputs=(
            Array(name="q", shape=(2,), unit="rad"),
            Array(name="minv", shape=(2, 2), unit="1/kg", sent=(0, 2, 3), symmetric=True),
        ),
        outputs=(
            Array(name="tau", shape=(2,), unit="N m"),
            Array(name="part", shape=(2, 3), unit="", sent=(1, 2, 4), constants=((0, 0.5),)),
        ),
        lanes_in=2,
        beats_in=3,
        lanes_out=4,
        beats_out=2,
        schedule_cycles=20,
        latency_cycles=40,
        multipliers=5,
        table_multipliers=2,
        adders=3,
        units={"add": 3, "dot1x18": 5},
        ops={"mul": 8, "add": 13},
        registers=7,
        budget={"tau[0]": 1e-3, "part[0,1]": 2.5e-4},
        budget_distribution="reference",
        content="0",
    )


def fuzz_manifests(*, cases: int, seed: int, manifest: Manifest | None = None) -> Tally:
    """Read mutated manifests with `Manifest.parse`, and some from a file with `Manifest.read`.

    A case is refused with a `ManifestError` of sensible length, or is the manifest that was
    written. Some cases get a hash that is right after the change: those may be accepted, and then
    the records that they describe must work.

    Parameters
    ----------
    manifest : the source of the cases; a small one by default.
    """
    tally = Tally(name="manifests", seed=seed)
    r = Random(seed)
    mutator = Mutator(random=r)
    good = manifest or sample()
    text = json.dumps(good.to_dict(), indent=2)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for _ in range(cases):
            draw, resealed = r.random(), False
            if draw < 0.3:
                data = mutator.text(text)
            else:
                changed = mutator.json(json.loads(text))
                resealed = draw < 0.8 and isinstance(changed, dict)
                if resealed:
                    _seal(changed)
                data = json.dumps(changed).encode()
            _one(tally, folder, data, good, resealed, file=r.random() < FILES)
    return tally


def _one(
    tally: Tally, folder: Path, data: bytes, good: Manifest, resealed: bool, *, file: bool
) -> None:
    path = folder / MANIFEST
    try:
        if file:
            path.write_bytes(data)
        read = Manifest.read(folder) if file else Manifest.parse(data, path=path)
        if resealed:
            _use(read)
    except ManifestError as error:
        if len(str(error)) > 2000:
            tally.fail(f"an error of {len(str(error))} characters")
        else:
            tally.refuse()
    except Exception as error:
        tally.fail(error_text(error))
    else:
        if read != good and not resealed:
            tally.fail("a changed manifest was accepted with the old hash")
        else:
            tally.accept()


def _seal(data: dict[str, Any]) -> None:
    """Set the hash and the numbers of words in a manifest to match its content."""
    for key in ("hash", "words_in", "words_out"):
        data.pop(key, None)
    text = json.dumps(data, sort_keys=True)
    data["hash"] = hashlib.sha256(text.encode()).hexdigest()[:16]
    for key, arrays in (("words_in", "inputs"), ("words_out", "outputs")):
        try:
            data[key] = sum(
                math.prod(a["shape"]) if a["sent"] is None else len(a["sent"]) for a in data[arrays]
            )
        except (KeyError, TypeError, AttributeError):
            data[key] = 0


def _use(manifest: Manifest) -> None:
    """Compute layouts, records and arrays from a manifest, as the driver does."""
    layout = layout_of(manifest)
    records = (
        (request_dtype(manifest), manifest.words_in),
        (result_dtype(manifest), manifest.words_out),
    )
    for dtype, words in records:
        if dtype.itemsize != 4 * words:
            raise AssertionError(f"A record of {words} words has {dtype.itemsize} bytes.")
    layout.request_bytes(1), layout.response_bytes(16384)
    for array in (*manifest.inputs, *manifest.outputs):
        sent = np.zeros((2, *array.record_shape), dtype=np.float32)
        whole = array.scatter(sent)
        if whole.shape != (2, *array.shape) or array.gather(whole).shape != sent.shape:
            raise AssertionError(f"An array has the shape {whole.shape} instead of {array.shape}.")
