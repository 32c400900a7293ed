"""One cell of a study, planned: what processes of this machine do, and nodes of a cluster."""

from gradwire.results.plannedcells import PlannedCell, refused_cell
from gradwire.tools.exits import is_for_people, one_line
from gradwire.tools.planmatrix import planned
from gradwire.tools.study import StudyCell


def plan_cell(each: StudyCell) -> PlannedCell:
    """The cell with its figures, or refused."""
    try:
        (made,) = planned([(each.cell, each.experiment)], in_full=False, quiet=True)
    except Exception as error:
        if not is_for_people(error):
            raise
        return refused_cell(each.cell, each.experiment, one_line(error))
    return made.cell
