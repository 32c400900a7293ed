"""Figures of a fabric against the papers' formulas, and from cables that are not all alike."""

import itertools
from pathlib import Path
from statistics import fmean

import networkx as nx
import pytest

from gradwire.planning.fabrics.fabric import Fabric, Link
from gradwire.planning.fabrics.figures import figures, has_one_path, oversubscription, shortest_paths
from gradwire.planning.fabrics.spec import parse_fabric
from tests.made_graphs import graph

POD = Path(__file__).parents[2] / "docs" / "examples" / "pod.yaml"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        # hosts, switches, switch ports, cables, oversubscription, path counts, diameter
        ("fat-tree:k=4", (16, 20, 80, 48, 1.0, (1, 2, 4), 5)),
        ("fat-tree:k=8", (128, 80, 640, 384, 1.0, (1, 4, 16), 5)),
        ("fat-tree:k=4,levels=2", (8, 6, 24, 16, 1.0, (1, 2), 3)),
        ("leaf-spine:leaves=4,spines=2,hosts=8", (32, 6, 48, 40, 4.0, (1, 2), 3)),
        ("bigraph:n=4,m=2", (8, 4, 16, 12, 1.0, (1, 2), 3)),
        ("bigraph:n=8,m=2", (16, 8, 48, 32, 0.5, (1, 4), 3)),
        ("bigraph:n=4,m=1", (4, 4, 12, 8, 0.5, (1, 2), 3)),
        ("star:hosts=8", (8, 1, 8, 8, 1.0, (1,), 1)),
    ],
)
def test_the_figures_are_the_textbooks(spec: str, expected: tuple[object, ...]) -> None:
    f = figures(parse_fabric(spec))
    shown = (f.n_hosts, f.n_switches, f.n_ports, f.n_cables, f.oversubscription, f.n_paths, f.diameter)
    assert shown == expected


@pytest.mark.parametrize(
    ("spec", "radix", "mean"),
    [
        # A host's peers: below its own switch, in its pod, in others.
        ("fat-tree:k=4", 4, (1 * 1 + 2 * 3 + 12 * 5) / 15),
        ("fat-tree:k=8", 8, (3 * 1 + 12 * 3 + 112 * 5) / 127),
        # On its own switch, on the other side, on its own side.
        ("bigraph:n=8,m=2", 6, (1 * 1 + 8 * 2 + 6 * 3) / 15),
        ("star:hosts=8", 8, 1.0),
    ],
)
def test_radix_and_the_mean_number_of_switches_on_a_path_are_as_counted_by_hand(
    spec: str, radix: int, mean: float
) -> None:
    found = figures(parse_fabric(spec))
    assert found.radix == radix
    assert found.mean_switches == pytest.approx(mean)


@pytest.mark.parametrize(
    "spec", ["fat-tree:k=4", "leaf-spine:leaves=3,spines=2,hosts=2", "mesh:x=3,y=2", POD]
)
def test_paths_are_those_between_all_pairs_of_hosts(spec: str | Path) -> None:
    fabric = parse_fabric(str(spec))
    cables = graph(fabric)
    paths = [list(nx.all_shortest_paths(cables, *pair)) for pair in itertools.permutations(fabric.hosts, 2)]
    n_switches = [len(between[0]) - 2 for between in paths]
    numbers, diameter, mean = shortest_paths(fabric)
    assert (numbers, diameter) == (tuple(sorted(set(map(len, paths)))), max(n_switches))
    assert mean == pytest.approx(fmean(n_switches))


def test_of_leaves_some_alike_and_one_with_two_cables_all_pairs_of_hosts_count() -> None:
    """Pairs: one at `left`, two from there to `right`, and by two paths three to `far`."""
    at = {"h0": "left", "h1": "left", "h2": "right", "h3": "far"}
    links = [Link(host, 0, leaf, 10 + n, 10**6) for n, (host, leaf) in enumerate(at.items())]
    uplinks = enumerate(["left", "right", "far", "far"])
    links += [Link(leaf, 20 + n, "spine", 1 + n, 10**6) for n, leaf in uplinks]
    fabric = Fabric("made:", "made", {}, tuple(at), ("left", "right", "far", "spine"), tuple(links))
    numbers, diameter, mean = shortest_paths(fabric)
    assert (numbers, diameter) == ((1, 2), 3)
    assert mean == pytest.approx((1 + 5 * 3) / 6)


def test_a_slower_uplink_is_oversubscribed() -> None:
    assert oversubscription(parse_fabric("fat-tree:k=4,uplink_rate=25M")) == 4.0


def test_the_worst_even_cut_of_the_example_is_what_its_comment_says() -> None:
    found = figures(parse_fabric(str(POD)))
    assert found.worst_ratio == 4.0
    assert found.oversubscription == 2.0
    assert found.bisection.near == ("rack0", "rack1", "row0", "row1")


@pytest.mark.parametrize(("n", "m"), [(4, 2), (6, 3), (8, 4), (10, 5), (16, 8), (32, 16)])
def test_with_as_many_hosts_as_links_across_a_bigraphs_worst_even_cut_is_2_to_1(n: int, m: int) -> None:
    found = figures(parse_fabric(f"bigraph:n={n},m={m}"))
    assert found.oversubscription == 1.0
    # With an odd number of switches on each side no cut halves both: (half^2 + 1)/2 cables are severed.
    severed = n * n / 8 if n % 4 == 0 else ((n // 2) ** 2 + 1) / 2
    assert found.worst_ratio == pytest.approx(n * m / 2 / severed)


@pytest.mark.parametrize(
    ("leaves", "spines", "hosts", "ratio"), [(4, 4, 4, 1), (8, 2, 4, 2), (2, 1, 7, 7), (6, 3, 4, 4 / 3)]
)
def test_a_leaf_spines_worst_even_cut_is_as_bad_as_its_oversubscription(
    leaves: int, spines: int, hosts: int, ratio: float
) -> None:
    found = figures(parse_fabric(f"leaf-spine:leaves={leaves},spines={spines},hosts={hosts}"))
    assert found.worst_ratio == pytest.approx(ratio)
    assert found.oversubscription == pytest.approx(ratio)


@pytest.mark.parametrize("spec", ["fat-tree:k=4", "fat-tree:k=8", "fat-tree:k=16", "fat-tree:k=6,levels=2"])
def test_a_fat_tree_has_full_bisection(spec: str) -> None:
    found = figures(parse_fabric(spec))
    assert found.bisection.bps == found.full_bps == len(parse_fabric(spec).hosts) // 2 * 100_000_000


@pytest.mark.parametrize(
    ("spec", "is_so"),
    [
        ("star:hosts=4", True),
        ("leaf-spine:leaves=2,spines=1,hosts=2", True),
        ("leaf-spine:leaves=2,spines=2,hosts=2", False),
        ("bigraph:n=4,m=2", False),
    ],
)
def test_two_hosts_have_one_path_unless_they_meet_at_several_switches(spec: str, is_so: bool) -> None:
    assert has_one_path(parse_fabric(spec)) is is_so
