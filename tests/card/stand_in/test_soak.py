"""Thousands of requests with many faults: no result is lost, swapped or silently wrong."""

from __future__ import annotations

import pytest

from pinion.card.stand_in import KINDS, Fault, FaultPlan, FaultRecord, StandIn, why_no_fuse
from tests.support.soak import Soak, soak
from tests.support.tally import HARMLESS, NAMES, Failure, Success, unexplained

needs_fuse = pytest.mark.skipif(why_no_fuse() is not None, reason=str(why_no_fuse()))


def test_every_fault_has_its_errors():
    assert {*NAMES, *HARMLESS} == {*KINDS} and not {*NAMES} & {*HARMLESS}


def test_an_exception_needs_a_fault_of_its_name_and_time():
    failure = Failure(name="CardTimeoutError", text="", began=10.0, ended=11.0)

    def record(kind: str, time: float) -> FaultRecord:
        return FaultRecord(kind=kind, packet=0, sequence=0, time=time, detail="")

    def explained(*records: FaultRecord, right: tuple[Success, ...] = ()) -> bool:
        return not unexplained([failure], records, right)

    between = Success(began=6.0, ended=9.0)
    assert explained(record("etimedout", 10.5))
    assert not explained(record("etimedout", 11.5))
    assert explained(record("etimedout", 5.0))
    assert not explained(record("etimedout", 5.0), right=(between,))
    assert explained(record("etimedout", 6.5), right=(between,))
    assert explained(record("etimedout", 5.0), right=(Success(began=6.0, ended=10.5),))
    assert not explained(record("short_read", 10.5), record("delay", 10.5))
    assert not explained(record("partial_tkeep", 10.5))
    assert unexplained([failure] * 2, [record("etimedout", 10.5)]) == [failure]
    assert unexplained([failure] * 2, [record("etimedout", 10.5)] * 2) == []
    busy = Failure(name="BusyError", text="", began=10.0, ended=11.0)
    assert not unexplained([busy], [record("ebusy", 5.0)], [between]), "it waits for an opening"


def test_the_card_and_the_host_may_name_two_faults():
    """The card's cause is the first since its reset, and may be another packet's."""
    damaged = Failure(name="PAYLOAD_CRC", text="", began=10.0, ended=11.0)
    late = Failure(name="PAYLOAD_CRC", host="CardTimeoutError", text="", began=10.0, ended=11.0)

    def record(kind: str) -> FaultRecord:
        return FaultRecord(kind=kind, packet=0, sequence=0, time=10.5, detail="")

    both = [record("corrupt_beat"), record("etimedout")]
    assert unexplained([late, damaged], both) == []
    assert unexplained([damaged, damaged], both) == [damaged]
    assert unexplained([late], both[1:]) == [late], "no fault gives the card this cause"


def test_a_torn_stream_may_spoil_two_batches_and_no_more():
    torn = Failure(name="TornStreamError", text="", began=10.0, ended=11.0)

    def record(kind: str) -> FaultRecord:
        return FaultRecord(kind=kind, packet=0, sequence=0, time=10.5, detail="")

    assert unexplained([torn] * 3, [record("lost_tail")]) == [torn]
    assert unexplained([torn] * 2, [record("short_read")]) == [torn]


@needs_fuse
def test_thousands_of_requests_with_a_fault_every_hundred(card):
    figures = soak(
        ".",
        requests=4000,
        every=100,
        seed=1,
        model=card.echo,
        workload=card.workload(512, seed=1),
        rounds=3,
    )
    print(figures)
    assert figures["complaints"] == []
    assert figures["right"] + figures["failed"] == 4000 and figures["wrong"] == 0
    assert figures["faults_total"] >= 20 and figures["retried"] >= 5 and figures["usable"]


@needs_fuse
def test_a_card_that_lies_is_noticed(card):
    """The soak's comparison fails if one expected bit is changed."""
    workload = card.workload(64, seed=2)
    workload.words[7, 3] ^= 1 << 12
    with StandIn(folder=".", model=card.echo, sound_timeout=60.0) as stand:
        figures = Soak(card=stand, workload=workload, requests=600, rounds=1).run()
    assert figures["wrong"] > 0 and not figures["usable"]
    assert any("wrong without an exception" in line for line in figures["complaints"])


@needs_fuse
def test_an_exception_without_a_fault_is_noticed(card):
    plan = FaultPlan(faults=(Fault(kind="etimedout", at=(3,)),))
    with StandIn(folder=".", model=card.echo, faults=plan, sound_timeout=60.0) as stand:
        run = Soak(card=stand, workload=card.workload(64, seed=3), requests=600, rounds=1)
        stand.log = lambda start=0: []
        figures = run.run()
    assert figures["unexplained"] == 1 and figures["wrong"] == 0
