"""What a study wants drawn: quantities over a choice, a line or a bar for each series, spans over seeds."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from gradwire.results.expectations import Selection, show_selection
from gradwire.results.outcomes import Subject, show_figure
from gradwire.results.quantities import QUANTITIES, Unit
from gradwire.results.studyresults import CellResult, SeedSummary
from gradwire.traces.units import not_one_of, show_nbytes

NUMBERS = ("size", "ranks")  # choices of which a chart has an axis; the others have names
NAMES = ("job", "fabric", "family", "algorithm", "placement", "routes")
FIGURES = tuple(name for name, quantity in QUANTITIES.items() if quantity.unit != "name")
MOST_SERIES = 24  # more lines nobody can distinguish
IDEALS = ("bound", "fabric_bound", "closed")  # what does not differ by seed or run: dashed


@dataclass(frozen=True, slots=True)
class Plot:
    """`y` are quantities of one unit over the choice `x`; `series` are the choices that name a line or a bar,
    empty for those that are needed.  Of the cells that fit `where`.
    """

    y: tuple[str, ...]
    x: str
    series: tuple[str, ...] = ()
    where: Selection = field(default_factory=dict)
    log: bool = False
    title: str = ""

    @property
    def shown_title(self) -> str:
        """As somebody wrote it, or what is drawn."""
        what = f"{' and '.join(self.y)} {'over' if self.x in NUMBERS else 'by'} {self.x}"
        where = f", where {show_selection(self.where)}" if self.where else ""
        return self.title or what[0].upper() + what[1:] + where

    @property
    def unit(self) -> Unit:
        return QUANTITIES[self.y[0]].unit


def plot_of(
    y: Sequence[str], x: str, series: Sequence[str], where: Selection, *, log: bool, title: str
) -> Plot:
    """Raise ValueError for what cannot be drawn of any study."""
    for name in y:
        if name not in FIGURES:
            raise ValueError(not_one_of("quantity", name, FIGURES))
    units = {QUANTITIES[name].unit for name in y}
    if len(units) > 1:
        raise ValueError(f"{' and '.join(y)} have different units and cannot share an axis: write two plots")
    for name in (x, *series):
        if name not in (*NUMBERS, *NAMES):
            raise ValueError(not_one_of("choice", name, (*NUMBERS, *NAMES)))
    if x in series:
        raise ValueError(f"{x} is x already; leave it out of series")
    return Plot(tuple(y), x, tuple(series), where, log, title)


@dataclass(frozen=True, slots=True)
class Choice:
    """What a combination of choices is to a plot; `size` in bytes, 0 if that is not known."""

    subject: Subject
    ranks: int
    size: int

    def value(self, name: str) -> int | str:
        match name:
            case "size":
                return self.size
            case "ranks":
                return self.ranks
            case "fabric":
                return self.subject.fabrics[-1]
            case "family":
                return self.subject.fabrics[0].partition(":")[0]
        return str(getattr(self.subject, name))

    def shown(self, name: str) -> str:
        value = self.value(name)
        if name == "ranks":
            return f"{value} ranks"
        return show_nbytes(value) if isinstance(value, int) else value


def chosen_series(plot: Plot, choices: Sequence[Choice], *, is_run: bool) -> tuple[str, ...]:
    """The choices that name a series, of the cells that fit.

    Raise ValueError where cells of one series have one x, or a quantity is not known of such cells.
    """
    for name in plot.y:
        quantity = QUANTITIES[name]
        if (quantity.measured if is_run else quantity.planned) is None:
            when = "of a lab with mode: plan" if is_run else "after a run, and this lab has mode: plan"
            raise ValueError(f"{name} is only known {when}")
    fitting = [each for each in choices if each.subject.fits(plot.where)]
    if not fitting:
        raise ValueError(f"no cell has {show_selection(plot.where)}")
    if plot.series:
        if missing := _missing(fitting, (plot.x, *plot.series)):
            raise ValueError(
                f"series {', '.join(plot.series)} has several cells at one {plot.x}: add {missing} to it, or "
                "choose with where"
            )
        return plot.series
    taken = [
        name
        for name in ("job", "family", "algorithm", "placement", "routes", "size")
        if name != plot.x and not (plot.x == "fabric" and name == "family") and _varies(fitting, name)
    ]
    if _missing(fitting, (plot.x, *taken)) and plot.x != "fabric":
        taken = ["fabric", *(name for name in taken if name != "family")]
    if _missing(fitting, (plot.x, *taken)):
        taken.append("ranks")
    return tuple(taken)


def _varies(choices: Sequence[Choice], name: str) -> bool:
    return len({each.value(name) for each in choices}) > 1


def _missing(choices: Sequence[Choice], names: Sequence[str]) -> str:
    """A choice by which two differ that are alike in these; empty if there are no such two."""
    seen: dict[tuple[int | str, ...], Choice] = {}
    for each in choices:
        other = seen.setdefault(tuple(each.value(name) for name in names), each)
        if other is not each:
            differ = (name for name in (*NAMES, *NUMBERS) if each.value(name) != other.value(name))
            return next(differ, "seed")
    return ""


@dataclass(frozen=True, slots=True)
class Point:
    """The span of a figure over seeds at one x; `is_valid` if all its rows are."""

    x: int | str
    least: float
    mean: float
    most: float
    is_valid: bool

    def words(self, unit: Unit) -> str:
        """`1.23 s, 1.2 s to 1.3 s`."""
        shown = [show_figure(figure, unit) for figure in (self.mean, self.least, self.most)]
        span = f", {shown[1]} to {shown[2]}" if shown[1] != shown[2] else ""
        return f"{shown[0]}{span}{'' if self.is_valid else ', not valid'}"


@dataclass(frozen=True, slots=True)
class Series:
    """A line or bars of one colour, `hue`; `is_ideal` if its figures are none that were measured or planned,
    but what they are held against.
    """

    name: str
    hue: int
    is_ideal: bool
    points: tuple[Point, ...]


def series_of(
    plot: Plot, named_by: Sequence[str], combinations: Sequence[tuple[Choice, SeedSummary]]
) -> list[Series]:
    """What to draw, in the order of the cells; `named_by` is of `chosen_series`."""
    found: dict[str, list[tuple[Choice, SeedSummary]]] = {}
    for choice, summary in combinations:
        if choice.subject.fits(plot.where):
            name = ", ".join(choice.shown(each) for each in named_by)
            found.setdefault(name, []).append((choice, summary))
    made = []
    for hue, (name, some) in enumerate(found.items()):
        for y in plot.y:
            points = tuple(_points(y, plot.x, some))
            shown = ", ".join(filter(None, (name, y if len(plot.y) > 1 or not name else "")))
            if points:
                made.append(Series(shown, hue, y in IDEALS and len(plot.y) > 1, points))
    return made


def _points(y: str, x: str, some: Sequence[tuple[Choice, SeedSummary]]) -> Iterator[Point]:
    points = [
        Point(choice.value(x), min(values), fmean(values), max(values), summary.is_valid)
        for choice, summary in some
        if (values := list(_values(y, summary.results)))
    ]
    yield from sorted(points, key=lambda point: int(point.x)) if x in NUMBERS else points


def _values(y: str, results: Sequence[CellResult]) -> Iterator[float]:
    quantity = QUANTITIES[y]
    for each in results:
        read: Callable[..., object] | None = quantity.measured if each.row else quantity.planned
        value = read(each.result) if read and each.refused is None else None
        if isinstance(value, int | float):
            yield float(value)
