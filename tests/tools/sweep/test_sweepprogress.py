"""What a sweep says while it goes on: how much is done, and the best cell of each job and size."""

from dataclasses import replace

from gradwire.emu.channel import channel, receive
from gradwire.results.plannedcells import PlannedCell
from gradwire.results.row import Row
from gradwire.results.studyresults import CellResult
from gradwire.tools.live.view import LiveView
from gradwire.tools.sweep.progress import sweep_progress

CELL = PlannedCell("star:hosts=4", "ring", "linear", "ecmp", 4, 4_000_000, 2.0, 1.0)
OTHER = replace(CELL, algorithm="all-pairs", fluid_s=1.5)
ROW = Row("star:hosts=4", "ina", "linear", "ecmp", 4, 4_000_000, "not valid")


def test_a_viewer_sees_what_is_done_and_the_best_cell_of_each_job_that_counts() -> None:
    """Also of cells that were kept from before; never of a row that is not valid."""
    to, end = channel()
    with sweep_progress(2, LiveView(to, is_terminal=False), quiet=True) as progress:
        progress.count(CellResult("sums", 0, OTHER))
        progress.done(CellResult("sums", 0, CELL), "one")
        progress.done(CellResult("other", 0, replace(CELL, fluid_s=0.1), ROW), "two")
    to.close()
    messages = []
    while (message := receive(end)) is not None:
        messages.append(message)
    end.close()
    last = {message["kind"]: message for message in messages}
    assert (last["progress"]["n_done"], last["progress"]["n_cells"]) == (2, 2)
    assert last["progress"]["best"] == [
        "best so far of sums, 4 MB: all-pairs, linear, ecmp on star:hosts=4: 1.5 s"
    ]
    assert last["phase"]["text"] == "two done"
    assert [row[0] for row in last["rows"]["rows"]] == [
        "other: ring, linear, ecmp on star:hosts=4",
        "sums: ring, linear, ecmp on star:hosts=4",
    ]
