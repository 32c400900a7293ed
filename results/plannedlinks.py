"""What a plan puts on each link, in the columns that frames and JSON share."""

from dataclasses import dataclass

from gradwire.planning.fabrics.fabric import Fabric, link_name
from gradwire.planning.model.loads import LinkLoad


@dataclass(frozen=True, slots=True)
class PlannedLink:
    """One direction of a cable in a plan; its fields are columns (docs/schemas.md, "plan --json: links").

    `rate_bps` is the link's nominal rate, `payload_nbytes` all that it carries, `busy_s` how long that takes
    at its rate, in full frames.  `flows` use it in all, trees among them, and up to `flows_together` of them
    in one phase.  `excess_s` is how much longer than the busiest host link it is busy, summed over phases.
    """

    link: str
    rate_bps: int
    payload_nbytes: int
    flows: int
    flows_together: int
    busy_s: float
    excess_s: float


def planned_link(fabric: Fabric, load: LinkLoad) -> PlannedLink:
    """The columns of a link of the fabric that carries `load`."""
    return PlannedLink(
        link=link_name(fabric, load.egress),
        rate_bps=load.rate_bps,
        payload_nbytes=load.nbytes,
        flows=load.n_flows,
        flows_together=load.together,
        busy_s=load.busy_s,
        excess_s=load.excess_s,
    )
