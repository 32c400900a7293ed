"""Two matrices compared: what changed beyond noise, and what cannot be said."""

import json
from pathlib import Path

import numpy as np
import pytest

from gradwire.results.comparison import MIN_REPEATS, compared, interval
from gradwire.results.matrixfile import MatrixCell
from gradwire.tools import cli
from tests.made_plans import MIB, allreduce_plan
from tests.made_runs import made_matrix

STEADY = (1.00, 1.01, 0.99, 1.00, 1.02)


def change(before: tuple[float, ...], after: tuple[float, ...]) -> str:
    (cell,) = compared({"a": MatrixCell("a", "valid", before)}, {"a": MatrixCell("a", "valid", after)})
    return cell.change


def test_what_is_slower_or_faster_beyond_its_noise_is_named() -> None:
    slower = tuple(1.2 * time_s for time_s in STEADY)
    assert change(STEADY, slower) == "slower"
    assert change(slower, STEADY) == "faster"
    assert change(STEADY, STEADY) == "no change seen"


def test_the_difference_and_its_interval_are_shares_of_the_first_median() -> None:
    (cell,) = compared(
        {"a": MatrixCell("a", "valid", (2.0,) * 5)}, {"a": MatrixCell("a", "valid", (3.0,) * 5)}
    )
    assert (cell.difference, cell.low, cell.high) == pytest.approx((0.5, 0.5, 0.5))


def test_noise_as_large_as_the_difference_is_no_change() -> None:
    assert change((1.0, 1.3, 0.8, 1.1, 0.9), (1.1, 1.35, 0.85, 1.2, 0.95)) == "no change seen"


def test_too_few_repeats_claim_nothing() -> None:
    few = STEADY[: MIN_REPEATS - 1]
    assert change(few, tuple(2 * time_s for time_s in STEADY)) == "too few repeats"
    assert change((), STEADY) == "too few repeats"


@pytest.mark.parametrize("verdicts", [("not valid", "valid"), ("valid", "not valid"), ("not valid",) * 2])
def test_times_that_are_not_valid_claim_nothing(verdicts: tuple[str, str]) -> None:
    before, after = verdicts
    cells = MatrixCell("a", before, STEADY), MatrixCell("a", after, tuple(2 * time_s for time_s in STEADY))
    (cell,) = compared(*({"a": each} for each in cells))
    assert (cell.change, cell.low, cell.high) == ("not valid", None, None)


def test_more_repeats_are_not_asked_for_a_refused_cell() -> None:
    (cell,) = compared({"a": MatrixCell("a", "refused", ())}, {"a": MatrixCell("a", "valid", STEADY)})
    assert (cell.change, cell.difference) == ("refused", None)


@pytest.mark.long
def test_equal_distributions_are_rarely_called_different() -> None:
    """Of 200 pairs of ten repeats from one distribution, about 5 % may be; the bootstrap of medians is
    cautious or a little bold, so 12 % is where something is wrong.  A shift of 5 sigma is always seen.
    """
    random = np.random.default_rng(7)
    wrong = seen = 0
    for _ in range(200):
        before, after = (tuple(random.normal(1, 0.02, 10)) for _ in range(2))
        low, high = interval(before, after)
        wrong += not low <= 0 <= high
        seen += interval(before, tuple(value + 0.1 for value in after))[0] > 0
    assert wrong <= 24
    assert seen == 200


def test_a_cell_of_one_side_only_is_named() -> None:
    cell = MatrixCell("a", "valid", STEADY)
    assert [each.change for each in compared({"a": cell}, {"b": cell})] == [
        "only in the first",
        "only in the second",
    ]


def matrix(folder: Path, times_s: tuple[float, ...], n_cells: int = 1) -> Path:
    return made_matrix(folder, [allreduce_plan("star:hosts=2", nbytes=MIB)], times_s, n_cells=n_cells)


def test_the_command_compares_two_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [matrix(tmp_path / "a", STEADY), matrix(tmp_path / "b", tuple(1.5 * t for t in STEADY))]
    with pytest.raises(SystemExit) as left:
        cli.main(["compare", *map(str, folders), "--json"])
    assert left.value.code == 0
    (cell,) = json.loads(capsys.readouterr().out)["cells"]
    assert cell["change"] == "slower"
    assert cell["difference"] == pytest.approx(0.5)
    with pytest.raises(SystemExit):
        cli.main(["compare", *map(str, folders)])
    assert "1 slower" in capsys.readouterr().out


def test_a_single_run_is_compared_with_the_matrix_that_it_is_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = matrix(tmp_path / "a", STEADY)
    with pytest.raises(SystemExit) as left:
        cli.main(["compare", str(folder), str(folder / "01"), "--json"])
    assert left.value.code == 0
    (cell,) = json.loads(capsys.readouterr().out)["cells"]
    assert cell["change"] == "no change seen"


def test_what_an_interrupted_command_left_is_compared_and_said_to_be_a_part(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, part = matrix(tmp_path / "a", STEADY), matrix(tmp_path / "b", STEADY, n_cells=3)
    with pytest.raises(SystemExit):
        cli.main(["compare", str(whole), str(part)])
    said = capsys.readouterr().out
    assert f"{part}: incomplete: 1 of 3 cells done" in said
    assert f"{whole}: incomplete" not in said
    with pytest.raises(SystemExit):
        cli.main(["compare", str(whole), str(part), "--json"])
    assert json.loads(capsys.readouterr().out)["incomplete"] == [str(part)]
