"""The 2021 paper's figures from fixed data: their bars, and the origin of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pinion.bench.batches.data import GIVEN, batch, published_batches
from pinion.bench.batches.page import page, write_batches
from pinion.bench.batches.paper import (
    FUNCTION,
    ROBOT,
    figures,
    partition_rows,
    platform_bars,
    published_gpu,
    single_bars,
)
from pinion.bench.partitions.table import partitions_table
from tests.bench.test_batches import HOSTILE, PUBLISHED, data, row

HERE = {"function": FUNCTION, "work": GIVEN}
GPU = {"dtype": "float32", "processors": "gpu"}


def partition(name: str, samples: int, device: bool = True, **changes: Any) -> dict[str, Any]:
    device_us = {"kernel_us": 11.0, "copies_us": 13.0, "total_us": 29.0}
    return {
        **{"robot": ROBOT, "partition": name, "dtype": "float32", "samples": samples},
        **{"bytes_to_device": 560, "bytes_to_host": 392},
        **{"host_before_us": 2.0, "host_after_us": 3.0},
        **(device_us if device else dict.fromkeys(device_us)),
        **{"kernel": "a block" if device else None},
        **changes,
    }


def whole(device: bool = True) -> dict[str, Any]:
    """Rows of every kind at N = 1 and 16."""
    model = {"label": "model", "source": "docs/link.md", "dtype": "q16.16", "processors": "fpga"}
    rows = [r for r in published_batches(PUBLISHED)[0] if r["function"] == FUNCTION]
    rows += [
        row("Pinion CPU, float64, one processor", 1, 1.2, **HERE),
        row("Pinion CPU, float64, one processor", 16, 2.4, **HERE),
        row("Pinion CPU, float32, all processors", 16, 1.9, **HERE, processors="all"),
        row("Other code, float64, one processor", 16, 1.1, **HERE),
    ]
    if device:
        rows += [
            row("Pinion CUDA, float32, on the GPU", 1, 6.0, **{**HERE, **GPU}),
            row("Pinion CUDA, float32, with copies", 1, 16.0, **{**HERE, **GPU}),
            row("Pinion CUDA, float32, with copies", 16, 19.0, **{**HERE, **GPU}),
        ]
    for link in ("stock", "best"):
        for count in (1, 16):
            name = f"Pinion FPGA, q16.16, ii 24, {link} link"
            times = {**batch(count, us=60.0 + count, least_us=26.0), "card_us": 0.7 * count}
            rows.append({**row(name, count, 1.0, **HERE), **model, **times})
    names = ("split", "fused", "completely fused")
    return data(
        rows,
        targets=[{"robot": ROBOT, "function": FUNCTION}],
        partitions=[partition(name, n, device) for n in (16, 1024) for name in names],
    )


def test_figure_1_has_one_computation_of_everybody_without_the_way_there() -> None:
    bars = {bar.name: (bar.label, bar.us) for bar in single_bars(whole())}
    assert bars == {
        "paper's FPGA, computing alone": ("published", 0.61),
        "paper's CPU, one computation": ("published", 3.42),
        "paper's GPU, one computation": ("published", 8.44),
        "Pinion CPU, float64, one processor": ("measured", 1.2),
        "Pinion CUDA, float32, on the GPU": ("measured", 6.0),
        "Pinion FPGA, q16.16, ii 24, card alone": ("model", 0.7),
    }


def test_figure_3_has_the_fastest_of_each_platform_from_call_to_result() -> None:
    groups = platform_bars(whole())
    assert list(groups) == [16, 32, 64, 128]
    bars = {bar.name: (bar.words, bar.us, bar.least_us) for bar in groups[16]}
    assert bars == {
        "paper's FPGA": ("published 2021", 15.8, None),
        "paper's CPU": ("published 2021", 29.4, None),
        "paper's GPU": ("published 2021", 25.5, None),
        "Pinion CPU, its fastest": ("measured", 1.9, None),
        "Pinion CUDA, float32, with copies": ("measured", 19.0, None),
        "Pinion FPGA, q16.16, ii 24, best link": ("model", 76.0, 26.0),
    }
    assert {bar.label for count in (32, 64, 128) for bar in groups[count]} == {"published"}


def test_figure_2_has_the_papers_sizes_and_what_was_published() -> None:
    data = whole()
    assert [r["samples"] for r in partition_rows(data)] == [16] * 3
    assert {n: bar.us for n, bar in published_gpu(data).items()} == {
        **{16: 25.5, 32: 27.7},
        **{64: 33.1, 128: 44.2},
    }
    table = partitions_table(data["partitions"])
    assert table.rows[0][:4] == ("split", 16, 560, 392)
    assert [line[1] for line in table.rows] == [16] * 3 + [1024] * 3
    alone = partitions_table(whole(device=False)["partitions"]).rows[0]
    assert alone[4:] == (2.0, None, None, 3.0, None, None)


def test_the_figures_stand_on_the_page_and_beside_it(tmp_path: Path) -> None:
    for device in (True, False):
        data = whole(device)
        folder = tmp_path / str(device)
        written = [path.name for path in write_batches(folder, data)]
        assert written[-3:] == [f"paper_figure_{k}.svg" for k in (1, 2, 3)]
        text = (folder / "compare.md").read_text()
        assert text == page(data) and all(f"({name})" in text for name in written[-3:])
        svg = (folder / "paper_figure_2.svg").read_text()
        assert ("was not measured" in svg) == (not device)
        assert ("(the rest of the call)" in svg) == device
        pictures_before = [(folder / name).read_bytes() for name in written[-3:]]
        write_batches(folder, data)
        assert [(folder / name).read_bytes() for name in written[-3:]] == pictures_before


def test_what_has_no_rows_has_no_figure() -> None:
    assert figures(whole()) == {k: f"paper_figure_{k}.svg" for k in (1, 2, 3)}
    other_target = {**whole(), "targets": [{"robot": ROBOT, "function": "rnea"}], "partitions": []}
    assert (
        figures(other_target) == {}
        and "2021 paper" not in page(other_target).partition("## Where")[2]
    )
    earlier = whole()
    del earlier["partitions"]
    assert set(figures(earlier)) == {1, 3}


def test_texts_from_files_do_nothing_but_show(tmp_path: Path) -> None:
    data = whole()
    for entry in (*data["rows"][-2:], *data["partitions"]):
        entry[("by" if "by" in entry else "partition")] = HOSTILE
    data["rows"][0]["by"] = f"_{HOSTILE}"
    for path in write_batches(tmp_path, data)[-3:]:
        root = ElementTree.parse(path).getroot()
        assert not [e for e in root.iter() if str(e.tag).endswith("script")]
    assert "<script" not in (tmp_path / "compare.md").read_text()


@pytest.mark.parametrize(
    ("change", "needle"),
    [
        ({"total_us": float("nan")}, "nan"),
        ({"bytes_to_host": 0}, "bytes_to_host"),
        ({"partition": 3}, "'partition'"),
        ({"kernel": 3}, "'kernel'"),
    ],
)
def test_damaged_rows_are_refused(tmp_path: Path, change: dict[str, Any], needle: str) -> None:
    data = {**whole(), "partitions": [partition("split", 16) | change]}
    with pytest.raises((TypeError, ValueError), match=needle):
        write_batches(tmp_path / "page", data)
    assert not (tmp_path / "page").exists()
