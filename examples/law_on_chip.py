r"""A control law on a chip, in closed loop with MuJoCo: one request per sample, at a fixed rate.

    pinion build iiwa14 examples/functions/tracking_law.py:tracking_law \
        --target ulx3s-spi -o build/law
    python -m examples.law_on_chip build/law --through card --record build/loop.npz
    python -m examples.law_on_chip build/law --through netlist

The law is the one of the build folder, ``tracking_law`` or ``tip_law``, and answers

- ``card``: the whole card in RTL behind its SPI line, compiled, each bit of the line simulated;
- ``core``: only the core in RTL, compiled;
- ``netlist``: the core mapped to cells of the FPGA, compiled with the cells' behaviour;
- ``float``: the law itself in float64, for comparison.

Every answer of the first three is compared bit for bit with the integer model, and its cycles with
those of the first sample. The plant differs from the law's model: its load is heavier and placed
elsewhere, its friction differs and jumps with the rate's sign, and the torque of a sample reaches
the joints when the answer arrives, not when the sample was taken.

Needs MuJoCo (``pip install mujoco``). Nothing here runs on a board.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from examples.law_plant import MOTIONS, Arm, Motion, arm_of
from numpy.typing import NDArray

from pinion import dynamics
from pinion.base.arrays import Floats
from pinion.cosim.compiled import CompiledCore
from pinion.cosim.netlist import netlist_core
from pinion.cosim.reference import Reference, request_words
from pinion.cosim.stream import pack_records, unpack_records
from pinion.driver.spi import SpiDevice
from pinion.flow.build import Build
from pinion.functions import Function, named_function
from pinion.gateware.emit import RTLIL
from pinion.link.spi_framing import CYCLES, SpiTransfer, fastest_hz
from pinion.robot import Model

Request = dict[str, NDArray[np.float32]]

LAWS = {
    name: f"{Path(__file__).parent / 'functions' / name}.py:{name}"
    for name in ("tracking_law", "tip_law")
}

RATE_HZ = 1000.0
"""Samples per second."""


class Law(Protocol):
    """Control law that answers a request with torques (nv,), their flag, and the cycles taken."""

    def __call__(self, request: Request) -> tuple[Floats, bool, int]:
        """Answer a request."""
        ...


@dataclass
class InFloats:
    """Control law computed in float64."""

    law: Function
    model: Model

    def __call__(self, request: Request) -> tuple[Floats, bool, int]:
        """Answer a request; the cycles are 0."""
        batch = {name: values[None].astype(np.float64) for name, values in request.items()}
        return np.asarray(self.law.evaluate(self.model, batch)["tau"])[0], False, 0


class OnChip:
    """A build's law, compiled from RTL or netlist, compared bit for bit with the integer model.

    Parameters
    ----------
    build : the folder, read.
    ask : sends the words of a request (1, words_in); returns those of the result, its flag, and
        the cycles taken.
    """

    def __init__(
        self,
        build: Build,
        ask: Callable[[NDArray[np.uint32]], tuple[NDArray[np.uint32], bool, int]],
    ) -> None:
        self.manifest = build.manifest
        self.reference = Reference(build)
        self._ask = ask

    def __call__(self, request: Request) -> tuple[Floats, bool, int]:
        """Answer a request.

        Raises
        ------
        AssertionError
            If a bit differs from the integer model.
        """
        words = request_words(self.manifest, {n: values[None] for n, values in request.items()})
        result, flagged, cycles = self._ask(words)
        expected, flags = self.reference.expected(words)
        assert (result == expected[0]).all() and flagged == flags[0], (
            "the answer differs from the integer model"
        )
        return result.view(np.float32).astype(np.float64), flagged, cycles


def core_asked(
    build: Build, core: CompiledCore, period: int
) -> Callable[[NDArray[np.uint32]], tuple[NDArray[np.uint32], bool, int]]:
    """Return a function that sends a request to the core, and counts its cycles.

    An idle core repeats itself every ``ii`` cycles, so the cycles at the end of a ``period`` that
    change nothing are left out.
    """
    manifest = build.manifest
    nothing = np.zeros((0, manifest.lanes_in), dtype=np.uint32)

    def ask(words: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], bool, int]:
        beats, last = pack_records(words, lanes=manifest.lanes_in, beats=manifest.beats_in)
        run = core.run(beats, last, expected_beats=manifest.beats_out).check()
        rest = (period - run.cycles) % manifest.ii
        core.run(nothing, np.zeros(0, dtype=np.bool_), expected_beats=0, drain=rest)
        records = unpack_records(run.beats, words=manifest.words_out, beats=manifest.beats_out)
        return records[0], bool(run.user[-1]), int(run.emitted[-1] - run.accepted[0])

    return ask


def card_asked(
    build: Build, period: int
) -> Callable[[NDArray[np.uint32]], tuple[NDArray[np.uint32], bool, int]]:
    """Return a function that sends a request over SPI, and counts the transfer's cycles."""
    from pinion.boards.ecp5.bitstream import CARD, board_folder
    from pinion.card.spi_ports import CompiledSpi

    line = CompiledSpi.build(rtlil=board_folder(build.folder, build.manifest) / CARD)
    device = SpiDevice.open(build.folder, line)

    def ask(words: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], bool, int]:
        begun = line.now
        record, flagged = device.transfer.result(line(device.transfer.request(words.tobytes())))
        cycles = line.now - begun
        if cycles > period:
            raise ValueError(
                f"A transfer takes {cycles} cycles, but a sample has only {period}: lower the rate."
            )
        # An idle card repeats itself every ii cycles: the rest of the sample, without those.
        line.wait((period - cycles) % build.manifest.ii + 8 * build.manifest.ii)
        return np.frombuffer(record, dtype=np.uint32), flagged, cycles

    return ask


@dataclass
class Loop:
    """Record of a run, sample by sample.

    Members
    -------
    requests, tau : as sent and received.
    error : of the joints, or of the tip's rotation, at the sample [rad].
    tip : (samples,) distance of the tip from its target [m].
    cycles : of each answer.
    """

    requests: list[Request] = field(default_factory=list)
    tau: list[Floats] = field(default_factory=list)
    error: list[Floats] = field(default_factory=list)
    tip: list[float] = field(default_factory=list)
    cycles: list[int] = field(default_factory=list)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the requests by name, (samples, ...)."""
        return {name: np.stack([r[name] for r in self.requests]) for name in self.requests[0]}


def close_loop(
    law: Law,
    arm: Arm,
    model: Model,
    motion: Motion,
    *,
    samples: int,
    delay: float,
    rate_hz: float = RATE_HZ,
) -> Loop:
    """Simulate an arm under a law whose torques change ``delay`` seconds after each sample."""
    loop = Loop()
    arm.place(motion.start)
    still = np.zeros((1, model.nv))
    tau = np.asarray(dynamics.rnea(model, motion.start[None], still, still))[0]
    for k in range(samples):
        t, (q, qd) = k / rate_hz, arm.state
        named = motion.request(t, q, qd)
        request = {name: values.astype(np.float32) for name, values in named.items()}
        answer, flagged, cycles = law(request)
        if flagged:
            raise RuntimeError(
                f"The answer for sample {k} is flagged: a value overflowed its format."
            )
        error, tip = motion.off(t, q)
        arm.advance(tau, delay)
        tau = answer
        arm.advance(tau, 1.0 / rate_hz - delay)
        loop.requests.append(request)
        loop.tau.append(tau)
        loop.error.append(error)
        loop.tip.append(tip)
        loop.cycles.append(cycles)
    return loop


THROUGH = ("card", "core", "netlist", "float")


def law_of(build: Build, through: str, rate_hz: float = RATE_HZ) -> Law:
    """Return the law of a build, through one of `THROUGH`."""
    period = round(1e6 * build.manifest.clock_mhz / rate_hz)
    if through == "float":
        return InFloats(named_function(LAWS[build.manifest.function]), build.model)
    if through == "card":
        return OnChip(build, card_asked(build, period))
    folder = build.folder
    core = (
        netlist_core(folder) if through == "netlist" else CompiledCore.build(rtlil=folder / RTLIL)
    )
    return OnChip(build, core_asked(build, core, period))


def figures(build: Build, loop: Loop, exact: Loop) -> dict[str, float]:
    """Summarise a run, compared with the same run in float64."""
    error = np.array(loop.error)
    tau, exact_tau = np.array(loop.tau), np.array(exact.tau)
    manifest, transfer = build.manifest, SpiTransfer.of(build.manifest)
    sent = transfer.size * 8 * CYCLES
    return {
        "samples": len(loop.tau),
        "error_max_rad": float(np.abs(error).max()),
        "error_rms_rad": float(np.sqrt((error**2).mean())),
        "error_rms_rad_float64": float(np.sqrt((np.array(exact.error) ** 2).mean())),
        "tip_error_max_mm": 1e3 * max(loop.tip),
        "tip_error_rms_mm": 1e3 * float(np.sqrt((np.array(loop.tip) ** 2).mean())),
        "tip_error_rms_mm_float64": 1e3 * float(np.sqrt((np.array(exact.tip) ** 2).mean())),
        "tau_rms_Nm": float(np.sqrt((tau**2).mean())),
        "tau_difference_from_float64_loop_rms_Nm": float(np.sqrt(((tau - exact_tau) ** 2).mean())),
        "cycles_least": min(loop.cycles),
        "cycles_most": max(loop.cycles),
        "cycles_of_a_transfer": sent,
        "cycles_of_a_transfer_us": sent / manifest.clock_mhz,
    }


def main() -> None:
    """Run the loop and print the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, help="a build of the law")
    parser.add_argument("--robot", default="iiwa14")
    parser.add_argument("--through", choices=THROUGH, default="card")
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--record", type=Path, help="file for the requests (.npz)")
    arguments = parser.parse_args()
    build = Build.read(arguments.folder)
    transfer = SpiTransfer.of(build.manifest)
    delay = transfer.seconds(bit_hz=fastest_hz(1e6 * build.manifest.clock_mhz))
    loops = {}
    for through in ("float", arguments.through):
        law, arm = law_of(build, through), arm_of(arguments.robot, build.model)
        begun = time.perf_counter()
        motion = MOTIONS[build.manifest.function](build.model)
        loops[through] = close_loop(
            law, arm, build.model, motion, samples=arguments.samples, delay=delay
        )
        print(f"{through}: {arguments.samples} samples in {time.perf_counter() - begun:.1f} s")
    loop = loops[arguments.through]
    print(json.dumps(figures(build, loop, loops["float"]), indent=2))
    if len(set(loop.cycles)) > 1:
        raise SystemExit(
            f"The answers took different numbers of cycles: {sorted(set(loop.cycles))}."
        )
    if arguments.through != "float":
        print(
            "Every answer agrees with the integer model bit for bit, in the same number of cycles."
        )
    if arguments.record is not None:
        recorded: dict[str, Any] = loop.arrays()
        np.savez(arguments.record, **recorded)
        print(f"The requests are in {arguments.record}.")


if __name__ == "__main__":
    main()
