"""Monitor of the top's AXI ports in every cycle of the link's clock, for any traffic."""

from __future__ import annotations

from typing import Any

from cocotb.triggers import Event, RisingEdge

_HANDSHAKES = (
    *("h2c_tready", "c2h_tvalid", "s_axil_awready", "s_axil_wready", "s_axil_bvalid"),
    *("s_axil_arready", "s_axil_rvalid"),
)
_OFFERS = {
    "c2h": ("c2h_tvalid", "c2h_tready", ("c2h_tdata", "c2h_tkeep", "c2h_tlast")),
    "s_axil_r": ("s_axil_rvalid", "s_axil_rready", ("s_axil_rdata", "s_axil_rresp")),
    "s_axil_b": ("s_axil_bvalid", "s_axil_bready", ("s_axil_bresp",)),
}
"""The offers of the top: valid, ready, and the signals that must stay until it is taken."""


class ComplaintError(Exception):
    """Error for a fault of the top; the message is a sentence."""


class TopMonitor:
    """Monitor that samples all handshakes at every rising edge after configuration.

    It complains of X or Z on a handshake and on what is offered, of an offer that changes or is
    withdrawn before it is taken, and of a TKEEP that is not all ones.

    Members
    -------
    cycle : of the link's clock, since the monitor's start.
    accepted : cycles in which a request beat was taken.
    emitted : number of result beats taken.
    ended : cycles in which a result beat with TLAST was taken.
    stalled : cycles since configuration in which a result beat waited.
    unread : cycles in a row in which no beat was taken either way.
    complaints : sentences, in their order.
    noticed : set with the first of them.
    """

    def __init__(self, *, dut: Any) -> None:
        self.dut = dut
        self.cycle = 0
        self.accepted: list[int] = []
        self.ended: list[int] = []
        self.emitted = 0
        self.stalled = 0
        self.unread = 0
        self.complaints: list[str] = []
        self.noticed = Event()

    def complain(self, sentence: str) -> None:
        """Record a complaint; the bench stops at the first one."""
        self.complaints.append(sentence)
        self.noticed.set()

    async def run(self) -> None:
        """Watch for ever."""
        dut, edge = self.dut, RisingEdge(self.dut.clk)
        offers: dict[str, tuple[str, ...]] = {}
        while True:
            await edge
            self.cycle += 1
            if str(dut.rst.value) != "0":
                # All that was offered is forgotten, and both ends know it.
                offers.clear()
                self.stalled = self.unread = 0
                continue
            handshakes = {name: str(getattr(dut, name).value) for name in _HANDSHAKES}
            unknown = [name for name, value in handshakes.items() if value not in "01"]
            if unknown:
                self.complain(f"In cycle {self.cycle} {', '.join(unknown)} is X or Z.")
                return
            for stream, (valid, ready, names) in _OFFERS.items():
                if handshakes[valid] == "0":
                    if offers.pop(stream, None):
                        self.complain(
                            f"In cycle {self.cycle} {valid} fell although nobody had taken the "
                            "offer: an offer stays until it is taken."
                        )
                    continue
                now = tuple(str(getattr(dut, name).value) for name in names)
                accepted = str(getattr(dut, ready).value) == "1"
                self._payload(stream, names, now, offers.get(stream))
                offers[stream] = now
                if accepted:
                    del offers[stream]
                if stream == "c2h":
                    self._result(accepted, last=now[2] == "1")
            self.unread += 1
            if handshakes["h2c_tready"] == "1" and str(dut.h2c_tvalid.value) == "1":
                self.accepted.append(self.cycle)
                self.unread = 0

    def _result(self, accepted: bool, *, last: bool) -> None:
        if not accepted:
            self.stalled += 1
            return
        self.emitted += 1
        self.unread = 0
        if last:
            self.ended.append(self.cycle)

    def _payload(
        self,
        stream: str,
        names: tuple[str, ...],
        now: tuple[str, ...],
        before: tuple[str, ...] | None,
    ) -> None:
        for name, value in zip(names, now, strict=True):
            if value.strip("01"):
                self.complain(f"In cycle {self.cycle} {name} is offered with bits of X or Z.")
        if before is not None and now != before:
            changed = [n for n, a, b in zip(names, now, before, strict=True) if a != b]
            self.complain(
                f"In cycle {self.cycle} {', '.join(changed)} changed although nobody had taken "
                "the offer: an offer stays until it is taken."
            )
        if stream == "c2h" and "0" in now[1]:
            self.complain(
                f"In cycle {self.cycle} c2h_tkeep is {int(now[1], 2):#x}: all bytes of a result "
                "beat must be there."
            )
