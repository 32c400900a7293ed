"""Cutting collectives without tags into instances: messages made from schedules, their tags erased."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.traces.recognition.operations import operations
from gradwire.traces.schedules.algorithms.allpairs import all_pairs
from gradwire.traces.schedules.algorithms.doubling import halving_doubling, recursive_doubling
from gradwire.traces.schedules.algorithms.ring import ring
from gradwire.traces.schedules.algorithms.trees import SHAPES, broadcast, parents, reduce_broadcast
from gradwire.traces.schedules.sends import Send
from gradwire.traces.workload import Shape
from tests.made_messages import Call, played

Algorithm = Callable[[int, int], Sequence[Send]]


def segmented_ring(n_ranks: int, nbytes: int, phases: int = 3) -> list[Send]:
    """Open MPI's: the reduce-scatter of a textbook ring for each segment, then whole chunks."""
    sends: list[Send] = []
    steps = n_ranks - 1
    parts = ring(n_ranks, nbytes)
    ids: dict[tuple[int, int, int], int] = {}
    for phase in range(phases):
        for send in parts[: steps * n_ranks]:
            words = send.nbytes // 4
            size = (words * (phase + 1) // phases - words * phase // phases) * 4
            before = ids.get((phase, send.step - 1, (send.src - 1) % n_ranks))
            ids[phase, send.step, send.src] = len(sends)
            needs = () if before is None else (before,)
            sends.append(replace(send, nbytes=size, needs=needs, ready=()))
    for send in parts[steps * n_ranks :]:
        before = ids[phases - 1, send.step - 1, (send.src - 1) % n_ranks]
        ids[phases - 1, send.step, send.src] = len(sends)
        sends.append(replace(send, needs=(before,), ready=()))
    return sends


ALGORITHMS: dict[str, Algorithm] = {
    "ring": ring,
    "segmented-ring": segmented_ring,
    "recursive-doubling": recursive_doubling,
    "halving-doubling": halving_doubling,
    "all-pairs": all_pairs,
}
SIZES = (4096, 65_536, 65_536, 1_000_004, 120_000, 120_000, 120_000, 240_000, 480_000, 8192)


def found(n_ranks: int, calls: Sequence[Call], jitter: int = 0) -> list[tuple[str, str, int]]:
    some, _ = operations(played(n_ranks, calls, jitter=jitter), all_visible=True)
    return [(o.kind, o.recognised.name, o.nbytes) for o in some]


@pytest.mark.parametrize(
    ("name", "n_ranks"),
    # Of 3 ranks 2 would halve and double: twice recursive doubling of halves looks the same.
    [(name, n) for name in ALGORITHMS for n in range(3, 10) if (name, n) != ("halving-doubling", 3)],
)
def test_an_allreduce_is_cut_and_named_whatever_its_sizes(name: str, n_ranks: int) -> None:
    calls = [("allreduce", ALGORITHMS[name](n_ranks, nbytes)) for nbytes in SIZES]
    for jitter in (0, 1):
        assert found(n_ranks, calls, jitter) == [("allreduce", name, nbytes) for nbytes in SIZES]


def test_of_two_ranks_one_operation_a_message_where_halves_cannot_be_told_from_wholes() -> None:
    messages = played(2, [("allreduce", ring(2, 4000))] * 3)
    some, notes = operations(messages, all_visible=True)
    assert [(o.recognised.name, o.nbytes) for o in some] == [("recursive-doubling", 2000)] * 6
    assert any("may be parts of larger ones" in note for note in notes)
    uneven = played(2, [("allreduce", ring(2, 4004))] * 3)
    some, _ = operations(uneven, all_visible=True)
    assert [(o.recognised.name, o.nbytes) for o in some] == [("ring", 4004)] * 3


def test_what_the_captures_ends_cut_is_left_out_and_said() -> None:
    whole = played(4, [("allreduce", ring(4, 4000))] * 3)
    late = whole.where(list(range(5, len(whole) - 7)))  # type: ignore[arg-type]
    some, notes = operations(late, all_visible=True)
    assert all(o.kind == "allreduce" and o.nbytes == 4000 for o in some)
    assert len(some) < 3
    assert any("cut by the capture's ends" in note and "of allreduce" in note for note in notes)


@pytest.mark.parametrize("n_ranks", [4, 8])
def test_after_a_message_that_was_not_captured_the_next_rings_are_cut_right(n_ranks: int) -> None:
    whole = played(n_ranks, [("allreduce", ring(n_ranks, 80_000))] * 6, gap_ns=50_000)
    some, _ = operations(whole, all_visible=True)
    lost = next(i for i in range(len(whole)) if whole.first_ns[i] > some[1].begin_ns + 9_000)
    rest = whole.where([i for i in range(len(whole)) if i != lost])  # type: ignore[arg-type]
    found_, _ = operations(rest, all_visible=True)
    rings = [o for o in found_ if o.kind == "allreduce"]
    assert [(o.begin_ns, o.end_ns) for o in rings] == [(o.begin_ns, o.end_ns) for o in (some[0], *some[2:])]


def test_a_segmented_ring_whose_end_is_missing_is_no_small_ring() -> None:
    whole = played(8, [("allreduce", segmented_ring(8, 64_000, 4))] * 3)
    cut = whole.where(list(range(len(whole) - 100)))  # type: ignore[arg-type]
    some, _ = operations(cut, all_visible=True)
    assert [(o.recognised.name, o.nbytes) for o in some] == [("segmented-ring", 64_000)] * 2


def test_the_evidence_has_the_figures() -> None:
    some, _ = operations(played(4, [("allreduce", ring(4, 4000))]), all_visible=True)
    assert some[0].recognised.evidence == (
        "each of 4 ranks sends to one other only, round a ring: 6 messages of 1/4 of the buffer"
    )


@pytest.mark.parametrize("n_ranks", [4, 8])
def test_exchanges_far_first_are_halving_doubling_too(n_ranks: int) -> None:
    calls = [("allreduce", halving_doubling(n_ranks, nbytes)) for nbytes in SIZES[:3]]
    assert found(n_ranks, calls) == [("allreduce", "halving-doubling", nbytes) for nbytes in SIZES[:3]]


@given(
    st.integers(3, 9),
    st.lists(
        st.tuples(st.sampled_from(["ring", "recursive-doubling", "all-pairs"]), st.integers(50, 300_000))
    ),
    st.integers(0, 9),
)
def test_algorithms_that_change_from_call_to_call_are_told_apart(
    n_ranks: int, some: list[tuple[str, int]], jitter: int
) -> None:
    calls = [("allreduce", ALGORITHMS[name](n_ranks, 4 * words)) for name, words in some]
    if calls:
        assert found(n_ranks, calls, jitter) == [("allreduce", name, 4 * words) for name, words in some]


def up_and_down(sends: Sequence[Send]) -> list[Call]:
    """The two halves as Open MPI calls them, a reduction and a broadcast."""
    half = len(sends) // 2
    down = [replace(s, needs=tuple(i - half for i in s.needs if i >= half)) for s in sends[half:]]
    return [("reduce", sends[:half]), ("broadcast", down)]


@pytest.mark.parametrize("n_ranks", range(3, 10))
@pytest.mark.parametrize("down", SHAPES)
def test_a_reduction_and_its_broadcast_are_one_allreduce(down: Shape, n_ranks: int) -> None:
    up = SHAPES[(SHAPES.index(down) + 1) % len(SHAPES)]
    calls = [
        call for nbytes in SIZES for call in up_and_down(reduce_broadcast(n_ranks, nbytes, up=up, down=down))
    ]
    assert found(n_ranks, calls) == [("allreduce", "reduce-broadcast", nbytes) for nbytes in SIZES]


def segmented(sends: Sequence[Send], count: int) -> list[Send]:
    """Each send in `count` pieces, a piece passed on as soon as it is there."""
    return [
        replace(s, nbytes=s.nbytes // count, needs=tuple(o * count + i for o in s.needs))
        for s in sends
        for i in range(count)
    ]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n_ranks", range(2, 10))
def test_broadcasts_from_changing_roots_are_cut(shape: Shape, n_ranks: int) -> None:
    calls = [("broadcast", broadcast(n_ranks, 10_000, root % n_ranks, shape)) for root in range(5)]
    assert found(n_ranks, calls) == [("broadcast", "tree", 10_000)] * 5


@pytest.mark.parametrize("shape", ["flat", "chain", "binomial"])
def test_segments_belong_together_when_pauses_part_the_broadcasts(shape: Shape) -> None:
    calls = [("broadcast", segmented(broadcast(4, 80_000, 0, shape), 8)) for _ in range(5)]
    messages = played(4, calls, gap_ns=20_000_000)
    some, _ = operations(messages, all_visible=True)
    assert [(o.kind, o.nbytes, o.src) for o in some] == [("broadcast", 80_000, 0)] * 5


def test_equal_broadcasts_at_once_are_one_operation_each_and_that_is_said() -> None:
    messages = played(4, [("broadcast", broadcast(4, 1000))] * 6, gap_ns=0)
    some, notes = operations(messages, all_visible=True)
    assert [o.nbytes for o in some] == [1000] * 6
    assert any("nothing shows where one ends" in note for note in notes)


def test_a_barrier_is_left_out_and_said() -> None:
    linear = [Send(0, r, 0, 0, 0, reduce=False) for r in (1, 2, 3)]
    linear += [Send(0, 0, r, 0, 0, reduce=False, needs=(0, 1, 2)) for r in (1, 2, 3)]
    calls: list[Call] = [("barrier", linear), ("allreduce", ring(4, 4000))] * 3
    some, notes = operations(played(4, calls), all_visible=True)
    assert [o.kind for o in some] == ["allreduce"] * 3
    assert "left out, they carry nothing: 3 barriers" in notes


def test_messages_of_no_pattern_stay_messages_and_that_is_said() -> None:
    odd = [Send(0, 0, 2, 0, 500, reduce=False), Send(0, 1, 3, 0, 700, reduce=False)]
    some, notes = operations(played(4, [("allreduce", odd)]), all_visible=True)
    assert [(o.kind, o.nbytes) for o in some] == [("message", 500), ("message", 700)]
    assert any("no whole collective was found" in note for note in notes)


def test_a_tree_leads_from_every_rank_to_its_root() -> None:
    for shape in SHAPES:
        for n_ranks in range(2, 40):
            parent = parents(shape, n_ranks, root=1)
            for rank in range(n_ranks):
                at = rank
                for _ in range(n_ranks):
                    at = parent.get(at, at)
                assert at == 1
