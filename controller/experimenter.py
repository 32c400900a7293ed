"""Our own OpenFlow messages (docs/openflow-aggregation.md), in the controller library's terms."""

import struct
from collections.abc import Iterable
from typing import Any

from gradwire.controller.ryu_api import ofp, parser
from gradwire.planning.openflow import extension
from gradwire.planning.openflow.entries import Aggregate
from gradwire.planning.openflow.extension import (
    COUNTS_TYPE,
    EXPERIMENTER,
    ActionError,
    JobCounts,
    read_job_counts,
)

_ACTION_HEAD = struct.Struct(ofp.OFP_ACTION_EXPERIMENTER_HEADER_PACK_STR)
_PART_HEAD = struct.Struct(ofp.OFP_EXPERIMENTER_MULTIPART_HEADER_PACK_STR)


class ExperimenterPart:
    """The body of one message of an experimenter's multipart reply.

    The library's own takes every 16 bytes of it for another part.
    """

    def __init__(self, octets: bytes) -> None:
        """Raise struct.error if it is too short to say whose it is."""
        self.experimenter, self.exp_type = _PART_HEAD.unpack_from(octets)
        self.data = octets[_PART_HEAD.size :]
        self.length = len(octets)

    @classmethod
    def parser(cls, buffer: bytes, offset: int) -> "ExperimenterPart":
        return cls(bytes(buffer[offset:]))


def use_whole_parts() -> None:
    """Let the library make one `ExperimenterPart` of each message, in a list as of other replies."""
    parser.OFPExperimenterStatsReply.cls_stats_body_cls = ExperimenterPart
    parser.OFPExperimenterStatsReply.cls_body_single_struct = False


def action(rule: Aggregate) -> Any:
    """The action that adds up what matches, as the library's object."""
    return parser.OFPActionExperimenterUnknown(EXPERIMENTER, extension.action(rule)[_ACTION_HEAD.size :])


def aggregate_of(given: Any) -> Aggregate | None:
    """What an action of a rule adds up; None if it is another action."""
    if not isinstance(given, parser.OFPActionExperimenterUnknown):
        return None
    head = _ACTION_HEAD.pack(given.type, _ACTION_HEAD.size + len(given.data), given.experimenter)
    try:
        return extension.read_action(head + bytes(given.data))
    except ActionError:
        return None


def counts_request(datapath: Any) -> Any:
    """Asks a switch what its jobs have counted."""
    return parser.OFPExperimenterStatsRequest(datapath, 0, EXPERIMENTER, COUNTS_TYPE, b"")


def job_counts(switch: str, parts: Iterable[ExperimenterPart]) -> list[JobCounts]:
    """What the switch answered to `counts_request`.  Raise ValueError for what is not such an answer."""
    counts: list[JobCounts] = []
    for part in parts:
        if (part.experimenter, part.exp_type) != (EXPERIMENTER, COUNTS_TYPE):
            raise ValueError(f"{switch} answered the request for its jobs' counters with something else")
        try:
            counts += read_job_counts(part.data)
        except ValueError as error:
            raise ValueError(f"{switch}: {error}") from error
    return counts


def summed(counted: Iterable[JobCounts]) -> list[JobCounts]:
    """One for each job: what it has counted in all its epochs, otherwise as in the last one."""
    of_job: dict[int, JobCounts] = {}
    for new in sorted(counted, key=lambda each: each.epoch):
        old = of_job.get(new.job)
        before = old.counts if old else {}
        of_job[new.job] = new._replace(counts={e: n + before.get(e, 0) for e, n in new.counts.items()})
    return list(of_job.values())
