"""How long planning takes for 128 hosts: `.venv/bin/python -m benchmarks.planning [SPEC] [--seed 0]`.

For each schedule, on hosts drawn at random: the seconds of the policy alone, of the whole plan (ports, paths,
checks, fluid model) and of the audit; what the worst phases take over what no routing could beat; and the
seconds that it takes to lead the flows of one failed cable round it.
"""

import argparse
from collections.abc import Sequence
from time import perf_counter

from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.model.loads import plan_load
from gradwire.planning.placement import place
from gradwire.planning.plan import Plan
from gradwire.planning.resolve import flows_of, resolve
from gradwire.planning.routing.planned import reassigned
from gradwire.planning.routing.policies import policy
from gradwire.planning.routing.reroute import without
from gradwire.planning.transport import fabric_transport
from gradwire.traces.making.collectives import made_allreduce, made_collective
from gradwire.traces.schedules.expand import expand
from gradwire.traces.schedules.names import PAIRWISE
from gradwire.traces.schedules.schedule import Schedule

NBYTES = 16 << 20
POLICIES = ("planned", "ecmp")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("fabric", nargs="?", default="fat-tree:k=8")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    fabric = parse_fabric(given.fabric)
    n_ranks = len(fabric.hosts)
    workload = made_allreduce(n_ranks, NBYTES)
    schedules = {name: expand(workload, name) for name in ("halving-doubling", "ring")}
    schedules["alltoall"] = expand(made_collective("alltoall", n_ranks, NBYTES), PAIRWISE)
    print("schedule          routes    flows  policy s  plan s  audit s  over bound  reroute s")
    for name, schedule in schedules.items():
        for routes in POLICIES:
            print(f"{name:16}  {routes:8} {_figures(fabric, schedule, routes, given.seed)}", flush=True)


def _figures(fabric: Fabric, schedule: Schedule, routes: str, seed: int) -> str:
    hosts = place("random", fabric, schedule.n_ranks, seed)
    flows = list(flows_of(fabric, hosts, schedule, seed))
    begin = perf_counter()
    policy(routes)(fabric, hosts, flows, schedule, seed)
    routed = perf_counter()
    plan = resolve(
        fabric,
        schedule,
        algorithm="made",
        placement="random",
        routes=routes,
        seed=seed,
        transport=fabric_transport(fabric),
    )
    planned = perf_counter()
    loads = plan_load(plan)
    audited = perf_counter()
    _reroute(plan)
    return (
        f"{len(flows):6}  {routed - begin:8.2f}  {planned - routed:6.2f}  {audited - planned:7.2f}"
        f"  {loads.barrier_s / loads.barrier_bound_s:10.3f}  {perf_counter() - audited:9.2f}"
    )


def _reroute(plan: Plan) -> None:
    """Lead all flows round the last cable of the fabric, which joins two switches."""
    cable = plan.fabric.links[-1]
    left = without(plan.fabric, [cable])
    dead = plan.fabric.peers.keys() - left.peers.keys()
    affected = [number for number, flow in enumerate(plan.flows) if not dead.isdisjoint(flow.path)]
    reassigned(left, plan.placement, plan.flows, plan.schedule, affected)


if __name__ == "__main__":
    main()
