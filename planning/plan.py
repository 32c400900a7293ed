"""A plan: everything that happens in a run, decided and written down in advance.

`planning.resolve` makes one; the network, the controller, the agents and the result only read it.
File form: `plan.json` (schema `gradwire.plan/3`): the fabric by its spec (one from a file: in full), the
sends as columns, everything else in full.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from gradwire.planning.fabrics.fabric import Egress, Fabric
from gradwire.planning.fabrics.spec import fabric_from_json, fabric_to_json
from gradwire.planning.failures import Failure
from gradwire.planning.losses import Loss
from gradwire.planning.plancheck import check
from gradwire.planning.transport import Transport
from gradwire.planning.trees.tree import SWITCH_SLOTS, Tree
from gradwire.traces.complaints import complaint, other_version
from gradwire.traces.files import read_at_most, write_whole
from gradwire.traces.schedules.names import Pace
from gradwire.traces.schedules.schedule import Schedule
from gradwire.traces.schedules.sends import Sends

SCHEMA = "gradwire.plan/3"
MAX_FILE_NBYTES = 512 << 20
ADAPTIVE = "adaptive"  # routes on which the controller moves flows during the run


class BadPlan(Exception):
    """A plan file that cannot be used; the text says where and why."""


@dataclass(frozen=True, slots=True)
class Flow:
    """One direction of one TCP connection between two ranks.

    `path` are the ports it leaves through, the source host's own first; the last is the switch port
    at the destination.  The rank with the higher number opens the connection (as gloo does).
    """

    src: int
    dst: int
    src_ip: str
    dst_ip: str
    sport: int
    dport: int
    path: tuple[Egress, ...] = ()


@dataclass(frozen=True, slots=True)
class Prediction:
    """Times in seconds with nominal rate and alpha 0: see `planning.model.predict`.

    `bound_s` is the least any fabric with these host links could take; `fluid_s` is the fluid model
    over the plan's own paths.  `iteration_s` is the median iteration in it from start to start, `exposed_s`
    what of that no computing hides; None if there is none (traces.schedules.periods).  `jobs_s` is the time
    of each job in that model, in the order of `Schedule.jobs`; empty if there is only one.
    """

    bound_s: float
    fluid_s: float
    iteration_s: float | None = None
    exposed_s: float | None = None
    jobs_s: tuple[float, ...] = ()


@dataclass(frozen=True)
class Plan:
    """`placement[r]` is the host of rank r.  `flows` hold both directions of every connection.

    `failures` are the cables that fail in every repeat, `losses` those that lose packets.  `trees[i]` is that
    of the schedule's i-th reduce group (`Schedule.groups`); each switch grants `switch_slots` to all its
    trees.  `host_side` says, for each job that was to be aggregated and is not, why its hosts do it.
    `doubts` say why the workload may not be what the job did: a run of it is not valid.  `assumptions` say
    what was taken for granted where another job than the captured one was asked for.  `keys` are the
    elements of each tensor in a buffer, if they were named.  `pace` is the one that was asked for;
    None: as the algorithm does by itself.
    """

    fabric: Fabric
    algorithm: str
    placement_name: str
    placement: tuple[str, ...]
    routes: str
    seed: int
    schedule: Schedule
    flows: tuple[Flow, ...]
    transport: Transport
    prediction: Prediction
    source: str = ""
    failures: tuple[Failure, ...] = ()
    trees: tuple[Tree, ...] = ()
    switch_slots: int = SWITCH_SLOTS
    host_side: tuple[str, ...] = ()
    losses: tuple[Loss, ...] = ()
    doubts: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    keys: tuple[int, ...] = ()
    pace: Pace | None = None

    @property
    def n_ranks(self) -> int:
        return self.schedule.n_ranks

    @property
    def flows_may_move(self) -> bool:
        """Whether flows can leave their paths: then what is computed from these holds only as planned."""
        return bool(self.failures) or self.routes == ADAPTIVE


def flow_numbers(flows: Iterable[Flow]) -> dict[tuple[int, int], int]:
    """The position of the flow of each pair of ranks (source, destination)."""
    return {(flow.src, flow.dst): number for number, flow in enumerate(flows)}


def to_json(plan: Plan) -> dict[str, Any]:
    """What `plan.json` holds (docs/schemas.md)."""
    return {
        "schema": SCHEMA,
        "fabric": fabric_to_json(plan.fabric),
        **{
            name: getattr(plan, name)
            for name in (
                "algorithm",
                "placement_name",
                "placement",
                "routes",
                "seed",
                "source",
                "switch_slots",
                "host_side",
                "doubts",
                "assumptions",
                "keys",
                "pace",
            )
        },
        "transport": asdict(plan.transport),
        "prediction": asdict(plan.prediction),
        "schedule": _schedule_to_json(plan.schedule),
        "flows": [asdict(flow) for flow in plan.flows],
        "failures": [asdict(failure) for failure in plan.failures],
        "trees": [asdict(tree) for tree in plan.trees],
        "losses": [asdict(loss) for loss in plan.losses],
    }


def _schedule_to_json(schedule: Schedule) -> dict[str, Any]:
    rest = asdict(replace(schedule, sends=Sends.of(())))
    return rest | {"sends": schedule.sends.to_json()}


def save(plan: Plan, path: Path) -> None:
    """Write the plan's file whole or not at all.  Raise OSError."""
    write_whole(path, json.dumps(to_json(plan)) + "\n")


def load(path: Path) -> Plan:
    """The plan in a file.  Raise BadPlan if it is not a plan or cannot be carried out, or OSError."""
    octets = read_at_most(path, MAX_FILE_NBYTES)
    if len(octets) > MAX_FILE_NBYTES:
        raise BadPlan(f"{path}: not a plan: it is larger than {MAX_FILE_NBYTES >> 20} MiB")
    try:
        value = json.loads(octets)
        if not isinstance(value, dict):
            raise ValueError("it is not an object")
        if (schema := value.pop("schema", None)) != SCHEMA:
            again = "make it again with `gradwire plan -o`"
            raise ValueError(other_version(schema, SCHEMA, again) or f"its schema is not {SCHEMA}; {again}")
        value["fabric"] = fabric_from_json(value["fabric"])
        plan = TypeAdapter(Plan).validate_python(value)
        check(plan)
    except ValidationError as error:
        raise BadPlan(f"{path}: not a plan: {complaint(error)}") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        place = (
            f": line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        )
        raise BadPlan(f"{path}: not a plan: it is not valid JSON{place}") from error
    except KeyError as error:
        raise BadPlan(f"{path}: not a plan: {error.args[0]} is missing") from error
    except (ValueError, RecursionError) as error:
        raise BadPlan(f"{path}: not a plan: {str(error).splitlines()[0]}") from error
    return plan
