"""gloo's process groups: each has its own connections between its ranks, and its own tag counter."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from gradwire.traces.packets.streams import Connection
from gradwire.traces.recognition.ranks import BadTrace
from gradwire.traces.units import show_nbytes

MINOR_SHARE = 0.05  # of the main group's bytes: what groups for barriers and the like may have


def main_group(connections: Sequence[Connection]) -> tuple[list[int], list[str]]:
    """Which of a gloo job's connections (positions) are the process group that trains, and notes.

    Groups are set up one after the other by all ranks, so the k-th connection of each pair is group k.
    Raises BadTrace if two of them carry much: tags do not tell the messages of one from the other's.
    """
    pairs: defaultdict[frozenset[str], list[int]] = defaultdict(list)
    for number, connection in enumerate(connections):
        if any(stream.nbytes for stream in connection.streams):
            direction = connection.streams[0].direction
            pairs[frozenset((direction.src, direction.dst))].append(number)
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for numbers in pairs.values():
        for place, number in enumerate(sorted(numbers, key=lambda n: _begin_ns(connections[n]))):
            groups[place].append(number)
    if len(groups) < 2:
        return list(range(len(connections))), []
    nbytes = {place: sum(_nbytes(connections[n]) for n in some) for place, some in groups.items()}
    main = max(nbytes, key=lambda place: nbytes[place])
    others = [place for place in groups if place != main]
    if max(nbytes[place] for place in others) > MINOR_SHARE * nbytes[main]:
        pair, several = next((pair, some) for pair, some in pairs.items() if len(some) > 1)
        raise BadTrace(
            f"{len(several)} gloo connections between {' and '.join(sorted(pair))}: the capture holds two "
            "jobs or process groups; cut out one of them, for example by time with editcap -A and -B"
        )
    aside = show_nbytes(sum(nbytes[place] for place in others))
    note = f"{len(groups)} process groups of gloo: left aside {aside} of those that do not train"
    return sorted(groups[main]), [note]


def _nbytes(connection: Connection) -> int:
    return sum(stream.nbytes for stream in connection.streams)


def _begin_ns(connection: Connection) -> int:
    start = np.zeros(1, np.int64)
    return min(int(stream.sent.first_seen_ns(start)[0]) for stream in connection.streams if stream.nbytes)
