"""What our switch counts of groups and Open vSwitch does not; both are right about all the rest.

OpenFlow 1.3.5 ("Group Table Modification Messages") has a modified group keep its own counters and
begin its buckets' again, and counts in a group every packet that it has processed.  Open vSwitch begins
all counters of a modified group again, and leaves out packets for which a group that chooses one bucket
had none to choose.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from os_ken.ofproto import ofproto_v1_3 as ofp

from tests.made_rules import Change, GroupChange

GroupRow = tuple[int, int, int, int, list[tuple[int, int]]]  # number, uses, packets, octets, buckets'
Counts = tuple[int, int]


class Uncounted:
    """By group, the packets and octets that Open vSwitch leaves out of what ours has counted."""

    def __init__(self) -> None:
        self._left_out: dict[int, Counts] = {}
        self._counted: dict[int, Counts] = {}
        self._in_buckets: dict[int, int] = {}
        self._chooses: dict[int, bool] = {}

    def changed(self, changes: Iterable[Change], refused: Mapping[int, Any]) -> None:
        """These requests, but the refused ones, come before the next packets."""
        for i, change in enumerate(changes):
            if not isinstance(change, GroupChange) or i in refused:
                continue
            if change.command != ofp.OFPGC_DELETE:
                self._chooses[change.number] = change.kind in (ofp.OFPGT_SELECT, ofp.OFPGT_FF)
            if change.command == ofp.OFPGC_MODIFY:
                self._left_out[change.number] = self._counted.get(change.number, (0, 0))
                self._in_buckets[change.number] = 0
                continue
            is_all = change.number == ofp.OFPG_ALL
            for number in list(self._counted) if is_all else [change.number]:
                for known in (self._left_out, self._counted, self._in_buckets):
                    known.pop(number, None)

    def taken_off(self, rows: Iterable[GroupRow]) -> list[GroupRow]:
        """Our rows after a phase, as Open vSwitch counts.

        In one phase all packets of a group find a bucket, or none does: cables are cut before they come.
        """
        taken = []
        for number, n_uses, packets, nbytes, buckets in rows:
            in_buckets = sum(n for n, _ in buckets)
            if self._chooses[number] and in_buckets == self._in_buckets.get(number, 0):
                self._left_out[number] = self._left_out_by_now(number, packets, nbytes)
            self._counted[number], self._in_buckets[number] = (packets, nbytes), in_buckets
            less_packets, less_nbytes = self._left_out.get(number, (0, 0))
            taken.append((number, n_uses, packets - less_packets, nbytes - less_nbytes, buckets))
        return taken

    def _left_out_by_now(self, number: int, packets: int, nbytes: int) -> Counts:
        """All that has come in a phase in which no bucket got any of it is left out too."""
        before, left_out = self._counted.get(number, (0, 0)), self._left_out.get(number, (0, 0))
        return left_out[0] + packets - before[0], left_out[1] + nbytes - before[1]
