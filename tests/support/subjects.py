"""Check of commit subjects for `make lint`: ``python -m tests.support.subjects``.

The first line of a commit has at most 72 characters (CONTRIBUTING.md). Older commits than the check
are as they are.
"""

from __future__ import annotations

import subprocess
import sys

LIMIT = 72
SINCE = "2026-11-26T02:00:00Z"
"""When the check began."""


def long_subjects(log: str) -> list[str]:
    """Return the lines of ``git log --format='%h %s'`` whose subject is too long."""
    return [line for line in log.splitlines() if len(line.partition(" ")[2]) > LIMIT]


def main() -> int:
    """Print each commit whose subject is too long; return 1 if there is one."""
    command = ["git", "log", "--no-merges", f"--since={SINCE}", "--format=%h %s"]
    log = subprocess.run(command, capture_output=True, text=True, check=False)
    if log.returncode:
        print(f"subjects of commits not checked: {log.stderr.strip()}")
        return 0
    lines = long_subjects(log.stdout)
    for line in lines:
        print(f"{line}: more than {LIMIT} characters")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
