"""Recognises the algorithm of an operation from the pattern of its messages."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gradwire.traces.framing.frames import ALLREDUCE, BARRIER, BROADCAST
from gradwire.traces.recognition.lanes import Ahead
from gradwire.traces.recognition.patterns import Name, PatternMatch, allreduces
from gradwire.traces.recognition.tree_patterns import barriers, broadcasts, reductions

REDUCE = "reduce"
MAX_OVERTAKEN = 0.1  # of an instance's messages; more means that these are not the next ones
PATTERNS: dict[str, Callable[[Ahead], Iterator[PatternMatch]]] = {
    ALLREDUCE: allreduces,
    BROADCAST: broadcasts,
    REDUCE: reductions,
    BARRIER: barriers,
}


@dataclass(frozen=True)
class Recognised:
    """How sure, from 0 to 1, and the evidence in words with its figures."""

    name: Name
    confidence: float
    evidence: str


UNKNOWN = Recognised("unknown", 0.0, "its messages follow no pattern that is known")


def recognised(match: PatternMatch) -> Recognised:
    return Recognised(match.name, match.confidence, match.evidence)


def best_match(operation: str, ahead: Ahead) -> PatternMatch | None:
    """What the next messages of an operation of this name are.

    Of several the one that passes over the fewest messages, of its ranks and of any, then the surest, then
    the largest.
    """
    rated = []
    for place, match in enumerate(PATTERNS[operation](ahead)):
        taken = sum(match.counts.values())
        overtaken = ahead.overtaken(match.counts)
        if overtaken <= MAX_OVERTAKEN * taken:
            between = ahead.interleaved(match.counts)
            rated.append(((overtaken, between, -match.confidence, -taken, place), match))
    return min(rated, key=lambda one: one[0])[1] if rated else None
