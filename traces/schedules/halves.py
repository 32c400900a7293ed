"""The built-in algorithms of reducescatters and allgathers: halves of allreduces.

docs/collectives.md says what each costs.
"""

from collections.abc import Callable, Sequence
from functools import partial

from gradwire.traces.schedules.algorithm import (
    Algorithm,
    ClosedForm,
    Exactness,
    SendsOf,
    always,
    everywhere_s,
    same_everywhere,
)
from gradwire.traces.schedules.algorithms import allpairs, doubling, hierarchical, multitree, ring
from gradwire.traces.schedules.algorithms.graph import Graph
from gradwire.traces.schedules.hints import Hints
from gradwire.traces.schedules.kinds import CollectiveKind
from gradwire.traces.schedules.names import EARLY, STEP
from gradwire.traces.schedules.networks import (
    even_leaves,
    even_leaves_s,
    needed_graph,
    needed_grid,
    trees_refused,
)
from gradwire.traces.schedules.sends import Send

OfGroups = Callable[[hierarchical.Groups, int], Sequence[Send]]
OfGraph = Callable[[Graph, int], Sequence[Send]]
ANY_PACE = ("ring", "all-pairs")


def _in_leaves(make: OfGroups) -> SendsOf:
    return lambda n_ranks, nbytes, hints: make(even_leaves("a hierarchy", n_ranks, hints), nbytes)


def _in_rows(make: OfGroups) -> SendsOf:
    return lambda n_ranks, nbytes, hints: make(hierarchical.rows_of(*needed_grid(n_ranks, hints)), nbytes)


def _along_trees(make: OfGraph) -> SendsOf:
    def sends(n_ranks: int, nbytes: int, hints: Hints) -> Sequence[Send]:
        with trees_refused():
            return make(needed_graph(n_ranks, hints), nbytes)

    return sends


def _grid_s(p: int, nbytes: int, alpha: float, beta: float, hints: Hints) -> float:
    rows, columns = needed_grid(p, hints)
    return hierarchical.half_s(columns, rows, nbytes, alpha, beta)


def _trees_s(reference: bool) -> ClosedForm:
    return lambda p, nbytes, alpha, beta, hints: multitree.half_s(
        multitree.grow(needed_graph(p, hints), reference=reference), nbytes, alpha, beta
    )


def _trees_fill(reference: bool) -> Exactness:
    return lambda p, hints: multitree.fills_links(multitree.grow(needed_graph(p, hints), reference=reference))


_EXACT = {
    "multitree": _trees_fill(reference=False),
    "multitree:reference": _trees_fill(reference=True),
}


def _halves(
    collective: CollectiveKind,
    of_ring: Callable[[int, int], Sequence[Send]],
    of_doubling: Callable[..., Sequence[Send]],
    of_all_pairs: Callable[[int, int], Sequence[Send]],
    of_groups: OfGroups,
    of_trees: Callable[..., Sequence[Send]],
) -> tuple[Algorithm, ...]:
    near, far = (partial(of_doubling, near_first=near_first) for near_first in (True, False))
    doubled, two_levels = everywhere_s(doubling.half_s), "(m+g−2)α + (p−1)/p·Sβ, p = mg (derived)"
    trees, reference = of_trees, partial(of_trees, reference=True)
    thakur, huang = "(Thakur et al. 2005)", "τS/p·β + Dα (Huang et al. 2021, derived)"
    made: tuple[tuple[str, SendsOf, ClosedForm, str, str], ...] = (
        (
            "ring",
            same_everywhere(of_ring),
            everywhere_s(ring.half_s),
            f"(p−1)α + (p−1)/p·Sβ {thakur}",
            EARLY,
        ),
        ("halving-doubling", same_everywhere(near), doubled, f"lg p·α + (p−1)/p·Sβ {thakur}", STEP),
        ("halving-doubling:far", same_everywhere(far), doubled, f"lg p·α + (p−1)/p·Sβ {thakur}", STEP),
        (
            "all-pairs",
            same_everywhere(of_all_pairs),
            everywhere_s(allpairs.half_s),
            "α + (p−1)/p·Sβ (derived)",
            EARLY,
        ),
        ("hierarchical", _in_leaves(of_groups), even_leaves_s(hierarchical.half_s), two_levels, STEP),
        ("hierarchical:grid", _in_rows(of_groups), _grid_s, two_levels, STEP),
        ("multitree", _along_trees(trees), _trees_s(reference=False), huang, EARLY),
        ("multitree:reference", _along_trees(reference), _trees_s(reference=True), huang, EARLY),
    )
    return tuple(
        Algorithm(
            name,
            sends,
            time_s,
            formula,
            collective,
            pace=pace,
            any_pace=name in ANY_PACE,
            is_exact=_EXACT.get(name, always),
        )
        for name, sends, time_s, formula, pace in made
    )


REDUCESCATTERS = _halves(
    "reducescatter",
    ring.reduce_scatter,
    doubling.reduce_scatter,
    allpairs.reduce_scatter,
    hierarchical.hierarchical_reduce_scatter,
    multitree.reduce_scatter,
)
ALLGATHERS = _halves(
    "allgather",
    ring.all_gather,
    doubling.all_gather,
    allpairs.all_gather,
    hierarchical.hierarchical_all_gather,
    multitree.all_gather,
)
