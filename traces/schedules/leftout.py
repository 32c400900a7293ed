"""What items wait for when some of a workload are left out: through those, for what came before them.

The set-up is left out of a replay unless it is asked for, but it also happens between iterations: DDP
agrees on its buckets anew after the first one.  The second must wait for the first all the same.
"""

from collections.abc import Iterable, Mapping, Sequence

from traces.workload import Item, Message, Start

Behind = tuple[frozenset[int], int]
"""The chosen items that a start comes after, and the compute between in ns."""

_NOTHING: Behind = (frozenset(), 0)


def bridged(items: Sequence[Item], chosen: Mapping[int, Item]) -> dict[int, Item]:
    """The chosen items, each of whose starts waits for chosen ones only.

    An item that is left out stands for what it waited for itself at that rank (a message at its receiver: for
    what its sender waited for), and its compute gap is added to that of whoever waited for it.  One that
    leads to no chosen item is not waited for, nor is its gap.
    """
    left_out: dict[int, dict[int, Behind]] = {}  # by item and rank
    found: dict[int, Item] = {}
    for number, item in enumerate(items[: max(chosen, default=-1) + 1]):
        starts = (item.start,) if isinstance(item, Message) else item.starts
        behind = [_behind(start, chosen, left_out) for start in starts]
        if number not in chosen:
            pairs = zip(starts, behind, strict=True)
            left_out[number] = {
                start.rank: (after, gap_ns + start.gap_ns) for start, (after, gap_ns) in pairs
            }
            continue
        moved = [_moved(start, one) for start, one in zip(starts, behind, strict=True)]
        update = {"start": moved[0]} if isinstance(item, Message) else {"starts": tuple(moved)}
        found[number] = item.model_copy(update=update)
    return found


def _behind(start: Start, chosen: Mapping[int, Item], left_out: Mapping[int, Mapping[int, Behind]]) -> Behind:
    """Without the start's own gap."""
    ways: list[Behind] = []
    for other in start.after:
        if other in chosen:
            ways.append((frozenset([other]), 0))
        else:
            ranks = left_out[other]
            some = [ranks[start.rank]] if start.rank in ranks else list(ranks.values())
            ways += [way for way in some if way[0]]
    return _merged(ways)


def _moved(start: Start, behind: Behind) -> Start:
    after, gap_ns = behind
    return start.model_copy(update={"after": tuple(sorted(after)), "gap_ns": start.gap_ns + gap_ns})


def _merged(ways: Iterable[Behind]) -> Behind:
    numbers, gaps = zip(*(tuple(ways) or (_NOTHING,)), strict=True)
    return frozenset().union(*numbers), max(gaps)
