"""Arguments and options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Robot = Annotated[
    str, typer.Argument(metavar="ROBOT", help="A built-in robot's name or a URDF file.")
]
Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="A build folder, made by `pinion build`.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]
