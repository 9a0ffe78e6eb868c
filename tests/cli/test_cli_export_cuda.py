"""`pinion export --cuda`: the command and its refusals."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tests.cli.conftest import Pinion


def test_a_header_is_written_and_regenerated(pinion: Pinion, tmp_path: Path) -> None:
    command = ("export", "--cuda", "two_link", "rnea", "-o", tmp_path / "out")
    result = pinion(*command, "--json").json
    assert result["name"] == "two_link_rnea" and result["dtype"] == "float32"
    for path in result["files"]:
        assert (tmp_path / "out" / path).is_file()
    header = tmp_path / "out/two_link_rnea.cuh"
    first = header.read_bytes()
    assert pinion(*command).code == 0
    assert header.read_bytes() == first
    header.write_bytes(first + b"// mine\n")
    pinion(*command).refused("two_link_rnea.cuh' differs from what Pinion wrote", "hook", "--force")
    assert header.read_bytes() == first + b"// mine\n"
    assert pinion(*command, "--force").code == 0
    assert header.read_bytes() == first
    assert pinion(*command, "--dtype", "float64", "--json").json["dtype"] == "float64"
    assert b"typedef double real;" in header.read_bytes()


def test_wrong_input_is_one_sentence_and_leaves_nothing(pinion: Pinion, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("file")

    def refused(*words: object, out: str = "new/out", needles: Sequence[str]) -> None:
        pinion("export", *words, "-o", tmp_path / out).refused(*needles)
        assert os.listdir(tmp_path) == ["file"]

    refused(
        "--cuda",
        "--cpu",
        "two_link",
        "rnea",
        needles=["only one of --cpu"],
    )
    refused("--cuda", "two_link", needles=["robot and a function", "two_link"])
    refused("--cuda", "nobot", "rnea", needles=["robot 'nobot'"])
    refused("--cuda", "two_link", "dance", needles=["function 'dance'"])
    refused("--cuda", "two_link", "rnea", "--name", "7up", needles=["'7up'"])
    refused("--cuda", "two_link", "rnea", "--dtype", "half", needles=["dtype 'half'"])
    refused("--cuda", "two_link", "rnea", out="file/out", needles=["file/out'", "choose another"])
    refused("--cpu", "two_link", "rnea", "--force", needles=["--force is only for --cuda"])
    refused("two_link", "--dtype", "float64", needles=["--dtype is only for --cuda"])
    refused("two_link", "rnea", needles=["--cpu or --cuda"])
