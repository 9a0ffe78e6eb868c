"""Implementation strategies for the vendor tool: each step's directive, and the reason.

A strategy is one path from the synthesised netlist to the routed one. The script tries them in this
order and stops at the first that meets timing. Names are those of UG904; the table of names lists
each with the release that documents it. A release that does not know one rejects that strategy, and
the next is tried.
"""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT = "Default"

SYNTHESIS = (
    "-flatten_hierarchy rebuilt -keep_equivalent_registers -fsm_extraction off -shreg_min_size 5"
)
"""Synthesis options of every strategy; ``docs/vcu118.md`` says why."""


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """Implementation strategy: one directive of the vendor tool for each step.

    Members
    -------
    name : name of the strategy in reports, and of its folder.
    synth, opt, place, phys_opt, route : directives of ``synth_design`` and so on; every netlist has
        already passed ``Default`` of ``opt``.
    like : UG904's strategy with the same directives, "" if there is none.
    margin_ns : uncertainty added to the core's clock during placement.
    dies : only for a design over several dies.
    reason : explanation for the documentation.
    """

    name: str
    synth: str = DEFAULT
    opt: str = DEFAULT
    place: str
    phys_opt: str
    route: str
    like: str = ""
    margin_ns: float = 0.0
    dies: bool = False
    reason: str

    def words(self) -> str:
        """Return the settings as a Tcl list of names and values."""
        return " ".join(
            [
                *("name", self.name, "synth", self.synth, "opt", self.opt, "place", self.place),
                *("phys_opt", self.phys_opt, "route", self.route),
                *("margin", f"{self.margin_ns:g}", "dies", str(int(self.dies))),
            ]
        )


STRATEGIES = (
    Strategy(
        name="default",
        place=DEFAULT,
        phys_opt=DEFAULT,
        route=DEFAULT,
        reason="the quickest; enough where the estimate has room",
    ),
    Strategy(
        name="spread_slls",
        place="SSI_SpreadSLLs",
        phys_opt="Explore",
        route="Explore",
        like="Performance_SpreadSLLs",
        dies=True,
        reason="leaves room beside the wires between dies",
    ),
    Strategy(
        name="high_util_slrs",
        place="SSI_HighUtilSLRs",
        phys_opt="Explore",
        route="Explore",
        like="Performance_HighUtilSLRs",
        dies=True,
        reason="fills each die densely, so that fewer values cross",
    ),
    Strategy(
        name="explore",
        opt="Explore",
        place="Explore",
        phys_opt="Explore",
        route="Explore",
        like="Performance_Explore",
        reason="more effort in every step; copies drivers with very high fan-out",
    ),
    Strategy(
        name="blocks",
        place="WLDrivenBlockPlacement",
        phys_opt="AggressiveFanoutOpt",
        route="Explore",
        like="Performance_WLBlockPlacementFanoutOpt",
        reason="short wires to DSP columns and table memories; copies control near its loads",
    ),
    Strategy(
        name="long_nets",
        place="ExtraNetDelay_high",
        phys_opt="AggressiveExplore",
        route="NoTimingRelaxation",
        like="Performance_NetDelay_high",
        reason="a wire takes at least 0.26 ns in the estimate, a table 0.12: cautious placement",
    ),
    Strategy(
        name="remap",
        opt="ExploreWithRemap",
        place="Explore",
        phys_opt="Explore",
        route="NoTimingRelaxation",
        like="Performance_ExploreWithRemap",
        reason="merges lookup tables in series: selector, rounding, sign",
    ),
    Strategy(
        name="margin",
        place="ExtraTimingOpt",
        phys_opt="AggressiveExplore",
        route="NoTimingRelaxation",
        margin_ns=0.2,
        reason="like Performance_ExtraTimingOpt, but placed for a clock period 0.2 ns shorter",
    ),
    Strategy(
        name="retime",
        place="ExtraPostPlacementOpt",
        phys_opt="AlternateFlowWithRetiming",
        route="Explore",
        like="Performance_Retiming",
        reason="moves registers where the placed netlist shows that it pays; late: it changes most",
    ),
    Strategy(
        name="spread",
        synth="AlternateRoutability",
        place="AltSpreadLogic_high",
        phys_opt="AggressiveExplore",
        route="AlternateCLBRouting",
        like="Congestion_SpreadLogic_high",
        reason="if selectors crowd: fewer MUXF and carries, more space; synthesises again",
    ),
)
"""Strategies in the order in which they are tried."""


def strategies_tcl() -> str:
    """Return the strategies as lines of a Tcl list of lists."""
    return "\n".join(f"    {{{strategy.words()}}}" for strategy in STRATEGIES)
