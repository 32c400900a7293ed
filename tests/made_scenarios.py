"""Made-up lives of a switch: requests, cut cables, packets, and again.  Values only."""

from dataclasses import dataclass, replace

from hypothesis import strategies as st

from tests.made_frames import Frame, frames
from tests.made_rules import (
    GROUPS,
    PORTS,
    Change,
    Fields,
    ToGroup,
    additions,
    deletions,
    group_changes,
    modifications,
    one,
)


@dataclass(frozen=True)
class Phase:
    """The requests come first, then the cables of `down` are cut, then the packets come."""

    changes: tuple[Change, ...]
    down: frozenset[int]
    frames: tuple[Frame, ...]


@st.composite
def scenarios(draw: st.DrawFn) -> tuple[Phase, ...]:
    """Some phases; later ones modify and delete what earlier ones have added."""
    known: list[tuple[Fields, int]] = []
    phases: list[Phase] = []
    for _ in range(draw(st.integers(1, 3))):
        changes: list[Change] = []
        if not phases:  # most of what needs a group shall find it
            changes += [draw(group_changes(number)) for number in GROUPS[:2]]
        changes += [draw(_change(known)) for _ in range(draw(st.integers(2, 14)))]
        is_cut = draw(st.booleans())
        down = draw(st.frozensets(one(PORTS), min_size=1, max_size=2)) if is_cut else frozenset()
        sent = draw(st.lists(frames([match for match, _ in known]), min_size=5, max_size=16))
        phases.append(
            Phase(tuple(changes), down, tuple(frame for frame in sent if frame.in_port not in down))
        )
    return tuple(phases)


@st.composite
def _change(draw: st.DrawFn, known: list[tuple[Fields, int]]) -> Change:
    """A request; what it adds is known afterwards, and aimed at the more if it leads to a group."""
    match draw(one("aaaaaaaaagggmmmdd")):
        case "a":
            added = draw(additions())
            if known and draw(st.integers(0, 2)) == 0:  # a known match again, above or beneath itself
                match, priority = draw(one(known))
                added = replace(added, match=match, priority=draw(st.integers(0, 2)) * 16 + priority % 16)
            weight = 4 if any(isinstance(action, ToGroup) for action in added.actions) else 1
            known += [(added.match, added.priority)] * weight
            return added
        case "g":
            return draw(group_changes())
        case "m":
            return draw(modifications(tuple(known)))
        case _:
            return draw(deletions(tuple(known)))
