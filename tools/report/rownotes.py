"""The notes below a table of rows: why rows are refused, not valid or slow, each thing said once."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gradwire.planning.model.errorbar import Bar
from gradwire.planning.plan import ADAPTIVE
from gradwire.results.row import Row, Spread
from gradwire.traces.units import show_count, show_first, show_s

MOST_NAMED = 4  # rows of one note, and sizes of one row
_FIGURE = re.compile(r"(?<![\w.])(\d{1,9})(?: to (\d{1,9}))?(?=%| ms)")
REASON, DOUBT, EVENT, WHY, ITERATION = range(5)  # the first come first


@dataclass(frozen=True, slots=True)
class _Note:
    rank: int
    kind: str
    text: str


def notes(rows: Sequence[Row]) -> list[str]:
    """`not valid (the machine): star, ring, linear, ecmp: the machine stalled for 80 ms`; the same note of
    several rows is one that names them.  Reasons and doubts may differ in whole percentages and milliseconds.
    """
    found: dict[_Note, list[tuple[int, str]]] = {}
    for number, row in enumerate(rows):
        for note in dict.fromkeys(_notes_of(row)):
            same = replace(note, text=_FIGURE.sub("#", note.text)) if note.rank <= DOUBT else note
            found.setdefault(same, []).append((number, note.text))
    names = row_names(rows)
    ordered = sorted(found.items(), key=lambda each: each[0].rank)
    return [
        f"{note.kind}: {_who([*dict.fromkeys(number for number, _ in some)], rows, names)}: "
        f"{_spanned([text for _, text in some])}"
        for note, some in ordered
    ]


def _spanned(texts: Sequence[str]) -> str:
    """Texts that differ in figures alone as one, with the span of each."""
    figures = [[(int(a), int(b or a)) for a, b in _FIGURE.findall(text)] for text in texts]
    spans = iter(
        [(min(low for low, _ in each), max(high for _, high in each)) for each in zip(*figures, strict=True)]
    )

    def span(_: re.Match[str]) -> str:
        low, high = next(spans)
        return str(low) if low == high else f"{low} to {high}"

    return _FIGURE.sub(span, texts[0])


def _notes_of(row: Row) -> Iterator[_Note]:
    yield from (_Note(REASON, verdict, reason) for verdict, reason in row.reason_lines())
    yield from (_Note(DOUBT, "note", warning) for warning in row.warnings)
    yield from (_Note(EVENT, "note", failure) for failure in row.failure_lines())
    if row.flows_may_move and row.time_s:
        yield _Note(EVENT, "note", as_planned(row))
    if row.settled_s:
        yield _Note(EVENT, "note", settling_words(row.settled_s))
    yield from (_Note(EVENT, "note", f"done by the hosts: {reason}") for reason in row.host_side)
    if row.idle_of:
        yield _Note(EVENT, "note", machine_words(row.idle_of))
    if row.dropped:
        yield _Note(EVENT, "note", f"{show_count(row.dropped, 'packet')} dropped in the fabric's queues")
    if row.why:
        yield _Note(WHY, "why", row.why)
    if row.iteration_s and row.exposed_s is not None:
        yield _Note(ITERATION, "iteration", iteration_words(row))


def row_names(rows: Sequence[Row]) -> list[str]:
    """What a note calls each row: family, algorithm, placement and routes; the fabric's spec in place of its
    family where several fabrics are of one.
    """
    specs: dict[str, set[str]] = {}
    for row in rows:
        specs.setdefault(_family(row), set()).add(row.fabric)
    fabrics = [_family(row) if len(specs[_family(row)]) == 1 else row.fabric for row in rows]
    return [
        f"{fabric}, {row.algorithm}, {row.placement}, {row.routes}"
        for fabric, row in zip(fabrics, rows, strict=True)
    ]


def _family(row: Row) -> str:
    return row.fabric.partition(":")[0]


def _who(some: Sequence[int], rows: Sequence[Row], names: Sequence[str]) -> str:
    """The rows' names, with sizes where a note is of some sizes only."""
    if len(some) == len(rows) > 1:
        return f"all {len(rows)} rows"
    shown = []
    for name in dict.fromkeys(names[number] for number in some):
        sizes = [rows[number].bytes for number in some if names[number] == name]
        has_others = len(sizes) < names.count(name)
        shown.append(f"{name} ({_sizes(sizes)})" if has_others else name)
    return show_first(shown, MOST_NAMED, "; ")


def _sizes(sizes: Sequence[int]) -> str:
    return show_first([f"{nbytes} B" for nbytes in sizes], MOST_NAMED)


def machine_words(idle_of: Mapping[str, float]) -> str:
    """Which machines carried a row, and which was nearest to its limit."""
    shares = ", ".join(f"{name} with {idle:.0%} idle" for name, idle in idle_of.items())
    return f"carried by {shares}: {min(idle_of, key=idle_of.__getitem__)} is the limit"


def iteration_words(row: Row) -> str:
    """How long one is, and should be, for a person."""
    time, exposed_s = row.iteration_s, row.exposed_s or 0.0
    assert time
    spread = f" ({show_s(time.low)} to {show_s(time.high)}, n = {time.n})" if time.n > 1 else ""
    words = f"{show_s(time.median)}{spread} from start to start; no computing hides {show_s(exposed_s)} of it"
    if row.predicted_iteration is None or row.predicted_exposed is None or row.flows_may_move:
        return words
    return f"{words}; predicted: {show_bar(row.predicted_iteration)} and {show_bar(row.predicted_exposed)}"


def show_bar(bar: Bar) -> str:
    spread = f" ({show_range(bar)})" if bar.low_s is not None else ""
    return f"{show_s(bar.predicted_s)}{spread}"


def show_range(bar: Bar) -> str:
    """From where to where it goes; empty without a bar."""
    if bar.low_s is None or bar.high_s is None:
        return ""
    return f"{show_s(bar.low_s)} to {show_s(bar.high_s)}"


def as_planned(row: Row) -> str:
    """What the figures from the plan do not know, of a row whose flows may have left their paths."""
    unknown = ("the failures", row.failures), ("what the controller moved", row.routes == ADAPTIVE)
    what = " and ".join(text for text, is_so in unknown if is_so)
    return f"prediction and worst link are of the paths as planned; they do not know of {what}"


def settling_words(settled_s: Spread) -> str:
    """When the controller moved flows for the last time, for a person."""
    if not settled_s.max:
        return "the controller moved no flow"
    words = f"flows moved until {show_s(settled_s.median)} after the start"
    return words if settled_s.min == settled_s.max else f"{words} (at most {show_s(settled_s.max)})"
