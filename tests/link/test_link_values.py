"""Values and names that other programs rely on, repeated here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pinion.link import HEADER, Array, Layout, Manifest, transfer
from pinion.link.accuracy import BINS, ERRORS, BlockErrors, margins
from pinion.link.build_files import BOARD_REPORT, NETLIST_CHECK, RESOURCES, SCHEDULE, Number
from pinion.link.protocol import field_of
from tests.driver.cards import manifest

# Names and types of the fields of every file in a build folder: other programs read them.
FILES: list[tuple[Any, str, int, dict[str, Any]]] = [
    (
        *(SCHEDULE, "schedule.json", 1),
        {
            **{"ii": int, "length": int, "first_operand": int, "last_beat": int, "units": dict},
            "operations": (
                {
                    **{"node": int, "unit": int, "start": int, "latency": int},
                    **{"kind": str, "region": str, "line": str},
                },
            ),
            "outputs": ({"name": str, "node": int, "lane": int, "beat": int, "cycle": int},),
        },
    ),
    (
        *(RESOURCES, "synth.json", 3),
        {
            **{"dsp": int, "lut": int, "ff": int, "srl": int, "lutram": int, "levels": int},
            **{"bram": Number, "dsp_use": dict, "capacity": dict, "share": dict, "by_kind": dict},
            **{"dies": int, "multipliers": (dict,), "dsp_note": str},
            "timing": {"table": str, "note": str, "ns": dict, "mhz": dict, "paths": (dict,)},
            **{"tool": str, "part": str, "note": str},
        },
    ),
    (
        *(BOARD_REPORT, "report.json", 1),
        {
            **{"build": str, "netlist_sha256": str, "fmax_mhz": Number, "clock_mhz": Number},
            "use": dict,
        },
    ),
    (*(NETLIST_CHECK, "netlist.json", 1), {"requests": int, "mismatches": int, "sha256": str}),
    (
        *(ERRORS, "errors.json", 2),
        {
            "verdict": {"mismatches": int, "failed": (str,)},
            **{"build": str, "distribution": str, "simulator": str},
            **{"requests": int, "seed": int, "flagged": int},
            "blocks": (
                {
                    **{"name": str, "unit": str, "lsb": Number, "words": (str,)},
                    **{"budget": (Number,), "largest": (Number,), "edges": (Number,)},
                    "invalid": int,
                    "groups": ({"name": str, "words": (int,), "counts": (int,)},),
                },
            ),
        },
    ),
]


@pytest.mark.parametrize(("file", "name", "version", "fields"), FILES)
def test_the_fields_of_files_are_fixed(
    file: Any, name: str, version: int, fields: dict[str, Any]
) -> None:
    assert (file.name, file.version) == (name, version)
    assert (
        file.remedy
        == {
            "schedule.json": "build the folder again",
            "synth.json": "run `pinion synth` on the build again",
            "report.json": "run `pinion bitstream` on the build again",
            "netlist.json": "run `pinion verify --netlist` on the build again",
            "errors.json": "run `pinion verify` on the build again",
        }[name]
    )
    missing = {key: value for key, value in fields.items() if file.fields.get(key) != value}
    assert missing == {}, "a field was renamed or has another type: raise the version"


def manifest_and_layout(**changes: Any) -> tuple[Manifest, Layout]:
    m = manifest(**changes)
    return m, Layout(function=1, words_in=m.words_in, words_out=m.words_out, build=m.hash)


def test_framing_is_a_header_each_way_a_trailer_and_the_flags() -> None:
    assert [transfer.framing_beats(n) for n in (1, 512, 513, 1024, 1025)] == [4, 4, 5, 5, 6]


def test_the_card_needs_its_latency_and_a_step_for_each_further_request() -> None:
    m, _ = manifest_and_layout(ii=4, clock_mhz=200.0, latency_cycles=50)
    assert transfer.card_us(m, 1) == pytest.approx(50 / 200 + 4 / 250)
    assert transfer.card_us(m, 11) == pytest.approx(50 / 200 + 10 * 4 / 200 + 4 / 250)
    wide = (Array(name="big", shape=(160,), unit=""),)
    m, _ = manifest_and_layout(ii=1, clock_mhz=250.0, latency_cycles=25, inputs=wide)
    assert transfer.card_us(m, 11) == pytest.approx(0.1 + 10 * 10 / 250 + 4 / 250)
    m, _ = manifest_and_layout(ii=1, clock_mhz=250.0, latency_cycles=25, outputs=wide)
    assert transfer.card_us(m, 11) == pytest.approx(0.1 + 10 * 10 / 250 + 4 / 250)


def test_an_estimate_adds_up() -> None:
    m, layout = manifest_and_layout()
    link = transfer.Link(name="toy", to_card=(1.0, 2.0), to_host=(4.0, 8.0), text="")
    row = transfer.estimate_time(m, layout, link, 1000)
    sent, received = layout.request_bytes(1000), layout.response_bytes(1000)
    card = transfer.card_us(m, 1000)
    assert row == {
        **{"requests": 1000, "link": "toy", "card_us": card},
        **{"request_bytes": sent, "response_bytes": received},
        "least_us": 25.0 + max(sent / 2000, card, received / 8000),
        "most_us": 60.0 + sent / 1000 + card + received / 4000,
    }
    slow = transfer.Link(name="slow", to_card=(0.001, 0.002), to_host=(1.0, 1.0), text="")
    assert (
        transfer.estimate_time(m, layout, slow, 1)["least_us"] == 25.0 + layout.request_bytes(1) / 2
    )
    slow = transfer.Link(name="slow", to_card=(1.0, 1.0), to_host=(0.001, 0.002), text="")
    assert (
        transfer.estimate_time(m, layout, slow, 1)["least_us"]
        == 25.0 + layout.response_bytes(1) / 2
    )


def test_the_model_names_what_it_assumes() -> None:
    m, layout = manifest_and_layout(clock_mhz=123.0)
    estimates = transfer.model(m, layout)
    assert estimates["measured"] is False
    assert (estimates["robot"], estimates["function"]) == (m.robot, m.function)
    assumed = estimates["assumed"]
    assert (assumed["core_mhz"], assumed["link_mhz"], assumed["fixed_us"]) == (
        123.0,
        250.0,
        [25.0, 60.0],
    )
    assert assumed["least"] == "transfers and computing overlap entirely"
    assert assumed["most"] == "nothing overlaps"
    assert {link.name: (link.to_card, link.to_host) for link in transfer.LINKS} == {
        "stock": ((5.0, 6.0), (5.0, 6.0)),
        "best": ((9.3, 9.3), (11.9, 11.9)),
    }
    assert set(assumed["links"]) == {"stock", "best"}
    assert assumed["links"]["stock"].startswith("the vendor's driver, one thread per direction")
    assert assumed["links"]["best"].startswith("a better driver on the same family of parts")
    rows = [(row["link"], row["requests"]) for row in estimates["estimates"]]
    assert rows == [(name, n) for name in ("stock", "best") for n in (16, 32, 64, 128)]


def test_margins_leave_out_what_is_exact() -> None:
    error = np.array([[1e-13, 0.5, 0.1], [0.0, 0.25, 0.2]])
    ratios = margins(error, np.array([1.0, 5.0, 8.0]))
    assert sorted(ratios.values()) == pytest.approx([10.0, 40.0])
    nothing = margins(np.zeros((2, 2)), np.ones(2))
    assert list(nothing.values()) == [None, None]
    assert margins(np.array([[1e-12]]), np.ones(1)) == nothing, "noise of the float model"
    assert margins(np.array([[1.5e-12]]), np.array([3e-12])) == {"min": 2.0, "max": 2.0}


def edges(error: np.ndarray, budget: float) -> tuple[float, ...]:
    block = BlockErrors.of(
        name="tau",
        unit="",
        lsb=1.0,
        words=["tau[0]"],
        error=error[:, None],
        budget=np.array([budget]),
    ).edges
    assert len(block) == 90 == BINS + 1
    return block


def test_an_axis_begins_at_the_hundredth_part_and_ends_beyond_the_budget() -> None:
    even = np.linspace(0.001, 0.1, 1001)
    assert edges(even, 0.2)[0] == pytest.approx(np.quantile(even, 0.01))
    assert edges(even, 0.2)[-1] == pytest.approx(3 * 0.2)
    assert edges(even, 0.05)[-1] == pytest.approx(3 * 0.1), "of what breaks it too"
    lonely = np.r_[np.zeros(999), 1.0]
    assert edges(lonely, 0.1)[0] == pytest.approx(1e-5)
    assert edges(lonely * 1e-3, 1.0)[0] == pytest.approx(1e-6)
    assert edges(np.zeros(3), 0.0)[0] == pytest.approx(1e-12, abs=0.0)
    assert edges(np.zeros(0), 1.0)[0] == pytest.approx(1e-6)


def test_a_field_that_no_record_has_is_named() -> None:
    with pytest.raises(KeyError, match="no field 'size'; it has"):
        field_of(HEADER, "size")
    assert field_of(HEADER, "magic") == (np.dtype("<u4"), 0)
