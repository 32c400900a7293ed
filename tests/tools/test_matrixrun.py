"""Running a matrix: its folders, what is checked before it begins, and the exit code at the end."""

from dataclasses import replace
from pathlib import Path

import pytest
import typer

from gradwire.emu.options import RunOptions
from gradwire.planning.plan import Plan
from gradwire.planning.refused import Refused
from gradwire.results.laboratory import Laboratory
from gradwire.results.matrixfile import About, Matrix, begun_matrix, load_matrix
from gradwire.results.row import REFUSED, Row, Spread
from gradwire.tools.exits import NOT_VALID
from gradwire.tools.matrixrun import about, carry_out, default_folder, show
from gradwire.tools.outputs import check_page, check_tables
from tests.made_plans import allreduce_plan
from tests.made_tree_plans import star_tree, summed, tree_plan

ROW = Row(
    fabric="star:hosts=2",
    algorithm="ring",
    placement="linear",
    routes="ecmp",
    ranks=2,
    bytes=4,
    hosts=2,
    host_rates_bps=(100_000_000,),
    verdict="valid",
    time_s=Spread(1.0, 1.0, 1.0),
)
ABOUT = About(title="A job")
SENSELESS = replace(ROW, verdict=REFUSED, time_s=None, reasons=("it makes no sense",))


def matrix(folder: Path, *rows: Row) -> Matrix:
    return replace(begun_matrix(folder, ABOUT, len(rows)), rows=rows)


def test_two_commands_in_one_second_get_two_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.strftime", lambda form: "20260101-000000")
    assert [default_folder().name for _ in range(3)] == [
        "20260101-000000",
        "20260101-000000-2",
        "20260101-000000-3",
    ]


def test_a_page_that_cannot_be_written_is_told_before_anything_is_run(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="make it first"):
        check_page(tmp_path / "nowhere" / "page.html")
    with pytest.raises(IsADirectoryError, match="is a folder; name a file in it"):
        check_page(tmp_path)
    check_page(tmp_path / "page.html")
    check_page(None)
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="is a file; name a folder"):
        check_tables(tmp_path / "file")
    check_tables(tmp_path / "new")


def test_cells_that_make_no_sense_need_no_run(tmp_path: Path) -> None:
    todo = [SENSELESS, SENSELESS]
    assert carry_out(todo, RunOptions(), tmp_path, ABOUT, quiet=True).rows == tuple(todo)


def test_what_open_vswitch_cannot_do_is_told_before_what_it_can_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = star_tree((0, 1))
    summing = tree_plan("star:hosts=2", summed(tree, 2, [400]), [tree])
    sending = replace(summing, schedule=replace(summing.schedule, aggregations=()), trees=())
    done: list[Plan] = []

    def row(self: Laboratory, plan: Plan, original: object = None) -> Row:
        del self
        done.append(plan)
        return ROW

    monkeypatch.setattr(Laboratory, "row", row)
    with pytest.raises(Refused, match="cannot add up gradients"):
        carry_out([sending, summing], RunOptions(switch="ovs"), tmp_path, ABOUT, quiet=True)
    assert not done
    assert carry_out([sending], RunOptions(switch="ovs"), tmp_path, ABOUT, quiet=True).rows == (ROW,)
    assert done == [sending]


def test_a_row_that_is_not_valid_makes_the_exit_code_and_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as left:
        show(matrix(tmp_path, ROW, replace(ROW, verdict="not valid")), as_json=False, html=None)
    assert left.value.exit_code == NOT_VALID
    assert "not valid" in capsys.readouterr().out


def test_valid_and_refused_rows_are_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show(matrix(tmp_path, ROW, SENSELESS), as_json=True, html=None)
    assert '"verdict": "refused"' in capsys.readouterr().out


def test_whoever_interrupts_a_matrix_keeps_the_rows_that_were_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = allreduce_plan("star:hosts=2")
    done: list[Plan] = []

    def row(self: Laboratory, plan: Plan, original: object = None) -> Row:
        del self
        done.append(plan)
        if len(done) == 3:
            raise KeyboardInterrupt
        return ROW

    monkeypatch.setattr(Laboratory, "row", row)
    with pytest.raises(KeyboardInterrupt, match=f"what is done: .*gradwire report {tmp_path}"):
        carry_out([SENSELESS, plan, plan, plan, plan], RunOptions(), tmp_path, ABOUT, quiet=True)
    kept = load_matrix(tmp_path)
    assert (kept.rows, kept.n_cells, kept.is_complete) == ((SENSELESS, ROW, ROW), 5, False)
    assert kept.about == ABOUT


def test_results_that_are_there_are_not_written_over(tmp_path: Path) -> None:
    """Also where the first cell makes no sense, so that nothing is run."""
    carry_out([SENSELESS], RunOptions(), tmp_path, ABOUT, quiet=True)
    before = (tmp_path / "result.json").read_bytes()
    with pytest.raises(FileExistsError, match="has results already; choose another folder"):
        carry_out([SENSELESS, SENSELESS], RunOptions(), tmp_path, ABOUT, quiet=True)
    assert (tmp_path / "result.json").read_bytes() == before


def test_results_say_which_command_made_them_and_when(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["gradwire", "bench", "allreduce", "-b", "1MiB"])
    monkeypatch.setattr("time.gmtime", lambda: (2026, 7, 4, 10, 15, 0, 5, 185, 0))
    described = about("A job", ["What was done."])
    assert described.command == ("bench", "allreduce", "-b", "1MiB")
    assert described.began == "2026-07-04T10:15:00Z"
    assert (described.title, described.introduction) == ("A job", ("What was done.",))
