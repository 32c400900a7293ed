"""How fast the controller leads a plan of 128 ranks around a failed cable: `python -m benchmarks.reroute`.

Fails, one after the other, a cable between an edge and an aggregation switch, and one between an
aggregation and a core switch; the best of three tries each.  `all` is from the PORT_STATUS, which tells of
one end of the cable, to the last byte that the switches are sent; `paths` is the search for paths alone.
The switches are connections that take what they are sent and do nothing with it.
"""

import argparse
import gc
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gradwire.controller import openflow
from gradwire.controller.controllog import ControlLog
from gradwire.controller.intent import Intent, plan_intent
from gradwire.controller.ryu_api import ofp, parser
from gradwire.controller.steering import Steering
from gradwire.controller.switch import KnownSwitch
from gradwire.planning.fabrics.fabric import Link
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.model.loads import plan_load
from gradwire.planning.plan import Plan
from gradwire.planning.resolve import resolve
from gradwire.planning.routing.reroute import rerouted
from gradwire.planning.transport import fabric_transport
from gradwire.traces.making.collectives import made_allreduce
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.schedule import Op, Schedule
from gradwire.traces.schedules.sends import Send

TRIES = 3


class Sink:
    """The part of os-ken's datapath that a `KnownSwitch` sends to; counts the FLOW_MODs."""

    ofproto, ofproto_parser = ofp, parser

    def __init__(self) -> None:
        self.n_rules = 0

    def set_xid(self, message: Any) -> int:
        message.set_xid(1)
        return 1

    def send_msg(self, message: Any) -> None:
        pass

    def send(self, octets: bytes) -> None:
        at = 0
        while at < len(octets):
            self.n_rules += octets[at + 1] == ofp.OFPT_FLOW_MOD
            at += int.from_bytes(octets[at + 2 : at + 4], "big")


@dataclass(frozen=True, slots=True)
class Answer:
    """`longer` is the time of all phases over what it was before."""

    moved: int
    rules: int
    paths_s: float
    all_s: float
    longer: float


def schedules(n_ranks: int, nbytes: int) -> Iterator[tuple[str, Schedule]]:
    yield "halving-doubling", expand(made_allreduce(n_ranks, nbytes), "halving-doubling")
    pairs = [(src, dst) for src in range(n_ranks) for dst in range(n_ranks) if src != dst]
    each = nbytes // n_ranks
    ops = tuple(Op("message", each, tag=i, root=src) for i, (src, _) in enumerate(pairs))
    sends = tuple(Send(i, src, dst, 0, each, reduce=False) for i, (src, dst) in enumerate(pairs))
    yield "alltoall", Schedule.of(n_ranks, ops, sends, ())


def failing(plan: Plan) -> list[Link]:
    """One cable of each tier between switches."""
    tiers: dict[tuple[str, str], Link] = {}
    for link in plan.fabric.links:
        tiers.setdefault((link.a.rstrip("0123456789"), link.b.rstrip("0123456789")), link)
    return [link for tier, link in tiers.items() if "h" not in tier]


def measured(intent: Intent, plan: Plan, link: Link) -> Answer:
    paths_s = all_s = float("inf")
    for _ in range(TRIES):
        start_s = time.perf_counter()
        new_plan = rerouted(plan, frozenset({link}))
        paths_s = min(paths_s, time.perf_counter() - start_s)
        seconds, n_rules = _answered(intent, link)
        all_s = min(all_s, seconds)
    moved = sum(old.path != new.path for old, new in zip(plan.flows, new_plan.flows, strict=True))
    return Answer(moved, n_rules, paths_s, all_s, plan_load(new_plan).barrier_s / plan_load(plan).barrier_s)


def _answered(intent: Intent, link: Link) -> tuple[float, int]:
    """Seconds, and the FLOW_MODs that were sent."""
    switches = {name: KnownSwitch(name, print) for name in intent.fabric.switches}
    sinks = {name: Sink() for name in switches}
    for name, switch in switches.items():
        switch.come(sinks[name], openflow.table(intent.rules[name]))
    steering = Steering(intent, switches, ControlLog(None), reroutes=True)
    n_before = sum(sink.n_rules for sink in sinks.values())
    down = parser.OFPPort(link.a_port, "", b"", 0, ofp.OFPPS_LINK_DOWN, 0, 0, 0, 0, 0, 0)
    start_s = time.perf_counter()
    steering.look_at(switches[link.a], down)
    steering.react()
    return time.perf_counter() - start_s, sum(sink.n_rules for sink in sinks.values()) - n_before


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--fabric", default="fat-tree:k=8")
    arguments.add_argument("--routes", default="ecmp")
    options = arguments.parse_args()
    fabric = parse_fabric(options.fabric)
    print(
        f"{'schedule':18}{'cable':13}{'flows':>7}{'moved':>7}{'rules':>7}{'paths':>9}{'all':>9}{'longer':>8}"
    )
    for name, schedule in schedules(len(fabric.hosts), 1 << 20):
        plan = resolve(
            fabric,
            schedule,
            algorithm=name,
            placement="random",
            routes=options.routes,
            seed=0,
            transport=fabric_transport(fabric),
        )
        intent = plan_intent(plan)
        gc.freeze()  # as the controller does
        for link in failing(plan):
            one = measured(intent, plan, link)
            print(
                f"{name:18}{f'{link.a}-{link.b}':13}{len(plan.flows):7}{one.moved:7}{one.rules:7}"
                f"{one.paths_s:7.3f} s{one.all_s:7.3f} s{one.longer - 1:8.1%}",
                flush=True,
            )


if __name__ == "__main__":
    main()
