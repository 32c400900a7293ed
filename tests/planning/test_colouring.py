"""Edge colourings against the theorems: König's for simple ends, de Werra's for crowded ones."""

from collections import Counter, defaultdict

from hypothesis import given
from hypothesis import strategies as st

from gradwire.planning.routing.colouring import balanced_colours

EDGES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=60)


@given(EDGES, st.integers(1, 9), st.integers(0, 100))
def test_at_a_vertex_no_colour_is_used_two_times_more_than_another(
    edges: list[tuple[int, int]], n_colours: int, first: int
) -> None:
    colours = balanced_colours(edges, n_colours, first)
    assert all(0 <= colour < n_colours for colour in colours)
    for side in (0, 1):
        at: defaultdict[int, Counter[int]] = defaultdict(Counter)
        for edge, colour in zip(edges, colours, strict=True):
            at[edge[side]][colour] += 1
        for used in at.values():
            counts = [used[colour] for colour in range(n_colours)]
            assert max(counts) - min(counts) <= 1


@given(EDGES)
def test_as_many_colours_as_edges_at_the_busiest_vertex_are_enough(edges: list[tuple[int, int]]) -> None:
    degree = max([*Counter(a for a, _ in edges).values(), *Counter(b for _, b in edges).values()], default=1)
    colours = balanced_colours(edges, degree)
    for side in (0, 1):
        assert len({(edge[side], colour) for edge, colour in zip(edges, colours, strict=True)}) == len(edges)


def test_the_most_important_edges_of_a_vertex_get_different_colours() -> None:
    # Three large flows, then nine small ones from one switch: no plane may get two of the large ones.
    colours = balanced_colours([(0, right) for right in range(12)], 3)
    assert sorted(colours[:3]) == [0, 1, 2]
    assert Counter(colours) == {0: 4, 1: 4, 2: 4}


def test_no_edges_have_no_colours() -> None:
    assert balanced_colours([], 3) == []
