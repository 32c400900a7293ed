"""The run that measures a fabric before others are judged by it: what is sent, and what follows from it."""

from dataclasses import replace
from pathlib import Path

from controller.model.predict import predict
from controller.resolve import resolve_placed
from emu import calibration, records
from emu.calibration import Calibration
from emu.fabrics.fabric import Fabric
from emu.fabrics.paths import access_switch, distances
from emu.plan import Plan, Transport


def fitted(plan: Plan, work: Path) -> Calibration:
    """The best of the undisturbed repeats: what disturbs one flow alone can only slow it."""
    repeats = records.load_repeats(work, plan)
    arrivals = records.load_arrivals(work, plan, len(repeats))
    fits = [calibration.fit(plan, *each) for each in arrivals]
    good = [fit for fit, repeat in zip(fits, repeats, strict=True) if not repeat.disturbed]
    return max(good or fits, key=lambda fit: fit.eta)


def calibration_plan(fabric: Fabric, transport: Transport) -> Plan:
    """Two ranks as far from each other as the fabric allows, to and fro over the same cables.

    Each direction on a path of its own would be two goodputs where cables differ.
    """
    away = distances(fabric, access_switch(fabric, fabric.hosts[0]))
    far = max(fabric.hosts[1:], key=lambda host: away[access_switch(fabric, host)])

    def sized(rate_bps: int) -> Plan:
        return resolve_placed(
            fabric,
            (fabric.hosts[0], far),
            calibration.schedule(rate_bps, transport.gso_max_nbytes),
            algorithm="calibration",
            placement="farthest",
            routes="ecmp",
            seed=0,
            transport=transport,
        )

    there, _ = sized(min(fabric.rates.values())).flows  # ports and paths do not depend on the sizes
    plan = sized(min(fabric.rates[end] for end in there.path))
    _, back = plan.flows
    flows = (there, replace(back, path=tuple(fabric.peers[end] for end in reversed(there.path))))
    return replace(plan, flows=flows, prediction=predict(fabric, plan.placement, flows, plan.schedule))
