"""``pinion campaign``: table, JSON and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import click
import numpy as np
import pytest
import typer

from pinion.campaign import CampaignProgress, ChunksError, read_results
from pinion.cli.again import interrupted
from pinion.cli.campaign import duration, progress_words
from tests.cli.conftest import Built, Pinion


def test_a_campaign_says_what_it_found_and_goes_on(
    built: Built, pinion: Pinion, tmp_path: Path
) -> None:
    file = tmp_path / "c.sqlite"
    np.savez(tmp_path / "in.npz", q=np.zeros((5, 2)), qd=np.zeros((5, 2)), qdd=np.ones((5, 2)))
    options = ("--input", tmp_path / "in.npz", "--device", "integers", "--workers", 1, "-o", file)
    first = pinion("campaign", built.folder, *options, "--json")
    assert first.json["ok"]
    assert (first.json["states"], first.json["finished"]) == (5, 5)
    again = pinion("campaign", built.folder, *options)
    assert again.code == 0, again.err
    assert f"Digest of these figures: {first.json['digest'][:16]}" in again.out
    assert "Every result is finite; no error limit was given" in again.out
    strict = pinion("campaign", built.folder, *options[:-1], tmp_path / "d", "--max-error", 0.1)
    assert strict.code == 0 and "All checks passed." in strict.out
    assert max(map(len, again.out.splitlines())) <= 160
    pinion("campaign", built.folder, *options, "--chunk", 2).refused("chunk 10000 instead of 2")


@pytest.mark.parametrize(
    ("options", "needle"),
    [
        ((), "Give either"),
        (("--states", 5, "--input", "x.npz"), "Give either"),
        (("--states", 5, "--scheduler", "tcp://x:1", "--workers", 2), "leave out --workers"),
        (("--input", "x.npz", "--seed", 3), "leave out --distribution and --seed"),
        (("--states", 5, "--device", "abacus"), "There is no device 'abacus'"),
        (("--states", 5, "--device", "cuda:0", "--workers", 2), "Each device has one worker"),
    ],
)
def test_what_does_not_go_together_is_refused(
    options: tuple[object, ...], needle: str, built: Built, pinion: Pinion, tmp_path: Path
) -> None:
    pinion("campaign", built.folder, "-o", tmp_path / "c", *options).refused(needle)


def test_a_campaign_is_kept_in_a_file(pinion: Pinion, built: Built, tmp_path: Path) -> None:
    begun = ("campaign", built.folder, "--states", 4, "-o")
    pinion(*begun, tmp_path).refused(f"'{tmp_path}' is a folder", "-o")
    pinion(*begun, tmp_path / "no" / "c").refused("'c'", "create it first")
    assert not list(tmp_path.iterdir())


def test_a_batch_keeps_results_and_goes_on(pinion: Pinion, tmp_path: Path) -> None:
    file = tmp_path / "b.sqlite"
    np.savez(tmp_path / "in.npz", q=np.zeros((5, 2)), qd=np.zeros((5, 2)), qdd=np.ones((5, 2)))
    options = ("--input", tmp_path / "in.npz", "--device", "float", "--workers", 1, "-o", file)
    first = pinion("batch", "two_link", "rnea", *options, "--json")
    assert (first.json["ok"], first.json["finished"], first.json["dtype"]) == (True, 5, "float64")
    ((start, arrays),) = read_results(file)
    assert start == 0 and arrays.keys() == {"tau"} and arrays["tau"].shape == (5, 2)
    again = pinion("batch", "two_link", "rnea", *options)
    assert again.code == 0 and "All results are complete and finite." in again.out
    another = pinion("batch", "two_link", "gravity", *options[2:], "--states", 5)
    another.refused(
        "contains another run (robot and function 'two_link rnea' instead of 'two_link gravity', "
    )
    assert "folder" not in another.err


@pytest.mark.parametrize(
    ("options", "needle"),
    [
        ((), "Give either"),
        (("--states", 5, "--device", "sim"), "A batch has no device 'sim'"),
        (("--states", 5, "--dtype", "float16"), "There is no dtype 'float16'"),
        (("--states", 5, "--tip", "nowhere"), "'nowhere'"),
    ],
)
def test_a_batch_refuses_what_does_not_go_together(
    options: tuple[object, ...], needle: str, pinion: Pinion, tmp_path: Path
) -> None:
    pinion("batch", "two_link", "rnea", "-o", tmp_path / "b", *options).refused(needle)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("verb", ["batch", "campaign"])
def test_failed_chunks_are_a_failed_check(
    verb: str, pinion: Pinion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, built: Built
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise ChunksError("The run stopped after 1 failed chunk.")

    monkeypatch.setattr(f"pinion.campaign.{verb}", failing)
    subject = ("two_link", "rnea") if verb == "batch" else (built.folder,)
    completed = pinion(verb, *subject, "--states", 5, "-o", tmp_path / "b")
    assert (completed.code, completed.err) == (1, "The run stopped after 1 failed chunk.\n")


def test_a_sweep_has_jobs_or_a_scheduler(pinion: Pinion) -> None:
    sweep = ("explore", "two_link", "rnea", "--jobs", 2, "--scheduler", "tcp://127.0.0.1:1")
    pinion(*sweep).refused("leave out --jobs")


def test_progress_is_in_words() -> None:
    now = CampaignProgress(states=1_000, finished=250, fresh=100, seconds=4.0, workers=2, failed=0)
    assert progress_words(now) == "250 of 1,000 states (25%), 25/s, 30 s left, 2 workers"
    begun = CampaignProgress(states=10, finished=5, fresh=0, seconds=0.0, workers=0, failed=1)
    assert progress_words(begun) == "5 of 10 states (50%), 0/s, 0 workers, 1 chunk failed"
    assert [duration(t) for t in (0.4, 59.6, 185.0, 7800.0)] == [
        *("0 s", "1:00 min", "3:05 min", "2:10 h")
    ]


def test_an_interruption_says_what_is_kept(tmp_path: Path) -> None:
    context = click.Context(click.Command("batch"), info_name="batch")
    arguments = [
        interrupted(count, "request", Path("b.sqlite"), cast(typer.Context, context))
        for count in (0, 1, 2_000)
    ]
    assert arguments == [
        "Interrupted before a chunk was finished. To continue: pinion batch",
        "Interrupted with 1 request finished, which is kept in b.sqlite. To continue: pinion batch",
        "Interrupted with 2,000 requests finished, which are kept in b.sqlite. To continue: pinion "
        "batch",
    ]
    file = tmp_path / "b.sqlite"
    file.touch()
    message = interrupted(0, "request", file, cast(typer.Context, context))
    assert message.startswith(
        f"Interrupted before another chunk was finished; the chunks in {file} are kep"
    )
