"""The flow table and group table of one switch, as OpenFlow 1.3 defines them.  Pure.

Every change yields the operations that bring the data plane to the same state, in an order in which
no packet ever meets half a change.  Rules with the same match and a lower priority are kept here,
in the shadow of the one that is in the data plane, and come back when that is deleted.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from emu.switch.entries import (
    Action,
    ActionKind,
    ClearCounters,
    Entry,
    Group,
    Operation,
    RemoveGroup,
    RemoveRule,
    SetGroup,
    SetRule,
    slots,
)
from emu.switch.match import Match


class TableFullError(Exception):
    """There is no room for one more rule or group."""


class FlowNumbers:
    """Hands out the numbers of flow counters, shared by all switches of a fabric."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._next = 0
        self._returned: list[int] = []

    def take(self) -> int:
        if self._returned:
            return self._returned.pop()
        if self._next == self._n:
            raise TableFullError(f"all {self._n} flow entries are in use")
        self._next += 1
        return self._next - 1

    def give_back(self, flow: int) -> None:
        self._returned.append(flow)


class Room:
    """How many more groups the data plane holds, shared by all switches of a fabric."""

    def __init__(self, n: int) -> None:
        self._free = n

    def take(self) -> None:
        if self._free == 0:
            raise TableFullError("all groups are in use")
        self._free -= 1

    def give_back(self) -> None:
        self._free += 1


@dataclass(frozen=True, slots=True)
class Selection:
    """Which entries a delete, a modify or a statistics request is about; the defaults mean all."""

    match: Match = field(default_factory=Match)
    priority: int | None = None  # given: strict, the very entry and no other
    cookie: int = 0
    cookie_mask: int = 0
    out_port: int | None = None
    out_group: int | None = None

    def chooses(self, entry: Entry) -> bool:
        action = entry.action
        return (
            (self.match.covers(entry.match) if self.priority is None else self.match == entry.match)
            and self.priority in (None, entry.priority)
            and not (self.cookie ^ entry.cookie) & self.cookie_mask
            and (self.out_port is None or action_is(action, ActionKind.OUTPUT, self.out_port))
            and (self.out_group is None or action_is(action, ActionKind.GROUP, self.out_group))
        )


def action_is(action: Action, kind: ActionKind, argument: int) -> bool:
    return action.kind == kind and action.argument == argument


class FlowTable:
    """The state of one switch.  Callers check messages; here only room can be lacking."""

    def __init__(self, numbers: FlowNumbers, group_room: Room) -> None:
        self.groups: dict[int, Group] = {}
        self._numbers = numbers
        self._group_room = group_room
        # Highest priority first: the first of each list is the one in the data plane.
        self._entries: dict[Match, list[Entry]] = {}

    def entries(self, selection: Selection) -> list[Entry]:
        if selection.priority is not None:
            found = self._entries.get(selection.match, [])
        else:
            found = [entry for same in self._entries.values() for entry in same]
        return [entry for entry in found if selection.chooses(entry)]

    def __len__(self) -> int:
        return sum(map(len, self._entries.values()))

    def add(self, entry: Entry, reset_counts: bool) -> Iterator[Operation]:
        """OFPFC_ADD.  `entry.flow` is chosen here.

        An entry with the same match and priority is replaced; its counters live on unless
        `reset_counts` (OpenFlow 1.3.5, section 6.4).  Raise TableFullError.
        """
        same = self._entries.get(entry.match, [])
        old = next((other for other in same if other.priority == entry.priority), None)
        new = replace(entry, flow=self._numbers.take() if old is None else old.flow)
        if old is None or reset_counts:
            yield ClearCounters(new.flow)
        kept = [other for other in same if other is not old]
        self._entries[entry.match] = sorted([new, *kept], key=lambda e: -e.priority)
        if self._entries[entry.match][0] is new:
            yield _in_force(new)

    def modify(self, selection: Selection, action: Action) -> Iterator[Operation]:
        """OFPFC_MODIFY and, with a priority, OFPFC_MODIFY_STRICT: counters and cookies stay."""
        for old in self.entries(selection):
            new = replace(old, action=action)
            same = self._entries[old.match]
            same[same.index(old)] = new
            if same[0] is new:
                yield _in_force(new)

    def delete(self, selection: Selection) -> Iterator[Operation]:
        """OFPFC_DELETE and, with a priority, OFPFC_DELETE_STRICT."""
        for old in self.entries(selection):
            same = self._entries[old.match]
            was_in_force = same[0] is old
            same.remove(old)
            if same and was_in_force:
                yield _in_force(same[0])
            elif not same:
                del self._entries[old.match]
                yield RemoveRule(old.match)
            self._numbers.give_back(old.flow)

    def set_group(self, number: int, group: Group) -> Iterator[Operation]:
        """OFPGC_ADD and OFPGC_MODIFY.  Raise TableFullError, or ValueError as `slots` does."""
        ports = slots(group)
        if number not in self.groups:
            self._group_room.take()
        self.groups[number] = group
        yield SetGroup(number, ports)

    def delete_group(self, number: int) -> Iterator[Operation]:
        """OFPGC_DELETE: the flow entries that use the group go with it."""
        yield from self.delete(Selection(out_group=number))
        del self.groups[number]
        self._group_room.give_back()
        yield RemoveGroup(number)


def _in_force(entry: Entry) -> SetRule:
    return SetRule(entry.match, entry.priority, entry.action, entry.flow)
