"""Recovers Open MPI fragments that a capture hides, from what both directions show.

Every PUT is followed by one FIN, every RNDV answered by one PUT request or ACK, every PUT request by one PUT
of the size that it asks for (there is one connection: parts are up to 2 GB); and ob1 counts the messages of a
communicator to each peer (hdr_seq), so the numbers on both sides of a gap tell how many begin in it.  A gap
must be a sum of such fragments.  What is still due leaves few ways to make it; where it leaves one, that is
taken.
"""

from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations_with_replacement, product
from typing import NamedTuple

from gradwire.traces.framing.mpi_btl import (
    BTL_NBYTES,
    HEADER_NBYTES,
    SEGMENT_NBYTES,
    Envelope,
    Fragment,
    What,
)
from gradwire.traces.framing.mpi_decode import MpiDecoded, MpiGap, Placed

MAX_MATCHES = 4  # messages of different sizes
MAX_GAPS = 4  # between two messages that can be read
MAX_SIZES = 8  # of the sizes of MATCHes the most frequent
TRIALS = 20_000  # for one stream, and TRIALS_EACH for each gap
TRIALS_EACH = 50
FIN_NBYTES = BTL_NBYTES + HEADER_NBYTES[What.FIN]
REQUEST_NBYTES = BTL_NBYTES + HEADER_NBYTES[What.PUT_REQUEST]
RNDV_NBYTES = BTL_NBYTES + HEADER_NBYTES[What.RNDV]
MAX_EACH = 8  # fragments of a kind that are looked for in one gap

_Key = tuple[int | None, int]  # where a PUT goes, and its size


class Answer(NamedTuple):
    """A PUT request that reached the sender."""

    time_ns: int
    fragment: Fragment


@dataclass
class Due:
    """What the other direction makes one expect, and what of it was seen up to some place of the stream."""

    rndv_ns: Sequence[int]
    answers: Mapping[_Key, Sequence[Answer]]
    puts: Counter[_Key]  # hidden somewhere in the stream
    requests: deque[Answer]  # whose RNDV is hidden
    n_open: int = 0  # PUTs without a FIN
    n_answered: int = 0
    n_put: Counter[_Key] = field(default_factory=Counter)


def due_of(forth: MpiDecoded, back: MpiDecoded | None) -> Due:
    rndv_ns: list[int] = []
    answers: list[Answer] = []
    if back is not None:
        timeline = back.stream.received.in_order
        times = timeline.first_seen_ns([placed.end - 1 for placed in back.placed]).tolist()
        for placed, time_ns in zip(back.placed, times, strict=True):
            if placed.fragment.what is What.RNDV:
                rndv_ns.append(time_ns)
            elif placed.fragment.what in (What.PUT_REQUEST, What.ACK):
                answers.append(Answer(time_ns, placed.fragment))
    by_key: defaultdict[_Key, list[Answer]] = defaultdict(list)
    for answer in answers:
        if answer.fragment.what is What.PUT_REQUEST and answer.fragment.total:
            by_key[answer.fragment.address, answer.fragment.total].append(answer)
    sent = Counter((p.fragment.address, p.fragment.size) for p in forth.placed if p.fragment.what is What.PUT)
    hidden = +(Counter({key: len(some) for key, some in by_key.items()}) - sent)
    puts = Counter(dict(hidden.most_common(MAX_EACH)))
    return Due(rndv_ns, by_key, puts, _unbegun(forth, answers))


def _unbegun(forth: MpiDecoded, answers: Sequence[Answer]) -> deque[Answer]:
    """The PUT requests whose RNDV is hidden.

    Numbers are used again, so what counts is whether one was under way when the answer came.  A number that
    was not captured may be any: such an answer is the oldest RNDV's.
    """
    begun = [placed for placed in forth.placed if placed.fragment.what is What.RNDV]
    times = forth.stream.sent.in_order.first_seen_ns([placed.offset for placed in begun]).tolist()
    events = [Answer(time_ns, placed.fragment) for placed, time_ns in zip(begun, times, strict=True)]
    under_way: deque[int | None] = deque()
    found: deque[Answer] = deque()
    for event in sorted([*events, *answers], key=lambda event: event.time_ns):  # a RNDV first, if at once
        number = event.fragment.request
        if event.fragment.what is What.RNDV:
            under_way.append(number)
        elif number is None and under_way:
            under_way.popleft()
        elif number in under_way:
            under_way.remove(number)
        elif None in under_way:
            under_way.remove(None)
        elif event.fragment.what is What.PUT_REQUEST and event.fragment.total:
            found.append(event)
    return found


def advance(placed: Placed, due: Due) -> None:
    what = placed.fragment.what
    if what is What.PUT:
        due.n_open += 1
        due.n_put[placed.fragment.address, placed.fragment.size] += 1
    elif what is What.FIN:
        due.n_open = max(0, due.n_open - 1)
    elif what in (What.PUT_REQUEST, What.ACK):
        due.n_answered += 1


def due_puts(due: Due, time_ns: int) -> list[Fragment]:
    """The requests for PUTs that had been asked for and not been sent, in the order in which they came."""
    found: list[Answer] = []
    for key, count in due.puts.items():
        answers = due.answers[key]
        arrived = bisect_right(answers, time_ns, key=lambda answer: answer.time_ns)
        first = due.n_put[key]
        found += answers[first : min(arrived, first + count, first + MAX_EACH)]
    return [answer.fragment for answer in sorted(found, key=lambda answer: answer.time_ns)[:MAX_EACH]]


class _Way(NamedTuple):
    """One way to fill a gap: how many of the first PUTs that are due, of others, and the MATCHes' sizes."""

    n_puts: int
    n_fins: int
    n_requests: int
    n_rndvs: int
    matches: tuple[int, ...]


class _Between(NamedTuple):
    """How many messages begin in a gap: `least` to `most`, and what their headers say but for the number."""

    least: int
    most: int
    before: Envelope | None


def recovered(forth: MpiDecoded, back: MpiDecoded | None, sizes: Counter[int]) -> MpiDecoded:
    """The same stream with the hidden fragments that are certain; `sizes` are those of the job's MATCHes."""
    if not forth.gaps:
        return forth
    due = due_of(forth, back)
    common = sorted(size for size, _ in sizes.most_common(MAX_SIZES))
    trials = iter(range(TRIALS + TRIALS_EACH * len(forth.gaps)))
    between = _between(forth)
    found: list[Placed] = []
    gaps: list[MpiGap] = []
    parts: list[Placed | MpiGap] = sorted(chain(forth.placed, forth.gaps), key=lambda part: part[0])
    for part in parts:
        new: Sequence[Placed] = ()
        if isinstance(part, Placed):
            new = (part,)
        elif _is_whole(part, forth):
            new = _explained(part, between[part], due, common, trials, forth)
        if isinstance(part, MpiGap) and not new:
            gaps.append(part)
        for placed in new:
            advance(placed, due)
        found += new
    return replace(forth, placed=tuple(found), gaps=tuple(gaps))


def _is_whole(gap: MpiGap, decoded: MpiDecoded) -> bool:
    """Whether a fragment begins where the gap does: not if the stream was seen from its middle on."""
    return decoded.process is not None or gap.start > 0


def _between(decoded: MpiDecoded) -> dict[MpiGap, _Between]:
    """For each gap, how many messages begin in it, by ob1's numbers on both sides of it."""
    found = {gap: _Between(0, 0, None) for gap in decoded.gaps}
    last: dict[int, tuple[Envelope, int]] = {}  # of each communicator, and how many gaps came before it
    gaps = sorted(decoded.gaps)
    for placed in decoded.placed:
        envelope = placed.fragment.envelope
        if envelope is None:
            continue
        n_gaps = bisect_right(gaps, (placed.offset,))
        first = envelope._replace(sequence=0 if decoded.process else envelope.sequence - 1)
        previous, n_before = last.get(envelope.context, (first, 0))
        last[envelope.context] = envelope, n_gaps
        count = (envelope.sequence - previous.sequence - 1) % (1 << 16)
        possible = gaps[n_before:n_gaps] if n_gaps - n_before <= MAX_GAPS else []
        for gap in possible if count else ():
            least = count if len(possible) == 1 else 0
            alike = previous if previous.tag == envelope.tag and not found[gap].most else None
            found[gap] = _Between(found[gap].least + least, found[gap].most + count, alike)
    return found


def _explained(
    gap: MpiGap, between: _Between, due: Due, sizes: Sequence[int], trials: Iterator[int], forth: MpiDecoded
) -> list[Placed]:
    """The fragments of a gap; none if there is no way to fill it, or several."""
    time_ns = int(forth.stream.sent.in_order.first_seen_ns(gap.end - 1))
    puts = due_puts(due, time_ns)
    ways: set[_Way] = set()
    for way in _ways(between, due, len(puts), time_ns):
        left_nbytes = gap.end - gap.start - _nbytes(way, puts)
        n_matches = range(max(0, between.least - way.n_rndvs), between.most - way.n_rndvs + 1)
        for matches in _sums(left_nbytes, n_matches, sizes):
            if next(trials, None) is None:
                return []
            if sum(matches) + BTL_NBYTES * len(matches) == left_nbytes:
                ways.add(way._replace(matches=matches))
    return list(_fragments(gap, ways.pop(), puts, due, between)) if len(ways) == 1 else []


def _ways(between: _Between, due: Due, n_puts: int, time_ns: int) -> Iterator[_Way]:
    """All numbers of PUTs, FINs, requests and RNDVs that may be, without the MATCHes besides."""
    n_requests = min(MAX_EACH, max(0, bisect_right(due.rndv_ns, time_ns) - due.n_answered))
    n_rndvs = min(MAX_EACH, len(due.requests), between.most)
    for puts, requests, rndvs in product(range(n_puts + 1), range(n_requests + 1), range(n_rndvs + 1)):
        for fins in range(min(MAX_EACH, due.n_open + puts) + 1):
            yield _Way(puts, fins, requests, rndvs, ())


def _nbytes(way: _Way, puts: Sequence[Fragment]) -> int:
    """Without MATCHes."""
    data = sum(BTL_NBYTES + SEGMENT_NBYTES + (put.total or 0) for put in puts[: way.n_puts])
    return data + FIN_NBYTES * way.n_fins + REQUEST_NBYTES * way.n_requests + RNDV_NBYTES * way.n_rndvs


def _sums(nbytes: int, counts: range, sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """What may be `nbytes` of this many MATCHes of known sizes; of more than MAX_MATCHES, alike ones."""
    for count in counts[: MAX_EACH + 1]:
        if count == 0 or nbytes < 0:
            yield ()
        elif count <= MAX_MATCHES:
            yield from combinations_with_replacement(sizes, count)
        elif nbytes % count == 0 and nbytes // count - BTL_NBYTES in sizes:
            yield (nbytes // count - BTL_NBYTES,) * count


def _fragments(
    gap: MpiGap, way: _Way, puts: Sequence[Fragment], due: Due, between: _Between
) -> Iterator[Placed]:
    """What is known of them, in the order in which they are most likely.

    A FIN is made when its PUT has been written, so requests that waited for that go before it.
    """
    fin = Fragment(What.FIN, FIN_NBYTES, FIN_NBYTES - BTL_NBYTES)
    early = max(0, way.n_fins - way.n_puts)
    fragments = [Fragment(What.PUT_REQUEST, REQUEST_NBYTES, REQUEST_NBYTES - BTL_NBYTES)] * way.n_requests
    fragments += [fin] * early
    fragments += [_rndv(due.requests.popleft().fragment) for _ in range(way.n_rndvs)]
    fragments += [Fragment(What.MATCH, BTL_NBYTES + size, size) for size in way.matches]
    for number, put in enumerate(puts[: way.n_puts]):
        size = put.total or 0
        due.puts[put.address, size] -= 1
        fragments.append(Fragment(What.PUT, BTL_NBYTES + SEGMENT_NBYTES + size, size, address=put.address))
        fragments += [fin] * (number < way.n_fins - early)
    offset = gap.start
    for fragment in fragments:
        envelope = between.before if fragment.what in (What.MATCH, What.RNDV) else None
        yield Placed(offset, fragment._replace(envelope=envelope), recovered=True)
        offset += fragment.nbytes


def _rndv(asked: Fragment) -> Fragment:
    """What a PUT request says of the RNDV that it answers: no data in it, and all asked for at once."""
    return Fragment(
        What.RNDV, RNDV_NBYTES, RNDV_NBYTES - BTL_NBYTES, total=asked.total, request=asked.request
    )
