"""Topological orders, in which nothing comes before what it waits for; and circles of waiting, without one.

What waits is numbered from 0; `before[place]` are the places that it waits for.
"""

import heapq
from collections.abc import Sequence


def peeled(before: Sequence[set[int]]) -> list[int]:
    """Kahn's order, of several that are possible the first place; what waits for a circle is not in it."""
    behind: list[list[int]] = [[] for _ in before]
    for place, others in enumerate(before):
        for other in others:
            behind[other].append(place)
    left = [len(some) for some in before]
    ready = [place for place, count in enumerate(left) if not count]
    order = []
    while ready:
        place = heapq.heappop(ready)
        order.append(place)
        for other in behind[place]:
            left[other] -= 1
            if not left[other]:
                heapq.heappush(ready, other)
    return order


def circle(before: Sequence[set[int]]) -> list[int]:
    """Places each of which waits for the next, and the last for the first; empty if there are none such."""
    stuck = set(range(len(before))).difference(peeled(before))
    if not stuck:
        return []
    passed: dict[int, int] = {}  # in the order in which they were passed, with their positions in it
    place = min(stuck)
    while place not in passed:
        passed[place] = len(passed)
        place = min(before[place] & stuck)
    return list(passed)[passed[place] :]
