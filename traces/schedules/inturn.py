"""Exchanges in which one direction goes after the other: the second is announced behind the first's data."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from gradwire.traces.schedules.sends import Send
from gradwire.traces.workload import Turn


def in_turn(sends: Sequence[Send], turns: Sequence[Turn]) -> list[Send]:
    """The sends of one operation, in the order of their steps.

    The receiver of a send that a turn names announces it after handing its own send of that number to TCP.
    So the announcement waits behind that data on their connection.  In its step the named send comes last.
    Raise ValueError for a turn that the operation has no exchange for.
    """
    if not turns:
        return list(sends)
    by_pair: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for number, send in enumerate(sends):
        by_pair[send.src, send.dst].append(number)
    behind: dict[int, int] = {}
    for turn in turns:
        ways = by_pair.get((turn.src, turn.dst), []), by_pair.get((turn.dst, turn.src), [])
        if turn.number >= min(map(len, ways)):
            raise ValueError(f"ranks {turn.src} and {turn.dst} have no exchange number {turn.number}")
        second, other = (way[turn.number] for way in ways)
        if sends[other].step > sends[second].step:
            raise ValueError(
                f"exchange {turn.number} of ranks {turn.src} and {turn.dst} begins before its turn"
            )
        behind[second] = other
    order = sorted(range(len(sends)), key=lambda number: (sends[number].step, number in behind))
    new = {old: place for place, old in enumerate(order)}
    made = []
    for number in order:
        send = sends[number]
        ready = {*send.ready, *((behind[number],) if number in behind else ())}
        made.append(
            replace(
                send,
                needs=tuple(new[other] for other in send.needs),
                ready=tuple(sorted(new[other] for other in ready)),
            )
        )
    return made
