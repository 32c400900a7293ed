"""Around a matrix: folders of its own, what is checked first, the exit code at the end."""

from dataclasses import replace
from pathlib import Path

import pytest
import typer

from gradwire.emu.options import RunOptions
from gradwire.planning.plan import Plan
from gradwire.planning.refused import Refused
from gradwire.results.laboratory import Laboratory
from gradwire.results.row import REFUSED, Row, Spread
from gradwire.tools.exits import NOT_VALID
from gradwire.tools.matrixrun import carry_out, check_page, default_folder, show
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
SENSELESS = replace(ROW, verdict=REFUSED, time_s=None, reasons=("it makes no sense",))


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


def test_cells_that_make_no_sense_need_no_run(tmp_path: Path) -> None:
    assert carry_out([SENSELESS, SENSELESS], RunOptions(), tmp_path, quiet=True) == [SENSELESS, SENSELESS]


def test_what_open_vswitch_cannot_do_is_told_before_what_it_can_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = star_tree((0, 1))
    summing = tree_plan("star:hosts=2", summed(tree, 2, [400]), [tree])
    sending = replace(summing, schedule=replace(summing.schedule, aggregations=()), trees=())
    done: list[Plan] = []

    def row(self: Laboratory, plan: Plan) -> Row:
        del self
        done.append(plan)
        return ROW

    monkeypatch.setattr(Laboratory, "row", row)
    with pytest.raises(Refused, match="cannot add up gradients"):
        carry_out([sending, summing], RunOptions(switch="ovs"), tmp_path, quiet=True)
    assert not done
    assert carry_out([sending], RunOptions(switch="ovs"), tmp_path, quiet=True) == [ROW]
    assert done == [sending]


def test_a_row_that_is_not_valid_makes_the_exit_code_and_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as left:
        show([ROW, replace(ROW, verdict="not valid")], tmp_path, as_json=False, html=None, title="")
    assert left.value.exit_code == NOT_VALID
    assert "not valid" in capsys.readouterr().out


def test_valid_and_refused_rows_are_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show([ROW, SENSELESS], tmp_path, as_json=True, html=None, title="")
    assert '"verdict": "refused"' in capsys.readouterr().out
