"""What algorithms that are made for a network need to know of it; NotServedError says what would do."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gradwire.traces.schedules.algorithm import ClosedForm, NotServedError, check_ranks
from gradwire.traces.schedules.algorithms.graph import Graph
from gradwire.traces.schedules.hints import Hints, Leaves, grid_of


def even_leaves(what: str, n_ranks: int, hints: Hints, instead: str = "ring") -> Leaves:
    """At least 2 groups of ranks of one size, each under one first switch; `what` names the algorithm,
    `instead` one that works everywhere.
    """
    check_ranks(what, n_ranks)
    sizes = sorted({len(leaf) for leaf in hints.leaves})
    if len(sizes) != 1 or len(hints.leaves) == 1:
        have = "a single leaf" if hints.leaves else "none known"
        if len(sizes) > 1:
            have = f"leaves with {', '.join(map(str, sizes))} ranks"
        raise NotServedError(
            f"{what} needs at least 2 first switches with the same number of ranks each; here is {have}: "
            f"choose {instead}, or another number of ranks"
        )
    return hints.leaves


def even_leaves_s(time_s: Callable[[int, int, int, float, float], float]) -> ClosedForm:
    """Of the time of g groups of m ranks, `time_s(m, g, nbytes, alpha, beta)`."""

    def of_leaves_s(p: int, nbytes: int, alpha: float, beta: float, hints: Hints) -> float:
        g = len(hints.leaves)
        return time_s(p // g, g, nbytes, alpha, beta)

    return of_leaves_s


def needed_grid(n_ranks: int, hints: Hints) -> tuple[int, int]:
    """Rows and columns, at least 2 of each."""
    check_ranks("a grid", n_ranks)
    rows, columns = grid_of(n_ranks, hints)
    if min(rows, columns) < 2:
        raise NotServedError(
            "this algorithm needs at least 2 rows and 2 columns of ranks, and here "
            f"{n_ranks} ranks are a grid of {rows} by {columns}: choose ring, or another number of ranks"
        )
    return rows, columns


def needed_graph(n_ranks: int, hints: Hints) -> Graph:
    """The switches and links between the ranks."""
    check_ranks("MultiTree", n_ranks)
    if hints.graph is None:
        raise NotServedError("multitree is made for one fabric: name it with --fabric")
    return hints.graph


@contextmanager
def trees_refused() -> Iterator[None]:
    """What MultiTree cannot grow its trees on is a network that it does not serve."""
    try:
        yield
    except NotServedError:
        raise
    except ValueError as error:
        raise NotServedError(f"multitree cannot be made here: {error}") from error
