"""Export of a core to a folder that other designs and tools can use without Pinion."""

from __future__ import annotations

from .folder import REQUESTS, export
from .interface import CorePort, ExportError, core_ports, module_name
from .vectors import Vectors, make_vectors

__all__ = [
    "REQUESTS",
    "CorePort",
    "ExportError",
    "Vectors",
    "core_ports",
    "export",
    "make_vectors",
    "module_name",
]
