"""The interface of a collective's algorithm: its sends, its closed form, and the ranks that it refuses."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from gradwire.traces.schedules.hints import Hints
from gradwire.traces.schedules.kinds import CollectiveKind
from gradwire.traces.schedules.names import EARLY
from gradwire.traces.schedules.schedule import Op
from gradwire.traces.schedules.sends import Send, Sends

SendsOf = Callable[[int, int, Hints], Sequence[Send]]
ClosedForm = Callable[[int, int, float, float, Hints], float | None]
Exactness = Callable[[int, Hints], bool]
Servers = int | Literal["leaf"]
"""How many ranks an algorithm has beside those whose data it adds up; `leaf`: one under each first switch."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One of the operations that do a collective one after the other: its sends are of operation 0.

    Each but the first has as its `source` the number of the stage that it carries on.
    """

    op: Op
    sends: Sends


StagesOf = Callable[[int, int, Hints], tuple[Stage, ...]]


def no_closed_form(p: int, nbytes: int, alpha: float, beta: float, hints: Hints, /) -> None:
    """For an algorithm whose time no formula says."""
    del p, nbytes, alpha, beta, hints


def always(n_ranks: int, hints: Hints, /) -> bool:
    """Of a closed form that is the time of any ranks on any network."""
    del n_ranks, hints
    return True


def no_sends(n_ranks: int, nbytes: int, hints: Hints, /) -> tuple[Send, ...]:
    """For an algorithm that is done in stages."""
    del n_ranks, nbytes, hints
    return ()


def same_everywhere(sends: Callable[[int, int], Sequence[Send]]) -> SendsOf:
    """Of sends that ask nothing of the network."""
    return lambda n_ranks, nbytes, _: sends(n_ranks, nbytes)


def everywhere_s(time_s: Callable[[int, int, float, float], float]) -> ClosedForm:
    """Of a time in which nothing of the network counts."""
    return lambda p, nbytes, alpha, beta, _: time_s(p, nbytes, alpha, beta)


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A way to do a collective of all ranks.

    `sends(n_ranks, nbytes, hints)` has the sends of one operation, number 0, with ids from 0 on; it raises
    NotServedError for ranks, or a network, that it cannot serve.  `time_s(p, nbytes, alpha, beta, hints)` is
    its closed form in seconds, of p ranks that it serves: a message costs `alpha`, a byte on a host's link
    `beta`, adding nothing, and no two hosts share a link; None where there is no such formula.
    `closed_form` is that formula for a person, with the short name of its source; S are the bytes of a rank.

    `servers` are further ranks, on hosts of their own, that follow these: they take part and give nothing.
    With them the hints' leaves and rates are of all ranks, servers included.

    The sends get what they have to wait for by `pace` (traces.schedules.pacing) if the user chooses no other;
    None: they say it themselves.  The closed form is of that pace, of `closed_pace` if it is given,
    or of any with `any_pace`.  It is
    the time where `is_exact(p, hints)`, else at most that.

    With `stages(n_ranks, nbytes, hints)` an allreduce is done by several operations one after the other, and
    `sends` is left out.  These send pairs of an index and a value, or carry on such (planning.stagecheck).
    """

    name: str
    sends: SendsOf = no_sends
    time_s: ClosedForm = no_closed_form
    closed_form: str = ""
    collective: CollectiveKind = "allreduce"
    servers: Servers = 0
    pace: str | None = EARLY
    stages: StagesOf | None = None
    any_pace: bool = False
    closed_pace: str | None = None
    is_exact: Exactness = always

    def has_time_at(self, pace: str | None) -> bool:
        """Whether the closed form is of sends at this pace; None: at the algorithm's own."""
        own = self.pace or EARLY
        return self.any_pace or (pace or own) == (self.closed_pace or own)


class NotServedError(ValueError):
    """An algorithm that cannot serve these ranks, or this network; the text says why."""


def check_ranks(what: str, n_ranks: int) -> None:
    """Raise NotServedError for a rank that is alone; `what` names the algorithm."""
    if n_ranks < 2:
        raise NotServedError(f"{what} needs at least 2 ranks, got {n_ranks}")
