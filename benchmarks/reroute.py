"""How fast a plan of 128 ranks is planned again when a cable fails: `python -m benchmarks.reroute`.

Fails, one after the other, a cable between an edge and an aggregation switch, and one between an
aggregation and a core switch; prints the slower of the two, the best of three tries.
"""

import argparse
import time
from collections.abc import Iterator

from controller.loads import audit
from controller.reroute import rerouted
from controller.resolve import resolve
from emu.fabric import Link
from emu.plan import Plan
from emu.spec import parse_fabric
from emu.transport import fabric_transport
from traces.expand import expand
from traces.schedule import Op, Schedule, Send
from traces.workload import made_allreduce

TRIES = 3


def schedules(n_ranks: int, nbytes: int) -> Iterator[tuple[str, Schedule]]:
    yield "halving-doubling", expand(made_allreduce(n_ranks, nbytes), "halving-doubling")
    pairs = [(src, dst) for src in range(n_ranks) for dst in range(n_ranks) if src != dst]
    each = nbytes // n_ranks
    ops = tuple(Op("message", each, tag=i, root=src) for i, (src, _) in enumerate(pairs))
    sends = tuple(Send(i, src, dst, 0, each, reduce=False) for i, (src, dst) in enumerate(pairs))
    yield "alltoall", Schedule(n_ranks, ops, sends, ())


def failing(plan: Plan) -> list[Link]:
    """One cable of each tier between switches."""
    tiers: dict[tuple[str, str], Link] = {}
    for link in plan.fabric.links:
        tiers.setdefault((link.a.rstrip("0123456789"), link.b.rstrip("0123456789")), link)
    return [link for tier, link in tiers.items() if "h" not in tier]


def measured(plan: Plan, link: Link) -> tuple[float, int, float]:
    """Seconds, the flows that got another path, and the busiest link's time over what it was before."""
    least_s = float("inf")
    for _ in range(TRIES):
        start_s = time.perf_counter()
        made = rerouted(plan, frozenset({link}))
        least_s = min(least_s, time.perf_counter() - start_s)
    moved = sum(old.path != new.path for old, new in zip(plan.flows, made.flows, strict=True))
    return least_s, moved, audit(made).barrier_s / audit(plan).barrier_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fabric", default="fat-tree:k=8")
    parser.add_argument("--routes", default="ecmp")
    arguments = parser.parse_args()
    fabric = parse_fabric(arguments.fabric)
    print(f"{'schedule':18}{'cable':16}{'flows':>8}{'moved':>8}{'seconds':>9}{'phases longer by':>18}")
    for name, schedule in schedules(len(fabric.hosts), 1 << 20):
        plan = resolve(
            fabric,
            schedule,
            algorithm=name,
            placement="random",
            routes=arguments.routes,
            seed=0,
            transport=fabric_transport(fabric),
        )
        for link in failing(plan):
            seconds, moved, longer = measured(plan, link)
            cable = f"{link.a}-{link.b}"
            print(
                f"{name:18}{cable:16}{len(plan.flows):8}{moved:8}{seconds:9.3f}{longer - 1:18.1%}", flush=True
            )


if __name__ == "__main__":
    main()
