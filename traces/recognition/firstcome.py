"""Finds servers that answer whichever worker comes first, and takes the captured order out of the workload.

Such a server takes one push at a time: it asks for the next one when it has handed over its answer to the
last.  In which order pushes came depends on the network, so it is no part of the job.  A workload says
instead that the server has a lock (`Message.lock_until`), and its answers wait for their own pushes alone.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from gradwire.traces.schedules.kinds import ELEMENT_NBYTES
from gradwire.traces.schedules.pushes import first_come_servers
from gradwire.traces.workload import Collective, Compute, Item, Message, Start

MOST = 0.9  # of a server's pushes: asked for when an answer to another had been handed over


def without_order_of_arrival(items: Sequence[Item]) -> list[Item]:
    """The items, with locks in place of the order in which pushes came, where servers have such locks."""
    answers: dict[int, int] = {}
    for server in first_come_servers(items):
        some = _answers(items, server)
        if _takes_one_at_a_time(items, some):
            answers |= some
    return _with_locks(items, answers) if answers else list(items)


def _answers(items: Sequence[Item], server: int) -> dict[int, int]:
    """The answer of each push, by their ids, or itself if it has none.

    Nothing if a worker pushes again before it has been answered.
    """
    found: dict[int, int] = {}
    open_push: dict[int, int] = {}  # by worker
    for number, item in enumerate(items):
        if not isinstance(item, Message):
            continue
        if item.role == "push" and item.dst == server:
            if item.src in open_push:
                return {}
            open_push[item.src] = found[number] = number
        elif item.role == "pull" and item.src == server and item.dst in open_push:
            found[open_push.pop(item.dst)] = number
    return found


def _takes_one_at_a_time(items: Sequence[Item], answers: Mapping[int, int]) -> bool:
    """Whether a server asked for nearly all pushes, but each worker's first, when an answer had gone."""
    gone = set(answers.values())
    seen: set[int] = set()
    asked = []
    for number in answers:
        push = items[number]
        assert isinstance(push, Message)
        if push.src in seen:
            asked.append(push.ready is not None and not gone.isdisjoint(push.ready.after))
        seen.add(push.src)
    return bool(asked) and sum(asked) >= MOST * len(asked)


def _with_locks(items: Sequence[Item], answers: Mapping[int, int]) -> list[Item]:
    push_of = _sections(items, answers)
    opening: dict[int, Start] = {}  # by server: what it did before it took the first push of all
    freed: list[Item] = []
    for number, item in enumerate(items):
        push = push_of.get(number)
        if push is None or isinstance(item, Collective):
            freed.append(item)
        elif number == push and isinstance(item, Message):
            ready = item.ready and _freed(item.ready, push_of, push)
            if ready is not None:
                ready = opening.setdefault(item.dst, ready)
            freed.append(item.model_copy(update={"ready": ready, "lock_until": answers[push]}))
        else:
            freed.append(_answering(item, items, push_of, push))
    for server in sorted({item.dst for push in answers if isinstance(item := items[push], Message)}):
        _set_centre(freed, server)
    return freed


def _set_centre(items: list[Item], server: int) -> None:
    """Let a server add pushes to what it answers with, if all of them have one size."""
    its = {
        number: item
        for number, item in enumerate(items)
        if isinstance(item, Message) and _serves(item) == server and item.iteration >= 0
    }
    sizes = {item.nbytes for item in its.values()}
    if len(sizes) == 1 and not max(sizes) % ELEMENT_NBYTES:
        for number, item in its.items():
            items[number] = item.model_copy(update={"centre": 0})


def _serves(item: Message) -> int | None:
    return {"push": item.dst, "pull": item.src}.get(item.role)


def _answering(item: Message | Compute, items: Sequence[Item], push_of: Mapping[int, int], push: int) -> Item:
    """What a server computes for a push, or its answer, whose worker need not wait for other servers."""
    start = _freed(item.start, push_of, push)
    if not any(push_of.get(other) == push for other in start.after):
        start = start.model_copy(update={"after": (*start.after, push)})
    if isinstance(item, Compute) or item.ready is None:
        return item.model_copy(update={"start": start})
    after = tuple(
        other
        for other in item.ready.after
        if not (push_of.get(other, push) == other != push and items[other].iteration == item.iteration)
    )
    ready = item.ready.model_copy(update={"after": after})
    return item.model_copy(update={"start": start, "ready": ready})


def _sections(items: Sequence[Item], answers: Mapping[int, int]) -> dict[int, int]:
    """The push of each item of a section: itself, its answer, and what the server computes for that alone."""
    push_of = {number: push for push, answer in answers.items() for number in (push, answer)}
    servers = {item.src for answer in answers.values() if isinstance(item := items[answer], Message)}
    leads_to: defaultdict[int, set[int]] = defaultdict(set)  # by item: the pushes that it helps to answer
    for answer, push in ((answer, push) for push, answer in answers.items()):
        leads_to[answer].add(push)
    for number in reversed(range(len(items))):
        item = items[number]
        if isinstance(item, Compute) and item.rank in servers and len(leads_to[number]) == 1:
            (push_of[number],) = leads_to[number]
        if number in push_of and number not in answers:
            for start in item.begins:
                for other in start.after:
                    leads_to[other].add(push_of[number])
    return push_of


def _freed(start: Start, push_of: Mapping[int, int], push: int) -> Start:
    """A start without what belongs to the sections of other pushes."""
    after = tuple(other for other in start.after if push_of.get(other, push) == push)
    return start.model_copy(update={"after": after})
