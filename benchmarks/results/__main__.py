"""``python -m benchmarks.results [RECORD...]``: measure records, then write pages and picture.

Without records nothing is measured; with ``--check`` nothing is written either, and the exit code
is 1 if a page or the picture differs from the records.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from .backends import backends, with_gpu, with_partitions
from .first_page import with_critical_paths, with_headline
from .page import page
from .picture import drawn
from .records import RECORDS, ROOT, RecordError, chosen, gpu_record


def made() -> Mapping[Path, str]:
    """Return the text of every file that is derived from the records, by path."""
    docs, readme = ROOT / "docs", ROOT / "README.md"
    timing, cuda = docs / "timing.md", docs / "cuda.md"
    cores, factor, batches = (
        RECORDS[name].read()["figures"] for name in ("cores", "factor", "batches")
    )
    measured = [*cores["measured"], *factor["measured"]]
    return {
        docs / "results.md": page(),
        docs / "guides/where-each-backend-wins.md": backends(),
        docs / "results" / "overview.svg": drawn(cores, factor, batches),
        readme: with_headline(readme.read_text(encoding="utf-8"), cores, factor, batches),
        timing: with_critical_paths(timing.read_text(encoding="utf-8"), measured),
        cuda: with_gpu(with_partitions(cuda.read_text(encoding="utf-8"), batches), gpu_record()),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure records, then write the pages or check that they are current."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("records", nargs="*", metavar="RECORD", help=", ".join(RECORDS))
    parser.add_argument("--check", action="store_true", help="write nothing; say what differs")
    options = parser.parse_args(arguments)
    try:
        for record in chosen(options.records):
            print(f"{record.command}: {record.slow}", file=sys.stderr, flush=True)
            record.measure()
        files = made()
    except (RecordError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    stale = [path for path, text in files.items() if not _same(path, text)]
    for path in stale:
        if options.check:
            print(f"{path.relative_to(ROOT)} differs from the records: run 'make results'.")
        else:
            path.write_text(files[path], encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    return int(options.check and bool(stale))


def _same(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main())
