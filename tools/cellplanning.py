"""One cell of a study, planned: what processes of this machine do, and nodes of a cluster."""

from gradwire.results.plannedcells import refused_cell
from gradwire.results.studyresults import CellResult
from gradwire.tools.exits import is_for_people, one_line
from gradwire.tools.planmatrix import planned
from gradwire.tools.study import StudyCell


def plan_cell(each: StudyCell) -> CellResult:
    """The cell with its figures, or refused."""
    try:
        (made,) = planned([(each.cell, each.experiment)], in_full=False, quiet=True)
    except Exception as error:
        if not is_for_people(error):
            raise
        return CellResult(each.job, each.seed, refused_cell(each.cell, each.experiment, one_line(error)))
    return CellResult(each.job, each.seed, made.cell)
