"""How sure each statement of an analysis is, and why."""

from collections.abc import Iterator
from dataclasses import dataclass

from gradwire.traces.analysis.analysis import Analysis
from gradwire.traces.units import show_count, show_nbytes, show_s


@dataclass(frozen=True)
class Statement:
    """Something that the report says; `confidence` from 0 to 1, None where there is no figure for it."""

    what: str
    confidence: float | None
    evidence: str


def statements(analysis: Analysis) -> tuple[Statement, ...]:
    return tuple(_statements(analysis))


def _statements(analysis: Analysis) -> Iterator[Statement]:
    for traffic in analysis.traffic:
        if traffic.training:
            some = show_count(traffic.connections, "connection speaks", "connections speak")
            what = f"{some} {traffic.framing}"
            yield Statement(what, traffic.confidence, traffic.evidence)
    if analysis.missing:
        yield Statement("no training was recognised", None, analysis.missing)
    if analysis.shape is not None:
        kind = analysis.shape.kind.replace("-", " ")
        yield Statement(f"the job's shape: {kind}", analysis.shape.confidence, analysis.shape.evidence)
    for use in analysis.algorithms:
        what = f"{use.kind}: {use.algorithm}, {use.count:,}×"
        yield Statement(what, use.confidence, use.evidence)
    if analysis.exposures:
        evidence = (
            "from outside: before an operation that a rank begins itself it computes, before one that it is "
            "sent, or as long as another rank has not begun, it waits; inside a host nothing can be seen"
        )
        yield Statement("compute, exposed communication, wait", None, evidence)
    if analysis.clocks:
        yield _clocks(analysis)
    yield _line(analysis)
    yield Statement("which link bounded it", None, analysis.job_bound.evidence)
    yield _kept(analysis)
    for note in analysis.notes:
        what, colon, evidence = note.partition(": ")
        yield Statement(what, None, evidence) if colon else Statement("note", None, note)


def _clocks(analysis: Analysis) -> Statement:
    if analysis.incomparable:
        return Statement("times of different hosts are not compared", None, analysis.incomparable)
    evidence = (
        f"within {show_s(analysis.clock_error_ns / 1e9)}, from the fastest packets of each way between them: "
        "none arrives before it was sent"
    )
    return Statement("times of different hosts can be compared", None, evidence)


def _line(analysis: Analysis) -> Statement:
    line = analysis.line_rate
    if line is None:
        return Statement("line rate", None, "not given, and no packets show a link that bounded the job")
    if line.source == "told":
        return Statement("line rate", 1.0, "as given with --line-rate")
    if line.source == "fabric":
        return Statement("line rate", 1.0, "of the fabric in the capture's manifest")
    evidence = (
        f"measured: the fastest rate of a link that packets show, {line.direction} at {line.host}, by their "
        "spacing and by trains of them; of frames with an MTU of 1500"
    )
    return Statement("line rate", None, evidence)


def _kept(analysis: Analysis) -> Statement:
    losses = analysis.losses
    dropped = [file.dropped for file in analysis.files if file.dropped is not None]
    drops = (
        f"{show_count(sum(dropped), 'packet')} dropped by the capture"
        if dropped
        else "the files do not say what was dropped"
    )
    unseen = f"{show_nbytes(losses.unseen_nbytes)} of the streams are in no file"
    gaps = show_count(losses.unresolved, "gap")
    unclear = f"{gaps} whose messages are unknown ({show_nbytes(losses.unresolved_nbytes)})"
    return Statement("what the captures lack", None, f"{drops}; {unseen}; {unclear}")
