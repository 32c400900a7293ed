"""Rounds of synchronous parameter servers: what all workers push, and each pulls when all of it is in."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gradwire.traces.schedules.pushes import Summed, Unit
from gradwire.traces.workload import Collective, Compute, Item, Message


class Round(NamedTuple):
    """Ids of items: by worker the pushes of one sum, or one at each server, and its pulls; what servers
    compute between.
    """

    pushes: Mapping[int, tuple[int, ...]]
    pulls: Mapping[int, tuple[int, ...]]
    computing: tuple[int, ...]

    @property
    def first_push(self) -> int:
        return min(min(ids) for ids in self.pushes.values())

    @property
    def last_push(self) -> int:
        return max(max(ids) for ids in self.pushes.values())

    @property
    def first_pull(self) -> int:
        return min(min(ids) for ids in self.pulls.values())


def rounds_of(chosen: Mapping[int, Item], summed: Summed) -> list[Round]:
    """The sums that are pulled by all their workers: each pull is of the first sum of its size before it, and
    begins when all of that is in.
    """
    bits = _bits(chosen)
    heard = _heard(chosen, bits)
    waiting: defaultdict[tuple[int, int, int], list[int]] = defaultdict(list)  # pulls: server, worker, bytes
    for number, item in chosen.items():
        if isinstance(item, Message) and item.role == "pull":
            waiting[item.src, item.dst, item.nbytes].append(number)
    computing: dict[Unit, tuple[int, ...]] = {}
    unit_of = {number: unit for unit in summed.units if len(unit) > 1 for number in unit}
    for number, item in chosen.items():
        if isinstance(item, Compute):
            for unit in {unit_of[other] for other in item.start.after if other in unit_of}:
                if set(unit).issubset(item.start.after):
                    computing.setdefault(unit, (number,))
    rounds = []
    for unit in sorted(set(unit_of.values()), key=max):
        due = sum(bits[push] for push in unit)
        pushes: dict[int, tuple[int, ...]] = {}
        pulls: dict[int, tuple[int, ...]] = {}
        for push in unit:
            item = chosen[push]
            assert isinstance(item, Message)
            pushes[item.src] = (push,)
            later = waiting[item.dst, item.src, item.nbytes]
            pull = next((pull for pull in later if pull > max(unit)), None)
            if pull is not None and not due & ~heard[pull]:
                later.remove(pull)
                pulls[item.src] = (pull,)
        if len(pulls) == len(unit):
            rounds.append(Round(pushes, pulls, computing.get(unit, ())))
    return rounds


def _bits(chosen: Mapping[int, Item]) -> dict[int, int]:
    """A bit for each push, its own among those of its iteration."""
    n_before: Counter[int] = Counter()
    bits = {}
    for number, item in chosen.items():
        if isinstance(item, Message) and item.role == "push":
            bits[number] = 1 << n_before[item.iteration]
            n_before[item.iteration] += 1
    return bits


def _heard(chosen: Mapping[int, Item], bits: Mapping[int, int]) -> dict[int, int]:
    """For each item of one rank, the pushes of its iteration that its rank had received before it began."""
    heard: dict[int, int] = {}
    for number, item in chosen.items():
        if isinstance(item, Collective) or number in bits:
            continue
        heard[number] = 0
        for other in item.start.after:
            before = chosen[other]
            if before.iteration != item.iteration:
                continue
            if other in bits:
                is_received = isinstance(before, Message) and before.dst == item.start.rank
                heard[number] |= bits[other] if is_received else 0
            elif other in heard and before.begins[0].rank == item.start.rank:
                heard[number] |= heard[other]
    return heard


def merged(chosen: Mapping[int, Item], rounds: Sequence[Round]) -> list[Round]:
    """The k-th rounds of an iteration at all servers as one, unless a push waits for what another brought."""
    alike: defaultdict[tuple[int, int], list[Round]] = defaultdict(list)
    n_before: Counter[tuple[int, int]] = Counter()
    for one in rounds:
        push = chosen[one.first_push]
        assert isinstance(push, Message)
        alike[push.iteration, n_before[push.iteration, push.dst]].append(one)
        n_before[push.iteration, push.dst] += 1
    merged: list[Round] = []
    for some in alike.values():
        if max(one.last_push for one in some) < min(one.first_pull for one in some):
            merged.append(
                Round(
                    {
                        worker: tuple(n for one in some for n in one.pushes[worker])
                        for worker in some[0].pushes
                    },
                    {worker: tuple(n for one in some for n in one.pulls[worker]) for worker in some[0].pulls},
                    tuple(number for one in some for number in one.computing),
                )
            )
        else:
            merged += some
    return merged
