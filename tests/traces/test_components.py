"""Components of graphs, against what their definition says."""

from hypothesis import given
from hypothesis import strategies as st

from gradwire.traces.components import components

NODES = st.integers(0, 9)


@given(st.lists(NODES, unique=True), st.lists(st.tuples(NODES, NODES)))
def test_each_node_is_in_one_component_and_edges_stay_inside(
    nodes: list[int], edges: list[tuple[int, int]]
) -> None:
    found = components(nodes, edges)
    place = {node: number for number, part in enumerate(found) for node in part}
    assert sorted(place) == sorted(nodes)
    assert sum(map(len, found)) == len(nodes)
    inside = [(a, b) for a, b in edges if a in place and b in place]
    assert all(place[a] == place[b] for a, b in inside)
    for part in found:  # no smaller part is closed: from the first node edges reach all
        reached = {part[0]}
        for _ in part:
            reached |= {b for a, b in inside if a in reached} | {a for a, b in inside if b in reached}
        assert reached == set(part)


def test_nodes_and_components_keep_their_order() -> None:
    assert components([3, 1, 4, 0, 5], [(0, 3), (5, 4), (4, 9)]) == [[3, 0], [1], [4, 5]]
