"""Turns a job of synchronous parameter servers into one of allreduces, so that any algorithm can do it.

What all workers push to a server, and it answers with as many bytes to each, is an allreduce of the workers;
where several servers have a part of it each, all parts together.  The servers are left out; what they compute
between push and pull, each worker does, as in a job without servers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gradwire.traces.schedules.other import Other
from gradwire.traces.schedules.pushes import Summed, summed_pushes
from gradwire.traces.schedules.rounds import Round, merged, rounds_of
from gradwire.traces.schedules.selection import chosen_items
from gradwire.traces.units import show_count, show_first
from gradwire.traces.workload import Collective, Compute, Item, Message, Start, Workload


def with_allreduces(workload: Workload, iterations: tuple[int, ...] | None = None) -> Other:
    """The job without its parameter servers; `workload` itself if it has none, or does more with them.

    `iterations` are those that are to be sent, as `expand` has them.
    """
    if not any(isinstance(item, Message) and item.role == "push" for item in workload.items):
        return Other(workload)
    chosen = chosen_items(workload, iterations)
    summed = summed_pushes(workload.items, chosen)
    single = rounds_of(chosen, summed)
    servers = {item.dst for item in chosen.values() if isinstance(item, Message) and item.role == "push"}
    workers = [rank for rank in range(workload.n_ranks) if rank not in servers]
    reasons = _reasons(chosen, summed, single, workers)
    if reasons:
        return Other(workload, tuple(f"pushes and pulls stay messages: {reason}" for reason in reasons))
    rounds = merged(chosen, single)
    items = _Making(chosen, rounds, {rank: number for number, rank in enumerate(workers)}).made()
    made = workload.model_copy(
        update={
            "n_ranks": len(workers),
            "addresses": tuple(workload.addresses[rank] for rank in workers) if workload.addresses else (),
            "connections": (),
            "late_ns": (),
            "items": tuple(items),
        }
    )
    return Other(made, (_assumption(rounds, sorted(servers), workers),))


def _assumption(rounds: Sequence[Round], servers: Sequence[int], workers: Sequence[int]) -> str:
    who = f"server {servers[0]}" if len(servers) == 1 else f"servers {show_first(servers, 8)}"
    return (
        f"the pushes and pulls of {len(workers)} workers became {show_count(len(rounds), 'allreduce')}, and "
        f"what {who} computed each worker does; ranks are the workers, in their order"
    )


def _reasons(
    chosen: Mapping[int, Item], summed: Summed, rounds: Sequence[Round], workers: Sequence[int]
) -> list[str]:
    """Why the job cannot do without its servers; empty if it can."""
    if summed.notes:
        return list(summed.notes)
    if len(rounds) < summed.n_sums:
        n_left = summed.n_sums - len(rounds)
        return [f"{n_left:,} of {summed.n_sums:,} sums: not every worker pulls as many bytes when all are in"]
    done = {number for one in rounds for ids in (*one.pushes.values(), *one.pulls.values()) for number in ids}
    left = [item for number, item in chosen.items() if isinstance(item, Message) and number not in done]
    if left:
        pairs = list(dict.fromkeys(f"{item.src} to {item.dst}" for item in left))
        return [f"there are {len(left):,} other messages, from rank {show_first(pairs, 3)}"]
    if any(sorted(one.pulls) != list(workers) for one in rounds):
        return ["not every server serves all ranks but the servers"]
    if any(isinstance(item, Collective) for item in chosen.values()):
        return ["servers take part in collectives as well"]
    return []


@dataclass
class _Making:
    """Items of the new job, one after the other.  `number_of` has the ranks of the workers there."""

    chosen: Mapping[int, Item]
    rounds: Sequence[Round]
    number_of: Mapping[int, int]
    _items: list[Item] = field(default_factory=list)
    _is_now: dict[int, tuple[int, ...]] = field(default_factory=dict)  # by old id: what to wait for instead

    def made(self) -> list[Item]:
        last_of = {one.last_push: one for one in self.rounds}
        pushes = {number for one in self.rounds for ids in one.pushes.values() for number in ids}
        for number, item in self.chosen.items():
            if number in pushes:
                self._is_now[number] = self._after(item.begins[0])
                if number in last_of:
                    self._add_round(last_of[number])
            elif isinstance(item, Compute) and item.rank in self.number_of:
                self._is_now[number] = (self._add_computing(item, item.rank, self._after(item.start)),)
        return self._items

    def _after(self, start: Start) -> tuple[int, ...]:
        return tuple(sorted({new for old in start.after for new in self._is_now.get(old, ())}))

    def _add_computing(self, item: Compute, worker: int, after: tuple[int, ...]) -> int:
        start = Start(rank=self.number_of[worker], after=after)
        self._items.append(item.model_copy(update={"start": start}))
        return len(self._items) - 1

    def _add_round(self, one: Round) -> None:
        parts = [self.chosen[number] for number in next(iter(one.pushes.values()))]
        allreduce = len(self._items)
        self._items.append(
            Collective(
                kind="allreduce",
                tag=allreduce,
                nbytes=sum(push.nbytes for push in parts if isinstance(push, Message)),
                iteration=parts[0].iteration,
                starts=tuple(
                    Start(
                        rank=self.number_of[worker],
                        after=tuple(sorted({new for push in pushes for new in self._is_now[push]})),
                    )
                    for worker, pushes in one.pushes.items()
                ),
            )
        )
        for worker, pulls in one.pulls.items():
            last = allreduce
            for update in map(self.chosen.__getitem__, one.computing):
                assert isinstance(update, Compute)
                last = self._add_computing(update, worker, (last,))
            self._is_now |= dict.fromkeys(pulls, (last,))
