"""What the report page shows of each cell, and a grid of all of them: fabrics beside each other."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from gradwire.results.answer import alike, best, contender
from gradwire.results.row import Row
from gradwire.results.rowchoices import show_choices
from gradwire.results.runview import LinkUse, RunView
from gradwire.tools.drawing.bars import iterations_svg
from gradwire.tools.report.rownotes import iteration_words
from gradwire.traces.units import show_nbytes

MOST_LINKS = 10  # of a cell's table; the drawing shows them all


@dataclass(frozen=True)
class ReportCell:
    """A row of the report with what its run left; a refused one has no `view`.  `run` is the folder of the
    results that it is from, where there are several.
    """

    number: int
    row: Row
    view: RunView | None
    run: str = ""

    @property
    def name(self) -> str:
        return self.row.name

    @property
    def choice(self) -> str:
        """All that makes the cell but its fabric and its size."""
        row, run = self.row, (self.run,) if self.run else ()
        return ", ".join((row.algorithm, row.placement, row.routes, *show_choices(row.choices), *run))

    @property
    def links(self) -> list[LinkUse]:
        """The busiest links, and the worst link if it is not one of them (it may be idle in other phases)."""
        uses = self.view.links if self.view else ()
        bounding = [use for use in uses[MOST_LINKS:] if self.bounds(use)]
        return [*uses[: MOST_LINKS - len(bounding)], *bounding]

    def bounds(self, use: LinkUse) -> bool:
        return self.view is not None and use.egress == self.view.load.worst.egress

    @property
    def iterations(self) -> Markup:
        return Markup(iterations_svg(self.row, self.view.repeat) if self.view else "")

    @property
    def iteration_words(self) -> str:
        return iteration_words(self.row)

    @property
    def folder(self) -> str:
        return Path(self.row.folder or "").name


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells beside each other: a row for each choice and a column for each fabric; of one fabric and several
    sizes, a row for each size and a column for each choice.  A place may have several cells.

    `best` are the numbers of the fastest valid cells, of each size, `alike` those of others as good.
    """

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[tuple[ReportCell, ...], ...]], ...]
    best: frozenset[int]
    alike: frozenset[int]


def fabrics_of(cells: Sequence[ReportCell]) -> list[str]:
    """In the order in which they first come."""
    return list(dict.fromkeys(cell.row.fabric for cell in cells))


def short_specs(specs: Sequence[str]) -> dict[str, str]:
    """A name for each fabric that tells it from the others: its family, and what others of that family do not
    share with it.
    """
    by_family: defaultdict[str, list[str]] = defaultdict(list)
    for spec in specs:
        by_family[spec.partition(":")[0]].append(spec)
    short = {}
    for family, same in by_family.items():
        sizes = {spec: spec.partition(":")[2].split(",") for spec in same}
        for spec in same:
            own = [size for size in sizes[spec] if not all(size in others for others in sizes.values())]
            short[spec] = f"{family}:{','.join(own)}" if own else family
    return short if len(set(short.values())) == len(specs) else {spec: spec for spec in specs}


def sizes_of(cells: Sequence[ReportCell]) -> list[int]:
    """Of the cells that were measured, ascending."""
    return sorted({cell.row.bytes for cell in cells if cell.row.time_s})


def grids(cells: Sequence[ReportCell]) -> list[Grid]:
    """A grid for each size, or one if there is only one fabric.  Of one size it has the refused cells too,
    which have none.
    """
    sizes, fabrics = sizes_of(cells), fabrics_of(cells)
    if len(sizes) > 1 and len(fabrics) == 1:
        measured = sorted((cell for cell in cells if cell.row.time_s), key=lambda cell: cell.row.bytes)
        return [_grid(fabrics[0], measured, _size, _choice)]
    return [
        _grid(
            show_nbytes(nbytes),
            [cell for cell in cells if cell.row.bytes == nbytes or len(sizes) == 1],
            _choice,
            _fabric,
            fabrics,
        )
        for nbytes in sizes
    ]


def _size(cell: ReportCell) -> str:
    return show_nbytes(cell.row.bytes)


def _choice(cell: ReportCell) -> str:
    return cell.choice


def _fabric(cell: ReportCell) -> str:
    return cell.row.fabric


def _grid(
    name: str,
    some: Sequence[ReportCell],
    row_of: Callable[[ReportCell], str],
    column_of: Callable[[ReportCell], str],
    columns: Sequence[str] = (),
) -> Grid:
    columns = columns or list(dict.fromkeys(map(column_of, some)))
    by_row: defaultdict[str, list[ReportCell]] = defaultdict(list)
    for cell in some:
        by_row[row_of(cell)].append(cell)
    rows = tuple(
        (row, tuple(tuple(cell for cell in same if column_of(cell) == column) for column in columns))
        for row, same in by_row.items()
    )
    marks = [_marked([cell for cell in some if cell.row.bytes == nbytes]) for nbytes in sizes_of(some)]
    best, as_good = (frozenset(number for each in marks for number in each[place]) for place in (0, 1))
    return Grid(name, tuple(columns), rows, best, as_good)


def _marked(same: Sequence[ReportCell]) -> tuple[list[int], list[int]]:
    """The numbers of the best of these and of those as good, if there is more than one valid cell."""
    valid = [(cell.number, one) for cell in same if (one := contender(cell.row))]
    if len(valid) < 2:
        return [], []
    first = best([one for _, one in valid])
    as_good = {id(one) for one in alike(first, [one for _, one in valid])}
    return [number for number, one in valid if one is first][:1], [
        n for n, one in valid if id(one) in as_good
    ]
