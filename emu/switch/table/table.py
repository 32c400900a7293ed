"""The flow table and group table of one switch, as OpenFlow 1.3 defines them.  Pure.

Every change yields the operations that bring the data plane to the same state, in an order in which
no packet ever meets half a change.  Rules with the same match and a lower priority are kept here,
in the shadow of the one that is in the data plane, and come back when that is deleted.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import NamedTuple

from gradwire.emu.switch.table.aggregationjobs import AggregationJobs, SharedSlots, aggregate_of
from gradwire.emu.switch.table.numbers import Numbers, TableFullError
from gradwire.emu.switch.table.planeoperations import (
    ClearCounters,
    ClearGroupCounters,
    Operation,
    RemoveGroup,
    RemoveRule,
    SetGroup,
    SetRule,
    SetRules,
)
from gradwire.planning.openflow.entries import (
    MAX_ENTRIES,
    Actions,
    Entry,
    FlowGone,
    Gone,
    GroupEntry,
    Output,
    SwitchGroup,
    ToGroup,
    slots,
)
from gradwire.planning.openflow.match import Match

SEND_FLOW_REMOVED = 1  # OFPFF_SEND_FLOW_REM
_EVERYTHING = Match()


class Selection(NamedTuple):
    """Which entries a delete, a modify or a statistics request is about; the defaults mean all."""

    match: Match = _EVERYTHING
    priority: int | None = None  # given: strict, the very entry and no other
    cookie: int = 0
    cookie_mask: int = 0
    out_port: int | None = None
    out_group: int | None = None

    def chooses(self, entry: Entry) -> bool:
        given = entry.actions.given
        return (
            (self.match.covers(entry.match) if self.priority is None else self.match == entry.match)
            and self.priority in (None, entry.priority)
            and not (self.cookie ^ entry.cookie) & self.cookie_mask
            and (self.out_port is None or self.out_port in [a.port for a in given if isinstance(a, Output)])
            and (self.out_group is None or ToGroup(self.out_group) in given)
        )

    def is_all(self) -> bool:
        return (
            self.match == _EVERYTHING
            and self.priority is None
            and not self.cookie_mask
            and self.out_port is None
            and self.out_group is None
        )


class FlowTable:
    """The state of one switch.  Callers check messages; here only room can be lacking."""

    def __init__(
        self,
        flows: Numbers,
        groups: Numbers,
        jobs: AggregationJobs | None = None,
        max_entries: int = MAX_ENTRIES,
    ) -> None:
        self.groups: dict[int, GroupEntry] = {}
        self.jobs = jobs or AggregationJobs(SharedSlots())
        self.mortals: dict[int, Entry] = {}  # those with a timeout, by flow
        self._flow_numbers = flows
        self._group_numbers = groups
        self.max_entries = max_entries
        self._n_entries = 0
        # Highest priority first: the first of each is the one in the data plane.
        self._entries: dict[Match, tuple[Entry, ...]] = {}

    def entries(self, selection: Selection) -> list[Entry]:
        if selection.priority is not None:
            candidates = list(self._entries.get(selection.match, ()))
        else:
            candidates = [entry for same in self._entries.values() for entry in same]
            if selection.is_all():
                return candidates
        return [entry for entry in candidates if selection.chooses(entry)]

    def __len__(self) -> int:
        return self._n_entries

    def has_overlap(self, match: Match, priority: int) -> bool:
        """True if a packet can match `match` and, at this very priority, an entry with another match."""
        return any(
            entry.priority == priority and entry.match != match and match.overlaps(entry.match)
            for same in self._entries.values()
            for entry in same
        )

    def add(self, entry: Entry, reset_counts: bool) -> list[Operation]:
        """OFPFC_ADD.  `entry.flow` is chosen here.

        An entry with the same match and priority is replaced; its counters live on unless
        `reset_counts` (OpenFlow 1.3.5, section 6.4).  Raise TableFullError.
        """
        rule = aggregate_of(entry.actions)
        if rule is not None:
            self.jobs.check_room(rule)
        same = self._entries.get(entry.match, ())
        old = next((other for other in same if other.priority == entry.priority), None) if same else None
        flow, keeps_counts = self._take_number() if old is None else (old.flow, not reset_counts)
        new = _numbered(entry, flow)
        if same:
            kept = [other for other in same if other is not old]
            same = tuple(sorted([new, *kept], key=lambda each: -each.priority))
        else:
            same = (new,)
        self._entries[new.match] = same
        self._remember(new)
        operations: list[Operation] = []
        if rule is not None:
            operations += self.jobs.enter(rule, entry.match.dport)
        if not keeps_counts:
            operations.append(ClearCounters(flow))
        if same[0] is new:
            operations.append(self._in_force(new))
        if old is not None:
            operations += self.jobs.leave(old.actions)
        return operations

    def add_new(
        self,
        matches: Sequence[Match],
        priorities: Sequence[int],
        actions: Sequence[Actions],
        cookies: Sequence[int],
        flags: int,
        now_ns: int,
    ) -> list[Operation] | None:
        """As many times OFPFC_ADD, with a match of the same form each; none adds up or has a timeout.

        Returns None and does nothing if a match is not new, or if there is no room for all.
        """
        n = len(matches)
        if self._n_entries + n > self.max_entries or self._flow_numbers.n_left < n:
            return None
        flows, used = self._flow_numbers.take_many(n)
        columns = (priorities, actions, cookies, repeat(flags), flows, repeat(now_ns), repeat(0), repeat(0))
        entries: list[Entry] = [*map(tuple.__new__, repeat(Entry), zip(matches, *columns, strict=False))]
        new = dict(zip(matches, zip(entries, strict=True), strict=True))
        if len(new) != n or not self._entries.keys().isdisjoint(new):
            for flow in flows:
                self._flow_numbers.give_back(flow)
            return None
        self._entries |= new
        self._n_entries += n
        effective = [each.effective() for each in actions]
        rules = map(
            tuple.__new__,
            repeat(SetRule),
            zip(matches, priorities, effective, flows, cookies, repeat(None), strict=False),
        )
        return [*map(ClearCounters, used), SetRules(tuple(rules))]

    def modify(self, selection: Selection, actions: Actions, reset_counts: bool) -> Iterator[Operation]:
        """OFPFC_MODIFY and, with a priority, OFPFC_MODIFY_STRICT.

        Cookies and timeouts stay, and counters unless `reset_counts`.  The actions add up nothing.
        """
        for old in self.entries(selection):
            new = old._replace(actions=actions)
            same = tuple(new if other is old else other for other in self._entries[old.match])
            self._entries[old.match] = same
            self._remember(new)
            if reset_counts:
                yield ClearCounters(new.flow)
            if same[0] is new:
                yield self._in_force(new)
            yield from self.jobs.leave(old.actions)

    def delete(self, selection: Selection, reason: Gone = Gone.DELETED) -> Iterator[Operation | FlowGone]:
        """OFPFC_DELETE and, with a priority, OFPFC_DELETE_STRICT."""
        return self.remove(self.entries(selection), reason)

    def remove(self, entries: Iterable[Entry], reason: Gone) -> Iterator[Operation | FlowGone]:
        """Take these entries out, and say so of those that ask for it."""
        for old in entries:
            same = self._entries[old.match]
            left = tuple(other for other in same if other is not old)
            if left:
                self._entries[old.match] = left
                if left[0] is not same[0]:
                    yield self._in_force(left[0])
            else:
                del self._entries[old.match]
                yield RemoveRule(old.match)
            yield from self.jobs.leave(old.actions)
            self.mortals.pop(old.flow, None)
            self._n_entries -= 1
            if old.flags & SEND_FLOW_REMOVED:
                yield FlowGone(old, reason)
            self._flow_numbers.give_back(old.flow)

    def set_group(self, number: int, group: SwitchGroup, now_ns: int) -> Iterator[Operation]:
        """OFPGC_ADD and OFPGC_MODIFY; the latter keeps the group's own counters, not its buckets'.

        Raise TableFullError, or ValueError as `slots` does.
        """
        chosen = slots(group)
        old = self.groups.get(number)
        counter = self._group_numbers.take()[0] if old is None else old.counter
        self.groups[number] = GroupEntry(group, counter, now_ns if old is None else old.since_ns)
        yield ClearGroupCounters(counter, keeps_whole=old is not None)
        yield SetGroup(number, group, counter, chosen)

    def delete_group(self, number: int) -> Iterator[Operation | FlowGone]:
        """OFPGC_DELETE: the flow entries that use the group go with it."""
        yield from self.delete(Selection(out_group=number), Gone.GROUP_DELETED)
        counter = self.groups.pop(number).counter
        yield RemoveGroup(number)
        self._group_numbers.give_back(counter)

    def _take_number(self) -> tuple[int, bool]:
        if self._n_entries == self.max_entries:
            raise TableFullError(f"the table is full: it has {self.max_entries} entries")
        taken = self._flow_numbers.take()
        self._n_entries += 1
        return taken

    def _in_force(self, entry: Entry) -> SetRule:
        rule = aggregate_of(entry.actions)
        pool = None if rule is None else self.jobs.held[rule.job].pool
        return SetRule(entry.match, entry.priority, entry.actions.effective(), entry.flow, entry.cookie, pool)

    def _remember(self, entry: Entry) -> None:
        if entry.idle_s or entry.hard_s:
            self.mortals[entry.flow] = entry
        else:
            self.mortals.pop(entry.flow, None)


def _numbered(entry: Entry, flow: int) -> Entry:
    """As `entry._replace(flow=flow)`, which takes about twice as long."""
    match, priority, actions, cookie, flags, _, since_ns, idle_s, hard_s = entry
    return Entry(match, priority, actions, cookie, flags, flow, since_ns, idle_s, hard_s)
