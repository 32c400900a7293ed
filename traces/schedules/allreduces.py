"""The built-in algorithms of allreduces, and the families of those whose names have values in them.

docs/collectives.md says what each costs.  What switches add up is not here, as hosts do not send it to each
other (traces.schedules.algorithms.ina).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from gradwire.traces.schedules.algorithm import Algorithm, SendsOf, check_ranks, everywhere_s, same_everywhere
from gradwire.traces.schedules.algorithms.allpairs import all_pairs, all_pairs_s
from gradwire.traces.schedules.algorithms.compression import COMPRESSIONS, compressed
from gradwire.traces.schedules.algorithms.doubletree import (
    best_pieces,
    double_binary_tree,
    double_binary_tree_s,
)
from gradwire.traces.schedules.algorithms.doubling import (
    halving_doubling,
    halving_doubling_s,
    recursive_doubling,
    recursive_doubling_s,
)
from gradwire.traces.schedules.algorithms.hierarchical import (
    four_way_ring,
    four_way_ring_s,
    hierarchical,
    hierarchical_s,
    two_d_ring,
)
from gradwire.traces.schedules.algorithms.multitree import fills_links, grow, multitree, multitree_s
from gradwire.traces.schedules.algorithms.ring import ring, ring_s
from gradwire.traces.schedules.algorithms.servernames import server_algorithm
from gradwire.traces.schedules.algorithms.trees import binomial_s, chain_s, reduce_broadcast
from gradwire.traces.schedules.hints import Hints
from gradwire.traces.schedules.names import STEP
from gradwire.traces.schedules.networks import (
    even_leaves,
    even_leaves_s,
    needed_graph,
    needed_grid,
    trees_refused,
)
from gradwire.traces.schedules.sends import Send
from gradwire.traces.workload import Shape

STEP_S = 0.0005  # assumed of one step of a pipelined tree, to choose the number of pieces
# Early, two pieces of an edge are held back side by side, and both ways at once; with a quarter of the delay
# the time is within a quarter of the best at both paces (1 and 16 MiB, 5 and 50 ms, 8 and 16 ranks).
SHARE_OF_DELAY = 0.25


def _tree(shape: Shape) -> SendsOf:
    return lambda n_ranks, nbytes, _: reduce_broadcast(n_ranks, nbytes, up=shape, down=shape)


def _pieces(n_ranks: int, nbytes: int, hints: Hints) -> int:
    alpha_s = STEP_S + SHARE_OF_DELAY * hints.send_delay_s
    return best_pieces(n_ranks, nbytes, alpha_s, 8 / hints.host_bps)


def _double_binary_tree(n_ranks: int, nbytes: int, hints: Hints) -> Sequence[Send]:
    check_ranks("a double binary tree", n_ranks)
    return double_binary_tree(n_ranks, nbytes, _pieces(n_ranks, nbytes, hints))


def _hierarchical(n_ranks: int, nbytes: int, hints: Hints) -> Sequence[Send]:
    return hierarchical(even_leaves("a hierarchical allreduce", n_ranks, hints), nbytes)


def _on_grid(make: Callable[[int, int, int], Sequence[Send]]) -> SendsOf:
    return lambda n_ranks, nbytes, hints: make(*needed_grid(n_ranks, hints), nbytes)


def _two_d_ring_s(p: int, nbytes: int, alpha: float, beta: float, hints: Hints) -> float:
    rows, columns = needed_grid(p, hints)
    return hierarchical_s(columns, rows, nbytes, alpha, beta)


def _four_way_ring_s(p: int, nbytes: int, alpha: float, beta: float, hints: Hints) -> float | None:
    """Of a fabric that is a square grid: elsewhere a rank has no four links."""
    rows, columns = needed_grid(p, hints)
    return four_way_ring_s(rows, nbytes, alpha, beta) if hints.grid and rows == columns else None


def _multitree(name: str, *, reference: bool) -> Algorithm:
    def sends(n_ranks: int, nbytes: int, hints: Hints) -> Sequence[Send]:
        with trees_refused():
            return multitree(needed_graph(n_ranks, hints), nbytes, reference=reference)

    def time_s(p: int, nbytes: int, alpha: float, beta: float, hints: Hints) -> float:
        return multitree_s(grow(needed_graph(p, hints), reference=reference), nbytes, alpha, beta)

    return Algorithm(
        name,
        sends,
        time_s,
        "2(τS/p·β + Dα) (Huang et al. 2021, derived)",
        is_exact=lambda p, hints: fills_links(grow(needed_graph(p, hints), reference=reference)),
    )


_HALVING_DOUBLING = "2 lg q·α + 2(q−1)/q·Sβ, q = 2^⌊lg p⌋; if q < p, 3α + 2Sβ more (Thakur et al. 2005)"

ALLREDUCES = (
    Algorithm(
        "ring",
        same_everywhere(ring),
        everywhere_s(ring_s),
        "2(p−1)α + 2(p−1)/p·Sβ (Patarasuk, Yuan 2009)",
        any_pace=True,
    ),
    Algorithm(
        "halving-doubling",
        same_everywhere(halving_doubling),
        everywhere_s(halving_doubling_s),
        _HALVING_DOUBLING,
        pace=STEP,
    ),
    Algorithm(
        "halving-doubling:far",
        same_everywhere(partial(halving_doubling, near_first=False)),
        everywhere_s(halving_doubling_s),
        _HALVING_DOUBLING,
        pace=STEP,
    ),
    Algorithm(
        "recursive-doubling",
        same_everywhere(recursive_doubling),
        everywhere_s(recursive_doubling_s),
        "lg q (α + Sβ), q = 2^⌊lg p⌋; if q < p, 2(α + Sβ) more (Thakur et al. 2005)",
        pace=STEP,
    ),
    Algorithm(
        "all-pairs",
        same_everywhere(all_pairs),
        everywhere_s(all_pairs_s),
        "2α + 2(p−1)/p·Sβ (derived)",
        any_pace=True,
    ),
    Algorithm("tree:flat", _tree("flat")),
    Algorithm(
        "tree:binomial",
        _tree("binomial"),
        lambda p, n, a, b, _: 2 * binomial_s(p, n, a, b),
        "2⌈lg p⌉(α + Sβ) (Chan et al. 2007)",
        pace=STEP,
    ),
    Algorithm("tree:in-order-binomial", _tree("in-order-binomial"), pace=STEP),
    Algorithm(
        "tree:chain",
        _tree("chain"),
        lambda p, n, a, b, _: 2 * chain_s(p, n, a, b),
        "2(p−1)(α + Sβ) (derived)",
        any_pace=True,
    ),
    Algorithm("tree:binary", _tree("binary"), pace=STEP),
    Algorithm("tree:chains", _tree("chains"), pace=STEP),
    Algorithm(
        "double-binary-tree",
        _double_binary_tree,
        lambda p, n, a, b, hints: double_binary_tree_s(p, n, a, b, _pieces(p, n, hints)),
        "4(C+h−1)(α + S/(2C)·β), C pieces, h = ⌈lg p⌉ (Sanders et al. 2009)",
        closed_pace=STEP,
        is_exact=lambda *_: False,
    ),
    Algorithm(
        "hierarchical",
        _hierarchical,
        even_leaves_s(hierarchical_s),
        "2(m+g−2)α + 2(p−1)/p·Sβ, p = mg (derived)",
    ),
    Algorithm(
        "hierarchical:grid",
        _on_grid(two_d_ring),
        _two_d_ring_s,
        "2(m+g−2)α + 2(p−1)/p·Sβ, p = mg (Ying et al. 2018, derived)",
        any_pace=True,
    ),
    Algorithm(
        "2d-ring",
        _on_grid(four_way_ring),
        _four_way_ring_s,
        "4(a−1)(α + S/(4a)·β), p = a² (Huang et al. 2021, derived)",
    ),
    _multitree("multitree", reference=False),
    _multitree("multitree:reference", reference=True),
)
FAMILIES: Mapping[str, Callable[[str], Algorithm]] = {  # of what comes after the colon
    "ps": server_algorithm,
    **{name: partial(compressed, name) for name in COMPRESSIONS},
}
