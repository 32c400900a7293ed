"""Rules (OpenFlow's flow entries) and groups, and what controllers can read about them.  Values only."""

from dataclasses import dataclass, field
from enum import IntEnum
from math import gcd
from typing import NamedTuple

from gradwire.planning.openflow.match import Match

WRITE_ACTIONS, APPLY_ACTIONS = 3, 4  # OFPIT_WRITE_ACTIONS, OFPIT_APPLY_ACTIONS
MAX_ENTRIES = 65_536  # rules of one switch
MAX_FLOWS = 262_144  # rules of all switches together: the sizes of layout.h
MAX_GROUPS = 16_384  # groups of all switches together
MAX_BUCKETS = 64  # of a group, its hash slots, and the outputs of an action list: switch.c's arrays
NO_COOKIE = 2**64 - 1  # OpenFlow's for a packet that no rule sent


class Reserved(IntEnum):
    """OpenFlow's port numbers that are not ports, those that the switch can send to."""

    IN_PORT = 0xFFFFFFF8
    TABLE = 0xFFFFFFF9
    FLOOD = 0xFFFFFFFB
    ALL = 0xFFFFFFFC
    CONTROLLER = 0xFFFFFFFD


class GroupKind(IntEnum):
    """OFPGT_..., numbered as in layout.h."""

    ALL = 0
    SELECT = 1
    INDIRECT = 2
    FAILOVER = 3


class Gone(IntEnum):
    """Why a rule ended: OFPRR_..."""

    IDLE = 0
    HARD = 1
    DELETED = 2
    GROUP_DELETED = 3


class Why(IntEnum):
    """Why a controller gets a packet: OFPR_..."""

    NO_MATCH = 0
    ACTION = 1


class Output(NamedTuple):
    """`port` is a port of the switch or Reserved; `max_nbytes` is only kept, to be reported to controllers.

    The switch has no packet buffers, so OpenFlow has it send whole packets to controllers.
    """

    port: int
    max_nbytes: int = 0xFFFF


class ToGroup(NamedTuple):
    """Send a packet to the group of this number."""

    group: int


FROM_PARENT = 0xFF  # in place of a child's index: these packets come from the parent


class Aggregate(NamedTuple):
    """Add up what a tree's children send (planning.openflow.pool says how): the rule of one child.

    `job` is the tree's number.  The rules of all children of a tree at one switch, and that of the parent's
    port, say the same but for `child`: `ports` lead to the children in the order of their indices, bit i of
    `gives` and `takes` is child i's: it contributes elements, it gets the sum's.  `parent_port` None: this
    switch is the root.
    """

    job: int
    epoch: int
    child: int
    slots: int
    elements: int
    parent_port: int | None
    ports: tuple[int, ...]
    gives: int
    takes: int


Forward = Output | ToGroup
Action = Forward | Aggregate


class Actions(NamedTuple):
    """What a rule does: an instruction with its actions as they were given; none is a drop."""

    given: tuple[Action, ...] = ()
    instruction: int = APPLY_ACTIONS

    def effective(self) -> tuple[Action, ...]:
        """A list to apply is carried out in order; of a set to write only the last output is left."""
        return action_set(self.given) if self.instruction == WRITE_ACTIONS else self.given


def action_set(given: tuple[Action, ...]) -> tuple[Action, ...]:
    """What of an action set is carried out: a group before an output, the last one of each type."""
    groups = tuple(action for action in given if isinstance(action, ToGroup))
    return groups[-1:] or given[-1:]


class Entry(NamedTuple):
    """One rule in the table; `flow` is the number of its counters, unique in the fabric."""

    match: Match
    priority: int
    actions: Actions
    cookie: int
    flags: int
    flow: int
    since_ns: int
    idle_s: int = 0
    hard_s: int = 0


@dataclass(frozen=True, slots=True)
class GroupBucket:
    """`outputs` as they were given; a bucket is an action set, so the last one counts."""

    outputs: tuple[Output, ...]
    weight: int = 0
    watch_port: int | None = None

    def target(self) -> int | None:
        return self.outputs[-1].port if self.outputs else None


@dataclass(frozen=True, slots=True)
class SwitchGroup:
    """A group as a controller made it; `kind` is one of GroupKind."""

    kind: int
    buckets: tuple[GroupBucket, ...]


@dataclass(frozen=True, slots=True)
class GroupEntry:
    """A group in the table; `counter` is the number of its counters, unique in the fabric."""

    group: SwitchGroup
    counter: int
    since_ns: int


@dataclass(frozen=True, slots=True)
class FlowGone:
    """A rule has ended, and controllers asked to hear of that."""

    entry: Entry
    reason: Gone


@dataclass(frozen=True, slots=True)
class PacketIn:
    """A packet for the controllers."""

    in_port: int
    reason: Why
    cookie: int
    nbytes: int  # of the frame; more than there is of it here only if no message could hold it
    frame: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class PortChanged:
    """A port has gone up or down."""

    port: int


Event = FlowGone | PacketIn | PortChanged


def slots(group: SwitchGroup) -> tuple[int, ...]:
    """A select group's hash slots: the numbers of its buckets in order, each as often as its weight says.

    Weights 100, 100, 200 make slots 0, 1, 2, 2; a flow's hash modulo their number chooses one.  Raise
    ValueError if that is more than the data plane holds.
    """
    if group.kind != GroupKind.SELECT:
        return ()
    weights = [1] if len(group.buckets) == 1 else [bucket.weight for bucket in group.buckets]
    unit = gcd(*weights) or 1
    counts = [weight // unit for weight in weights]
    if sum(counts) > MAX_BUCKETS:
        raise ValueError(f"weights {weights} need {sum(counts)} slots, and a group has {MAX_BUCKETS}")
    return tuple(number for number, count in enumerate(counts) for _ in range(count))
