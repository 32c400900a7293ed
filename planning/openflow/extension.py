"""gradwire's extension of OpenFlow 1.3, to bytes and back: docs/openflow-aggregation.md.

Needs neither os-ken nor Ryu: the controller's side builds its messages with either.
"""

import struct
from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from gradwire.planning.openflow.entries import FROM_PARENT, Aggregate
from gradwire.planning.openflow.pool import EVENTS, Event
from gradwire.planning.trees.tree import ELEMENTS, MAX_CHILDREN

EXPERIMENTER = 0x00024757  # `GW` behind 02, with which no vendor's OUI begins
AGGREGATE_SUBTYPE = 1  # of the action
COUNTS_TYPE = 1  # of the multipart request, its exp_type
JOB_COUNTS = struct.Struct(f"!4H{len(EVENTS)}Q")
_EXPERIMENTER_ACTION = 0xFFFF  # OFPAT_EXPERIMENTER
_ROOT = 0xFFFFFFFF  # OFPP_ANY, as the parent's port
_HEAD = struct.Struct("!HHI")
_SUBTYPE = struct.Struct("!H")
_BODY = struct.Struct("!HHBBHHIQQ")
_PORT_NBYTES = 4
_PORTS_AT = _HEAD.size + _SUBTYPE.size + _BODY.size


class Wrong(IntEnum):
    """OFPBAC_...: what is wrong with an action."""

    BAD_LEN = 1
    BAD_EXPERIMENTER = 2
    BAD_EXP_TYPE = 3
    BAD_ARGUMENT = 5


class ActionError(ValueError):
    """These bytes are not an aggregate action."""

    def __init__(self, wrong: Wrong) -> None:
        super().__init__(f"not an aggregate action: {wrong.name}")
        self.wrong = wrong


class JobCounts(NamedTuple):
    """What a switch has counted for a tree since the tree got its aggregation slots there; `job` is the
    tree's number.
    """

    job: int
    epoch: int
    slots: int
    n_children: int
    counts: Mapping[Event, int]


def action(rule: Aggregate) -> bytes:
    """The whole action, from its type on.  Raise struct.error for a number that has no room."""
    n = len(rule.ports)
    parent_port = _ROOT if rule.parent_port is None else rule.parent_port
    body = _BODY.pack(
        rule.job,
        rule.epoch,
        rule.child,
        n,
        rule.slots,
        rule.elements,
        parent_port,
        rule.gives,
        rule.takes,
    )
    head = _HEAD.pack(_EXPERIMENTER_ACTION, _length(n), EXPERIMENTER) + _SUBTYPE.pack(AGGREGATE_SUBTYPE)
    return (head + body + struct.pack(f"!{n}I", *rule.ports)).ljust(_length(n), b"\0")


def read_action(octets: bytes) -> Aggregate:
    """An experimenter action, whole and no more.  Raise ActionError."""
    if len(octets) < _HEAD.size or _HEAD.unpack_from(octets)[:2] != (_EXPERIMENTER_ACTION, len(octets)):
        raise ActionError(Wrong.BAD_LEN)
    if _HEAD.unpack_from(octets)[2] != EXPERIMENTER:
        raise ActionError(Wrong.BAD_EXPERIMENTER)
    if len(octets) < _HEAD.size + _SUBTYPE.size:
        raise ActionError(Wrong.BAD_LEN)
    if _SUBTYPE.unpack_from(octets, _HEAD.size) != (AGGREGATE_SUBTYPE,):
        raise ActionError(Wrong.BAD_EXP_TYPE)
    if len(octets) < _PORTS_AT:
        raise ActionError(Wrong.BAD_LEN)
    body = _BODY.unpack_from(octets, _HEAD.size + _SUBTYPE.size)
    job, epoch, child, n, slots, elements, parent_port, gives, takes = body
    if not 1 <= n <= MAX_CHILDREN:
        raise ActionError(Wrong.BAD_ARGUMENT)
    if len(octets) != _length(n):
        raise ActionError(Wrong.BAD_LEN)
    ports = struct.unpack_from(f"!{n}I", octets, _PORTS_AT)
    parent = None if parent_port == _ROOT else parent_port
    rule = Aggregate(job, epoch, child, slots, elements, parent, ports, gives, takes)
    if not _makes_sense(rule):
        raise ActionError(Wrong.BAD_ARGUMENT)
    return rule


def job_counts(job: JobCounts) -> bytes:
    """A job's struct in the multipart reply."""
    counts = (job.counts[event] for event in EVENTS)
    return JOB_COUNTS.pack(job.job, job.epoch, job.slots, job.n_children, *counts)


def read_job_counts(data: bytes) -> list[JobCounts]:
    """The structs of one message of the reply; `data` is what follows exp_type.

    Raise ValueError for what is not a number of whole structs.
    """
    if len(data) % JOB_COUNTS.size:
        raise ValueError(
            f"{len(data)} bytes of job counters are not a multiple of a job's {JOB_COUNTS.size} bytes"
        )
    return [
        JobCounts(job, epoch, slots, n_children, dict(zip(EVENTS, counts, strict=True)))
        for job, epoch, slots, n_children, *counts in JOB_COUNTS.iter_unpack(data)
    ]


def _length(n_children: int) -> int:
    return (_PORTS_AT + n_children * _PORT_NBYTES + 7) // 8 * 8


def _makes_sense(rule: Aggregate) -> bool:
    """Of itself; what the switch has is another question."""
    n = len(rule.ports)
    is_above = rule.child == FROM_PARENT and rule.parent_port is not None
    return (
        (rule.child < n or is_above)
        and rule.slots > 0
        and 1 <= rule.elements <= max(ELEMENTS)
        and not (rule.gives | rule.takes) >> n
        and len({*rule.ports, rule.parent_port}) == n + 1
    )
