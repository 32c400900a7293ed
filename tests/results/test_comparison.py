"""Two matrices compared: what changed beyond noise, what cannot be said, and bad files."""

import json
from pathlib import Path

import numpy as np
import pytest

from gradwire.planning.runfiles import BadRun
from gradwire.results.comparison import (
    MIN_REPEATS,
    RESULT,
    MatrixCell,
    compared,
    interval,
    load_cells,
    save_matrix,
)
from gradwire.tools import cli
from tests.made_plans import MIB, allreduce_plan
from tests.made_runs import made_run

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


def matrix(folder: Path, times_s: tuple[float, ...]) -> Path:
    plan = allreduce_plan("star:hosts=2", nbytes=MIB)
    save_matrix([made_run(folder / "01-cell", plan, times_s)], folder)
    return folder


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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is empty"),
        ("[]", "result.json"),
        ('{"fabric": "star:hosts=2"}', "a single run; give the folder of the whole matrix"),
        ('{"schema": "gradwire.matrix/1"}', "result.json"),
        ('{"schema": "gradwire.other/1", "cells": []}', "result.json"),
        (
            '{"schema": "gradwire.matrix/1", "cells": [{"cell": "a", "verdict": "valid", "times_s": [0]}]}',
            "not all of its times are above 0",
        ),
        (
            '{"schema": "gradwire.matrix/1", "cells": [{"cell": "a", "verdict": "", "times_s": [1e999]}]}',
            "result.json",
        ),
    ],
)
def test_a_file_that_is_no_matrix_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / RESULT).write_text(text)
    with pytest.raises(BadRun, match=said):
        load_cells(tmp_path)


def test_a_folder_without_a_whole_matrix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRun, match="no complete matrix"):
        load_cells(tmp_path)
