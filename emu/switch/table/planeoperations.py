"""Operations that bring a switch's table to its data plane, step by step.  Values only."""

from dataclasses import dataclass, field
from typing import NamedTuple

from gradwire.planning.openflow.entries import Action, Aggregate, Forward, SwitchGroup
from gradwire.planning.openflow.match import Match


class SetRule(NamedTuple):
    """`pool`: whose slots the action adds to, None if it is none that adds up."""

    match: Match
    priority: int
    actions: tuple[Action, ...]
    flow: int
    cookie: int = 0
    pool: int | None = None


class SetRules(NamedTuple):
    """Rules whose matches have the same form, and no rule had them before; none of them adds up."""

    rules: tuple[SetRule, ...]


class RemoveRule(NamedTuple):
    match: Match


class ClearCounters(NamedTuple):
    flow: int


@dataclass(frozen=True, slots=True)
class SetGroup:
    """`weighted` has each bucket's number as often as its weight says.

    A select group takes the bucket at `flow_hash % len(weighted)`.
    """

    group: int
    value: SwitchGroup
    counter: int
    weighted: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ClearGroupCounters:
    """The buckets' counters, and the group's own unless `keeps_whole`."""

    counter: int
    keeps_whole: bool


@dataclass(frozen=True, slots=True)
class RemoveGroup:
    group: int


class SetPool(NamedTuple):
    """Empty slots for a job, as any of its rules describes it; `pool` is its number in the fabric."""

    pool: int
    rule: Aggregate


class RemovePool(NamedTuple):
    pool: int


@dataclass(frozen=True, slots=True)
class EnablePort:
    """Bring a port's interface up or take it down."""

    port: int
    is_enabled: bool


@dataclass(frozen=True, slots=True)
class SendPacket:
    """A controller's packet; `in_port` is where it is said to have come in, a port or none of them."""

    in_port: int
    action: Forward
    frame: bytes = field(repr=False)


Operation = (
    SetRule
    | SetRules
    | RemoveRule
    | ClearCounters
    | SetGroup
    | ClearGroupCounters
    | RemoveGroup
    | SetPool
    | RemovePool
    | EnablePort
    | SendPacket
)
