"""What becomes of a lab's expectations: which can be computed, before a run, and which hold, after it."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

from gradwire.planning.fabrics.fabric import Fabric, link_name
from gradwire.planning.plan import Plan
from gradwire.results.expectations import COMPARE, Expectation, Selection, Term, show_selection
from gradwire.results.plannedcells import PlannedCell
from gradwire.results.quantities import Figure, names_of, plain_link
from gradwire.results.row import Row
from gradwire.traces.units import did_you_mean, parse_size, show_count, show_first, show_nbytes, show_s

Becomes = Literal["holds", "fails", "not valid"]
SHOWN = 3


@dataclass(frozen=True, slots=True)
class Subject:
    """A cell that expectations may be about.

    `fabrics` are the names of its fabric: its spec, and as somebody wrote it.  `nbytes` is the size of a
    `bench`, `job` the name of its job in a study with several.  `fabric` has the links that can be named.
    `plan` is what will be carried out, if that is known, `result` what it came to.
    """

    fabrics: tuple[str, ...]
    algorithm: str
    placement: str
    routes: str
    nbytes: int | None = None
    job: str = ""
    refused: bool = False
    fabric: Fabric | None = None
    plan: Plan | None = None
    result: Row | PlannedCell | None = None

    @property
    def name(self) -> str:
        size = "" if self.nbytes is None else f", {show_nbytes(self.nbytes)}"
        job = f"{self.job}: " if self.job else ""
        return f"{job}{self.algorithm}, {self.placement}, {self.routes}{size} on {self.fabrics[0]}"

    @property
    def is_doubtful(self) -> bool:
        """Whether its times may be the machine's rather than the fabric's."""
        return isinstance(self.result, Row) and not self.result.valid

    def fits(self, selection: Selection) -> bool:
        return all(any(self._fits(key, text) for text in texts) for key, texts in selection.items())

    def _fits(self, key: str, text: str) -> bool:
        if key == "size":
            return self.nbytes == parse_size(text) // 4 * 4
        names = self.fabrics if key == "fabric" else (getattr(self, key),)
        return any(name == text or fnmatchcase(name, text) for name in names)


@dataclass(frozen=True, slots=True)
class Outcome:
    """`found` has the left side, of each cell that it is about; `why` says where it does not hold, or which
    cells are not valid.
    """

    expectation: str
    verdict: Becomes
    found: tuple[Figure, ...] = ()
    why: tuple[str, ...] = ()
    unit: str = ""

    def to_json(self) -> dict[str, Any]:
        """As docs/schemas.md, "run --json: expectations", says."""
        return asdict(self)

    def show_found(self) -> str:
        """`1.02 to 1.31`, `300 ms`, or names."""
        figures = [figure for figure in self.found if not isinstance(figure, str)]
        if len(figures) < len(self.found):
            return show_first(list(dict.fromkeys(self.found)), SHOWN)
        if not figures:
            return "nothing"
        low, high = (show_figure(figure, self.unit) for figure in (min(figures), max(figures)))
        return low if low == high else f"{low} to {high}"


def check(expectation: Expectation, subjects: Sequence[Subject], *, is_run: bool) -> None:
    """Raise ValueError for what cannot be computed of these cells once they are run, or only planned."""
    for term in expectation.terms:
        if not is_run and term.quantity.planned is None:
            raise ValueError(f"{term.name} is only known after a run, and this lab has mode: plan")
        if is_run and term.quantity.measured is None:
            raise ValueError(f"{term.name} is only known of a lab with mode: plan")
    if expectation.named:
        _check_name(expectation, _fitting(expectation, subjects), is_run=is_run)
    for used, term in _used(expectation, subjects):
        if used.plan is not None and not term.quantity.is_known(used.plan):
            raise ValueError(f"{used.name} has no {term.name}")
        if used.result is not None:
            _figure(term, used)


def _check_name(expectation: Expectation, subjects: Sequence[Subject], *, is_run: bool) -> None:
    """Raise ValueError for a name that none of these cells can have: != would always hold."""
    (term,) = expectation.left
    fabrics = {each.fabrics[0]: each.fabric for each in subjects if each.fabric}
    links = [plain_link(link_name(one, egress)) for one in fabrics.values() for egress in one.peers]
    names = names_of(term.name, links, is_run=is_run)
    if not any(fnmatchcase(name, expectation.named) for name in names):
        meant = did_you_mean(expectation.named, names)
        raise ValueError(
            f"there is no {term.name} {expectation.named!r}{meant}; it can be {show_first(names, 8)}"
        )


def judged(expectation: Expectation, subjects: Sequence[Subject]) -> Outcome:
    """What became of it, of cells with their results."""
    fitting = _fitting(expectation, subjects)
    found, failing = list[Figure](), list[str]()
    for each in _about(expectation, fitting):
        try:
            left = _side(expectation.left, each, fitting)
            holds = _holds(expectation, left, each, fitting)
        except ValueError as error:
            failing.append(str(error))
            continue
        found.append(left)
        if not holds:
            figure = show_figure(left, expectation.unit)
            failing.append(f"{figure} for {each.name}" if each else figure)
    shown, unit = expectation.shown, expectation.unit
    used = _used(expectation, subjects)
    doubtful = [cell.name for cell, term in used if term.quantity.is_timed and cell.is_doubtful]
    if doubtful:
        return Outcome(shown, "not valid", tuple(found), tuple(dict.fromkeys(doubtful)), unit)
    return Outcome(shown, "fails" if failing else "holds", tuple(found), tuple(failing), unit)


def show_figure(figure: Figure, unit: str = "") -> str:
    """`1.02`, `300 ms`, `5 MB/s`, or a name."""
    if isinstance(figure, str):
        return figure
    return {"s": show_s(figure), "B/s": f"{show_nbytes(figure)}/s"}.get(unit, f"{figure:.4g}")


def _holds(expectation: Expectation, left: Figure, each: Subject | None, fitting: Sequence[Subject]) -> bool:
    if isinstance(left, str):
        return fnmatchcase(left, expectation.named) == (expectation.comparison == "==")
    return COMPARE[expectation.comparison](left, _side(expectation.right, each, fitting))


def _side(terms: Sequence[Term], each: Subject | None, fitting: Sequence[Subject]) -> Figure:
    """Raise ValueError where a cell has no such figure."""
    product = 1.0
    for term in terms:
        value: Figure = term.number
        if term.name:
            value = _figure(term, _subject_of(term, each, fitting))
        if isinstance(value, str):
            return value
        if term.divides and not value:
            raise ValueError(f"{term.name or value} is 0, so nothing can be divided by it")
        product = product / value if term.divides else product * value
    return product


def _figure(term: Term, subject: Subject) -> Figure:
    result, value = subject.result, None
    if isinstance(result, Row) and term.quantity.measured:
        value = term.quantity.measured(result)
    elif isinstance(result, PlannedCell) and term.quantity.planned:
        value = term.quantity.planned(result)
    if value is None:
        raise ValueError(f"{subject.name} has no {term.name}")
    return value


def _used(expectation: Expectation, subjects: Sequence[Subject]) -> Iterator[tuple[Subject, Term]]:
    """The cells whose figures are needed, with the term that needs each.  Raise ValueError if none fits."""
    fitting = _fitting(expectation, subjects)
    for each in _about(expectation, fitting):
        for term in expectation.terms:
            yield _subject_of(term, each, fitting), term


def _fitting(expectation: Expectation, subjects: Sequence[Subject]) -> list[Subject]:
    """The cells that fit `where`; the refused ones among them only where nothing but the verdict is asked."""
    fitting = [subject for subject in subjects if subject.fits(expectation.where)]
    if not fitting:
        raise ValueError(f"no cell has {show_selection(expectation.where)}")
    if all(term.name == "verdict" for term in expectation.terms):
        return fitting
    running = [subject for subject in fitting if not subject.refused]
    if not running:
        raise ValueError(f"{fitting[0].name} is refused, so it has no {expectation.terms[0].name}")
    return running


def _about(expectation: Expectation, fitting: Sequence[Subject]) -> Sequence[Subject | None]:
    """Each cell in turn; a single None where the terms say themselves of which cells they are."""
    return fitting if expectation.is_of_each else [None]


def _subject_of(term: Term, each: Subject | None, fitting: Sequence[Subject]) -> Subject:
    """The cell whose figure a term is.  Raise ValueError if `of` fits none, or several."""
    if term.of is None:
        assert each is not None
        return each
    found = [subject for subject in fitting if subject.fits(term.of)]
    if len(found) == 1:
        return found[0]
    shown = show_selection(term.of)
    if not found:
        raise ValueError(f"no cell that runs has {shown}")
    names = show_first([subject.name for subject in found], SHOWN, "; ")
    raise ValueError(f"{show_count(len(found), 'cell')} have {shown}: {names}; say which one, or add where:")
