"""Algorithms by collective and name: one table of the built-in ones, and those of installed packages.

docs/collectives.md shows how to write one.
"""

from collections.abc import Sequence

from gradwire.traces import plugins
from gradwire.traces.schedules.algorithm import (
    Algorithm,
    ClosedForm,
    NotServedError,
    Servers,
    everywhere_s,
    no_closed_form,
)
from gradwire.traces.schedules.algorithms.alltoall import (
    bruck_alltoall,
    bruck_s,
    even,
    hierarchical_alltoall,
    hierarchical_s,
    pairwise_alltoall,
    pairwise_s,
)
from gradwire.traces.schedules.algorithms.trees import (
    SHAPES,
    binomial_s,
    broadcast,
    chain_s,
    flat_s,
    reduce,
)
from gradwire.traces.schedules.allreduces import ALLREDUCES, FAMILIES
from gradwire.traces.schedules.halves import ALLGATHERS, REDUCESCATTERS
from gradwire.traces.schedules.hints import Hints
from gradwire.traces.schedules.kinds import CollectiveKind
from gradwire.traces.schedules.names import BRUCK, PAIRWISE, STEP, algorithm_names, family_of, of_packages
from gradwire.traces.schedules.networks import even_leaves, even_leaves_s
from gradwire.traces.schedules.sends import Send
from gradwire.traces.units import not_one_of
from gradwire.traces.workload import Shape

_TIMES: dict[Shape, tuple[ClosedForm, str]] = {
    "flat": (everywhere_s(flat_s), "α + (p−1)Sβ (derived)"),
    "binomial": (
        everywhere_s(binomial_s),
        "⌈lg p⌉(α + Sβ) (Chan et al. 2007)",
    ),
    "chain": (
        everywhere_s(chain_s),
        "(p−1)(α + Sβ) (derived)",
    ),
}
_NO_TIME: tuple[ClosedForm, str] = (no_closed_form, "")


def _pairwise(n_ranks: int, nbytes: int, hints: Hints) -> Sequence[Send]:
    return pairwise_alltoall(nbytes, hints.sizes or even(n_ranks, nbytes))


def _bruck(n_ranks: int, nbytes: int, hints: Hints) -> Sequence[Send]:
    _check_even(BRUCK, hints)
    return bruck_alltoall(n_ranks, nbytes)


def _hierarchical(n_ranks: int, nbytes: int, hints: Hints) -> Sequence[Send]:
    _check_even("hierarchical", hints)
    return hierarchical_alltoall(even_leaves("a hierarchical alltoall", n_ranks, hints, PAIRWISE), nbytes)


def _check_even(name: str, hints: Hints) -> None:
    if hints.sizes:
        raise NotServedError(f"{name} is for blocks of one size; for uneven ones choose {PAIRWISE}")


ALLTOALLS = (  # what is posted at once has no pace
    Algorithm(
        PAIRWISE,
        _pairwise,
        lambda p, n, a, b, hints: pairwise_s(hints.sizes or even(p, n), a, b),
        "α + nβ, n bytes of the busiest rank: (p−1)/p·S of even blocks (derived)",
        collective="alltoall",
        any_pace=True,
        pace=None,
    ),
    Algorithm(
        BRUCK,
        _bruck,
        everywhere_s(bruck_s),
        "lg p (α + S/2·β), for other p than powers of two the blocks that move (Thakur et al. 2005)",
        collective="alltoall",
        pace=STEP,
    ),
    Algorithm(
        "hierarchical",
        _hierarchical,
        even_leaves_s(hierarchical_s),
        "2α + ((m−1)g + (g−1)m)S/p·β, p = mg (derived)",
        collective="alltoall",
        pace=STEP,
    ),
)


def _broadcast(shape: Shape) -> Algorithm:
    return Algorithm(
        f"tree:{shape}",
        lambda n_ranks, nbytes, _: broadcast(n_ranks, nbytes, 0, shape),
        *_TIMES.get(shape, _NO_TIME),
        collective="broadcast",
        any_pace=shape == "chain",
        pace=STEP,  # else a rank's children share its link, and the first is as late as the last
    )


def _reduce(shape: Shape) -> Algorithm:
    return Algorithm(
        f"tree:{shape}",
        lambda n_ranks, nbytes, _: reduce(n_ranks, nbytes, 0, shape),
        *_TIMES.get(shape, _NO_TIME),
        collective="reduce",
        any_pace=shape == "chain",
    )


BROADCASTS = tuple(map(_broadcast, SHAPES))
REDUCES = tuple(map(_reduce, SHAPES))


def algorithm(name: str, collective: CollectiveKind = "allreduce") -> Algorithm:
    """The algorithm of this name for this collective.

    Raise NotServedError for one that does another collective, ValueError for a name that neither gradwire nor
    an installed package offers, for values that an algorithm of a family cannot have, or where a package
    offers something else.
    """
    if (collective, name) in BUILT_IN:
        return BUILT_IN[collective, name]
    does = [kind for kind, known in BUILT_IN if known == name]
    if not does and (found := _of_family(name) or _of_package(name)):
        if found.collective == collective:
            return found
        does = [found.collective]
    choices = ", ".join(algorithm_names(collective))
    if does:
        known = " and ".join(filter(None, (", ".join(does[:-1]), does[-1])))
        raise NotServedError(f"{name} does {known}, not {collective}; choose from {choices}")
    raise ValueError(not_one_of("algorithm", name, algorithm_names(collective)))


def servers_of(name: str) -> Servers:
    """The further ranks that an algorithm has (`Algorithm.servers`); 0 for a name that nobody offers.

    Raise ValueError for values that an algorithm of a family cannot have.
    """
    found = _of_family(name) or _of_package(name)
    return found.servers if found else 0


def _of_family(name: str) -> Algorithm | None:
    found = family_of(name)
    return FAMILIES[found[0]](found[1]) if found else None


def _of_package(name: str) -> Algorithm | None:
    packages = of_packages()
    if name not in packages:
        return None
    loaded = plugins.loaded(packages[name])
    if not isinstance(loaded, Algorithm):
        raise ValueError(
            f"algorithm {name!r}: its package must offer an Algorithm, and {packages[name].value} is a "
            f"{type(loaded).__name__}"
        )
    return loaded


BUILT_IN: dict[tuple[CollectiveKind, str], Algorithm] = {
    (each.collective, each.name): each
    for each in (*ALLREDUCES, *REDUCESCATTERS, *ALLGATHERS, *BROADCASTS, *REDUCES, *ALLTOALLS)
}
