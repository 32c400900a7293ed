"""Flow entries, groups, and the operations that bring them to the data plane.  Values only."""

from dataclasses import dataclass
from enum import IntEnum
from math import gcd

from emu.switch.match import Match

APPLY_ACTIONS = 4  # OFPIT_APPLY_ACTIONS; with one table WRITE_ACTIONS (3) does the same
MAX_GROUP_SLOTS = 64


class ActionKind(IntEnum):
    """Numbered as in switch.c."""

    DROP = 0
    OUTPUT = 1
    GROUP = 2


@dataclass(frozen=True, slots=True)
class Action:
    """`argument` is a port of the switch, or a group's number."""

    kind: ActionKind = ActionKind.DROP
    argument: int = 0
    instruction: int = APPLY_ACTIONS


@dataclass(frozen=True, slots=True)
class Entry:
    """One flow entry; `flow` is the number of its counters, unique in the fabric."""

    match: Match
    priority: int
    action: Action
    cookie: int
    flags: int
    flow: int
    since_ns: int


@dataclass(frozen=True, slots=True)
class GroupBucket:
    port: int
    weight: int


@dataclass(frozen=True, slots=True)
class Group:
    kind: int  # OFPGT_SELECT or OFPGT_INDIRECT
    buckets: tuple[GroupBucket, ...]


@dataclass(frozen=True, slots=True)
class SetRule:
    match: Match
    priority: int
    action: Action
    flow: int


@dataclass(frozen=True, slots=True)
class RemoveRule:
    match: Match


@dataclass(frozen=True, slots=True)
class ClearCounters:
    flow: int


@dataclass(frozen=True, slots=True)
class SetGroup:
    """`ports[flow_hash % len(ports)]` is where a packet leaves."""

    group: int
    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RemoveGroup:
    group: int


Operation = SetRule | RemoveRule | ClearCounters | SetGroup | RemoveGroup


def slots(group: Group) -> tuple[int, ...]:
    """The ports of a group's buckets in order, each as often as its weight says.

    Weights 100, 100, 200 make slots 1, 1, 2.  Raise ValueError if that is more than the data plane
    holds.
    """
    weights = [1] if len(group.buckets) == 1 else [bucket.weight for bucket in group.buckets]
    unit = gcd(*weights) or 1
    counts = [weight // unit for weight in weights]
    if sum(counts) > MAX_GROUP_SLOTS:
        raise ValueError(f"weights {weights} need {sum(counts)} slots, there are {MAX_GROUP_SLOTS}")
    ports: list[int] = []
    for bucket, count in zip(group.buckets, counts, strict=True):
        ports += [bucket.port] * count
    return tuple(ports)
