"""The run that calibrates a fabric before other runs are judged by it: what it sends, and what follows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from gradwire.emu import events, records
from gradwire.planning.fabrics.fabric import Egress, Fabric
from gradwire.planning.fabrics.paths import access_switch, distances
from gradwire.planning.machines.machinesfile import Machines
from gradwire.planning.machines.partition import partition
from gradwire.planning.model import calibration, shifts
from gradwire.planning.model.calibration import MAX_CROWD, N_PAIR, Calibration
from gradwire.planning.model.hostfit import fit_hosts
from gradwire.planning.model.predict import predict
from gradwire.planning.plan import Plan
from gradwire.planning.resolve import resolve_placed
from gradwire.planning.runfiles import read_json
from gradwire.planning.transport import Transport


@dataclass(frozen=True, slots=True)
class _Machine:
    cpus: Annotated[int, Field(ge=1, le=4096)]


_MACHINE = TypeAdapter(_Machine)


def fitted(plan: Plan, work: Path, machines: dict[str, Any] | None = None) -> Calibration:
    """Latency and goodput are the best of the undisturbed repeats: what disturbs one flow alone can only slow
    it.  What hosts cost is fitted to all of these repeats, for its spread counts.  `machines` are those of
    the run's options.
    """
    repeats = records.load_repeats(work, plan)
    of_all = events.load_send_times(work, plan, len(repeats))
    good = [each for each, repeat in zip(of_all, repeats, strict=True) if repeat.counts] or of_all
    fits = [calibration.fit(plan, each.arrived_ns) for each in good]
    best = max(fits, key=lambda fit: fit.eta)
    samples = [calibration.crowd_times_s(plan, each.arrived_ns) for each in good]
    times_s = [[time_s for each in samples for time_s in each[kind]] for kind in range(len(samples[0]))]
    starts_s = [_started_s(plan, each.arrived_ns, each.start_ns) for each in good]
    rested_s = median(calibration.rested_s(plan, each.queued_ns, each.arrived_ns) for each in good)
    wake_s = max(0.0, rested_s - best.latency_s)
    hosts = fit_hosts(plan, times_s, starts_s, best.latency_s, best.eta, _n_cpus(work), wake_s)
    found = [fit.shift for fit in fits if fit.shift is not None]
    crossing = _crossing(plan.fabric, machines)
    tunnels = [shifts.fit_tunnels(plan, each.arrived_ns, N_PAIR, crossing) for each in good]
    return replace(
        best,
        hosts=hosts,
        shift=shifts.middle_shift(found),
        tunnels=shifts.middle_tunnels([each for each in tunnels if each is not None]),
    )


def _crossing(fabric: Fabric, machines: dict[str, Any] | None) -> set[Egress]:
    """The ports whose cables join two of the machines; empty for one machine."""
    if machines is None:
        return set()
    made = partition(fabric, Machines.model_validate(machines).machines)
    return {
        end for link in made.crossing for end in (Egress(link.a, link.a_port), Egress(link.b, link.b_port))
    }


def _n_cpus(work: Path) -> int:
    """The processors of the machine that carried the run out."""
    return read_json(work / "manifest.json", _MACHINE).cpus


def _started_s(plan: Plan, arrived_ns: Sequence[int], start_ns: int) -> float:
    """From the common start until each rank of the crowd has the first send in."""
    sends = zip(plan.schedule.sends, arrived_ns, strict=True)
    return (calibration.first_step([(send.step, at) for send, at in sends if send.op == 0]) - start_ns) / 1e9


def calibration_plan(fabric: Fabric, transport: Transport) -> Plan:
    """A crowd spread over the hosts, and two ranks as far from each other as the fabric allows.

    These send to and fro over the same cables: each direction on a path of its own would be two goodputs
    where cables differ.
    """
    away = distances(fabric, access_switch(fabric, fabric.hosts[0]))
    far = max(fabric.hosts[1:], key=lambda host: away[access_switch(fabric, host)])
    n_crowd = min(MAX_CROWD, len(fabric.hosts))
    hosts = [fabric.hosts[i * len(fabric.hosts) // n_crowd] for i in range(n_crowd)]
    if far not in hosts:
        hosts.append(far)
    rank = hosts.index(far)

    def sized(rate_bps: int) -> Plan:
        return resolve_placed(
            fabric,
            tuple(hosts),
            calibration.schedule(rate_bps, transport.gso_max_nbytes, rank, n_crowd),
            algorithm="calibration",
            placement="farthest",
            routes="ecmp",
            seed=0,
            transport=transport,
        )

    def there_of(plan: Plan) -> int:
        return next(i for i, flow in enumerate(plan.flows) if (flow.src, flow.dst) == (0, rank))

    plan = sized(min(fabric.rates.values()))  # ports and paths do not depend on the sizes
    there = plan.flows[there_of(plan)]
    plan = sized(min(fabric.rates[end] for end in there.path))
    path = tuple(fabric.peers[end] for end in reversed(there.path))
    flows = tuple(
        replace(flow, path=path) if (flow.src, flow.dst) == (rank, 0) else flow for flow in plan.flows
    )
    return replace(plan, flows=flows, prediction=predict(fabric, plan.placement, flows, plan.schedule))
