"""The aggregation jobs of a switch, which are the trees that it adds up for, and their slots.  Pure.

A job has its slots as long as any entry of the table adds up for it, in force or in the shadow of another.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from gradwire.emu.switch.table.numbers import Numbers, TableFullError
from gradwire.emu.switch.table.planeoperations import RemovePool, SetPool
from gradwire.planning.openflow.entries import Actions, Aggregate
from gradwire.planning.trees.tree import (
    MAX_LARGE_SLOTS,
    MAX_POOLS,
    MAX_SMALL_SLOTS,
    SMALL_ELEMENTS,
    SWITCH_SLOTS,
)


@dataclass
class SharedSlots:
    """What the switches of a fabric have left together: they have their slots in the same maps."""

    pools: Numbers = field(default_factory=lambda: Numbers(MAX_POOLS))
    small_slots: int = MAX_SMALL_SLOTS
    large_slots: int = MAX_LARGE_SLOTS

    def has(self, rule: Aggregate) -> bool:
        free = self.small_slots if rule.elements <= SMALL_ELEMENTS else self.large_slots
        return bool(self.pools.n_left) and rule.slots <= free

    def take(self, rule: Aggregate) -> int:
        """The number of the pool."""
        self._add(rule, -rule.slots)
        return self.pools.take()[0]

    def give_back(self, rule: Aggregate, pool: int) -> None:
        self._add(rule, rule.slots)
        self.pools.give_back(pool)

    def _add(self, rule: Aggregate, slots: int) -> None:
        if rule.elements <= SMALL_ELEMENTS:
            self.small_slots += slots
        else:
            self.large_slots += slots


@dataclass
class TreePool:
    """`rule` is that of any of its `n_entries` entries, which match UDP port `dport`."""

    rule: Aggregate
    dport: int | None
    pool: int
    n_entries: int = 0


class AggregationJobs:
    """The aggregation jobs of one switch, by number.  Callers check that the entries of a job agree."""

    def __init__(self, shared: SharedSlots, slots: int = SWITCH_SLOTS) -> None:
        """`slots` are the switch's own share."""
        self.held: dict[int, TreePool] = {}
        self._shared = shared
        self._free_slots = slots

    def check_room(self, rule: Aggregate) -> None:
        """Raise TableFullError if an entry with this rule cannot `enter`."""
        if rule.job in self.held:
            return
        if rule.slots > self._free_slots or not self._shared.has(rule):
            raise TableFullError(f"aggregation job {rule.job} needs {rule.slots} slots, and fewer are left")

    def enter(self, rule: Aggregate, dport: int | None) -> Iterator[SetPool]:
        """An entry with this rule has come; if it is the job's first, the job gets its slots."""
        job = self.held.get(rule.job)
        if job is None:
            job = self.held[rule.job] = TreePool(rule, dport, self._shared.take(rule))
            self._free_slots -= rule.slots
            yield SetPool(job.pool, rule)
        job.n_entries += 1

    def leave(self, actions: Actions) -> Iterator[RemovePool]:
        """An entry with these actions has gone; the last one of a job frees its slots."""
        rule = aggregate_of(actions)
        if rule is None:
            return
        job = self.held[rule.job]
        job.n_entries -= 1
        if not job.n_entries:
            del self.held[rule.job]
            self._free_slots += rule.slots
            yield RemovePool(job.pool)
            self._shared.give_back(rule, job.pool)


def aggregate_of(actions: Actions) -> Aggregate | None:
    """What an entry with these actions adds up; it has no other action then."""
    first = actions.given[0] if actions.given else None
    return first if isinstance(first, Aggregate) else None
