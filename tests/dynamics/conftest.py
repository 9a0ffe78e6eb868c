"""Makes the helpers beside these tests importable as `tests.dynamics.*`, however pytest starts."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)
