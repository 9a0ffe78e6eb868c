"""Backends in other processes: pickled and copied by robot, function and options."""

from __future__ import annotations

import copy
import importlib.util
import itertools
import multiprocessing
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinion import api as pinion
from pinion.api.backends import CardBackend
from pinion.batch import Backend, Result
from pinion.compute import cpu
from pinion.driver import DriverError
from pinion.functions import FUNCTIONS, FunctionError, named_function, sample
from pinion.functions.portable import PortableFunction, portable
from pinion.functions.row import Function
from pinion.robot import Model, load, load_text
from tests.compute.portable_functions import cube_of_cube, running_sum
from tests.support.breadth import some_rows

WAYS: dict[str, Callable[[Any], Any]] = {
    "pickled": lambda x: pickle.loads(pickle.dumps(x)),
    "old protocol": lambda x: pickle.loads(pickle.dumps(x, protocol=2)),
    "copied": copy.copy,
    "deep-copied": copy.deepcopy,
}

CRANE = """<robot name="crane"><link name="base"/><link name="jib"><inertial><mass value="3"/>
<origin xyz="0.5 0 0"/><inertia ixx=".1" iyy=".2" izz=".2" ixy="0" ixz="0" iyz="0"/></inertial>
</link><joint name="slew" type="revolute"><parent link="base"/><child link="jib"/>
<axis xyz="0 1 0"/><limit lower="-1" upper="1" velocity="2" effort="9"/>
<dynamics damping="0.7" friction="0.4"/></joint></robot>"""


def states(model: Model, row: Function, count: int = 40) -> dict[str, np.ndarray]:
    return dict(sample(model, row, count, distribution="reference", seed=9))


def same(first: Result, other: Result) -> bool:
    return first.names == other.names and all(np.array_equal(first[n], other[n]) for n in first)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_row_of_the_table_travels_by_name(name: str) -> None:
    row = FUNCTIONS[name]
    rows = [row, *(row.formulated(variant.name) for variant in row.variants)]
    rows += [row.asked(row.optional)] if row.optional else []
    rows += [row.with_terms(True, 0.25), row.with_terms("damping")] if row.passive else []
    for each in rows:
        copy_of_row = portable(each)
        assert copy_of_row.source == name
        assert pickle.loads(pickle.dumps(copy_of_row)).function() == each


@pytest.mark.parametrize(
    ("device", "how"),
    some_rows(
        itertools.product(("cpu", "float"), WAYS),
        lambda device, how: device == "float" or how == "pickled",
    ),
)
def test_a_copy_computes_the_same(device: str, how: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"cache": tmp_path, "threads": 1} if device == "cpu" else {}
    model = load_text(CRANE)
    row = named_function("fd_derivatives", outputs=["minv"], joint_terms=True, friction_width=0.3)
    opened = pinion.backend(model, row, device=device, **options)
    other = WAYS[how](opened)
    assert other is not opened and other.function == opened.function and other.model == model
    assert same(other(**states(model, row)), opened(**states(model, row)))


def test_options_travel(tmp_path: Path) -> None:
    opened = pinion.backend(
        *("pendulum", "gravity"),
        **{"device": "cpu", "dtype": "float32", "layout": "soa", "threads": 2, "isa": "portable"},
        **{"check_rotations": False, "reuse": False, "cache": tmp_path},
    )
    kernel = WAYS["pickled"](opened).kernel
    assert (kernel.dtype, kernel.layout, kernel.threads) == (np.float32, "soa", 2)
    assert kernel.isa.name == "portable" and kernel.finite and not kernel.reuse
    assert list(tmp_path.glob("*.so")), "it was compiled into the cache that was asked for"
    plain = cpu.compile("pendulum", "gravity", vector=False, cache=tmp_path)
    assert not WAYS["deep-copied"](plain).finite


def test_a_stream_of_the_float_model_goes_on_in_a_copy() -> None:
    opened = pinion.backend(None, running_sum, device="float")
    assert opened(x=[1.0, 2.0]).y.tolist() == [1.0, 3.0]
    other = WAYS["pickled"](opened)
    assert other(x=4.0).y == opened(x=4.0).y == 7.0
    other.reset_state()
    assert other(x=4.0).y == 4.0 and opened(x=4.0).y == 11.0


def test_functions_of_ones_own(tmp_path: Path) -> None:
    sent = portable(cube_of_cube)
    assert sent.source == ("tests.compute.portable_functions", "cube_of_cube")
    assert pickle.loads(pickle.dumps(sent)).function() is cube_of_cube
    file = tmp_path / "square.py"
    file.write_text(
        "from pinion import api as pinion\n"
        "@pinion.function(inputs={'x': pinion.array(sampling=pinion.uniform(-1, 1))},\n"
        "                 outputs={'y': pinion.array()})\n"
        "def square(x):\n    return x * x\n"
    )
    row = named_function(f"{file}:square")
    sent = portable(row)
    assert sent.source == f"{file}:square"
    assert pickle.loads(pickle.dumps(sent)).function().name == "square"
    opened = pinion.backend(None, row, device="float")
    assert WAYS["deep-copied"](opened)(x=3.0).y == 9.0
    file.unlink()
    with pytest.raises(FunctionError, match=r"no file '.*square\.py'"):
        sent.function()

    @pinion.function(
        inputs={"x": pinion.array(sampling=pinion.uniform(-1, 1))}, outputs={"y": pinion.array()}
    )
    def nameless(x: Any) -> Any:
        return x + 1.0

    assert portable(nameless).source is nameless  # cloudpickle takes it
    with pytest.raises(
        (AttributeError, pickle.PicklingError), match=r"local object '_algorithm\.<locals>"
    ):
        pickle.dumps(pinion.backend(None, nameless, device="float"))
    with pytest.raises(FunctionError, match=r"'nowhere\.f' cannot be loaded in this process"):
        PortableFunction(("nowhere", "f"), {}).function()


CUBE = """from pinion import api as pinion
@pinion.function(inputs={'x': pinion.array(sampling=pinion.uniform(-1, 1))},
                 outputs={'y': pinion.array()})
def cube(x):
    return x * x * x
"""
SEND = """if __name__ == "__main__":
    import copy, pathlib, pickle, sys
    opened = pinion.backend(None, cube, device="float")
    assert copy.deepcopy(opened).function is cube, "the script that runs is not run again"
    pathlib.Path(sys.argv[1]).write_bytes(pickle.dumps(opened))
"""
BY_VALUE = """
import cloudpickle, pathlib, sys
from pinion.functions.portable import portable
assert portable(cube).source is cube
opened = pinion.backend(None, cube, device="float")
pathlib.Path(sys.argv[1]).write_bytes(cloudpickle.dumps(opened))
"""
LOAD = """import pickle, sys
for name in sys.argv[1:]:
    print(pickle.load(open(name, "rb"))(x=3.0).y)
"""


def test_functions_of_a_script_travel_by_its_file_and_others_of_main_as_they_are(
    tmp_path: Path,
) -> None:
    script, load_it = (tmp_path / name for name in ("cube.py", "load.py"))
    script.write_text(CUBE + SEND)
    load_it.write_text(LOAD)
    senders = [[str(script)]]
    if importlib.util.find_spec("cloudpickle"):
        senders.append(["-c", CUBE + BY_VALUE])  # no file, as in a notebook
    files = [str(tmp_path / f"sent_{k}") for k in range(len(senders))]
    commands = [[*sender, file] for sender, file in zip(senders, files, strict=True)]
    for arguments in (*commands, [str(load_it), *files]):
        message = subprocess.run(
            [sys.executable, *arguments], capture_output=True, text=True, check=False
        )
        assert message.stderr == ""
    assert [float(line) for line in message.stdout.splitlines()] == [27.0] * len(files)


def computed(task: tuple[Backend, dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    opened, requests = task
    return {name: np.array(values) for name, values in opened(**requests).items()}


@pytest.mark.slow
def test_a_spawned_pool_computes(tmp_path: Path) -> None:
    model, row = load("pendulum"), named_function("rnea")
    opened = [
        pinion.backend(model, row, device="cpu", cache=tmp_path),
        pinion.backend(None, cube_of_cube, device="float"),
    ]
    requests = [states(each.model, each.function, 30) for each in opened]  # type: ignore[attr-defined]  # those of cpu and float have both
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool:
        results = pool.map_async(computed, list(zip(opened, requests, strict=True))).get(
            timeout=120
        )
    for each, request, remote in zip(opened, requests, results, strict=True):
        local = each(**request)
        assert set(remote) == set(local) and len(remote) > 1
        assert all(np.array_equal(remote[name], local[name]) for name in local)


@pytest.mark.parametrize("with_folder", [False, True])
def test_a_simulated_card_is_opened_again(with_folder: bool, tmp_path: Path) -> None:
    folder = {"folder": tmp_path / "build"} if with_folder else {}
    states_sent = states(load("pendulum"), named_function("rnea"), 6)
    with pinion.backend("pendulum", "rnea", device="sim", ii=4, **folder) as opened:
        assert isinstance(opened, CardBackend)
        with WAYS["pickled"](opened) as other:
            assert other.device is not opened.device
            assert (other.folder == opened.folder) == with_folder
            assert other.device.manifest.ii == 4
            assert same(other(**states_sent), opened(**states_sent))


def test_a_card_says_why_not() -> None:
    card = CardBackend(
        device=None,  # type: ignore[arg-type]  # it is not looked at
        folder=Path("build"),
        temporary=False,
        address="xdma:0",
    )
    for way in (pickle.dumps, copy.deepcopy):
        with pytest.raises(DriverError, match="The card 'xdma:0' cannot be copied"):
            way(card)
