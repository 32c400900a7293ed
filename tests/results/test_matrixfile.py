"""`result.json` of a matrix: what is written is read again, wherever the folder is; bad files are refused."""

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradwire.planning.runfiles import BadRun
from gradwire.results.comparison import compared, named
from gradwire.results.matrixfile import RESULT, About, Matrix, begun_matrix, load_matrix, save_matrix
from gradwire.results.resultfolder import load_results, load_several
from gradwire.results.row import Row
from gradwire.results.trustresult import Live, TrustMatrix, TrustRow
from gradwire.results.trustresult import save as save_trust
from gradwire.traces.dataframes import frame
from tests.made_plans import MIB, allreduce_plan
from tests.made_runs import made_matrix, made_run

RING = allreduce_plan("star:hosts=4", "ring", nbytes=MIB)
HALVING = allreduce_plan("star:hosts=4", "halving-doubling", nbytes=MIB)
CELL = '{"cell": "a", "verdict": "valid", "times_s": %s}'
CHOICES = '"fabric": "f", "algorithm": "a", "placement": "p", "routes": "r"'
ROW = f'{{{CHOICES}, "ranks": 2, "bytes": 4, "verdict": "valid"}}'


def test_a_matrix_is_read_as_it_was_written(tmp_path: Path) -> None:
    rows = [
        made_run(tmp_path / "m" / name, plan, (1.0, 3.0, 2.0))
        for name, plan in (("01", RING), ("02", HALVING))
    ]
    about = About(
        ("bench", "allreduce", "-b", "1MiB"), "2026-07-04T10:15:00Z", "0.1.0", "A job", ("One.", "Two.")
    )
    matrix = begun_matrix(tmp_path / "m", about, 3)
    for row in rows:
        matrix = matrix.with_row(row)
    save_matrix(matrix)
    read = load_matrix(tmp_path / "m")
    assert (read.about, read.rows, read.n_cells) == (about, tuple(rows), 3)
    assert not read.is_complete
    assert [cell.times_s for cell in read.cells] == [(1.0, 3.0, 2.0)] * 2


def test_rows_name_the_runs_where_they_are_after_the_folder_has_moved(tmp_path: Path) -> None:
    made_matrix(tmp_path / "m", [RING])
    (tmp_path / "m").rename(tmp_path / "elsewhere")
    (row,) = load_matrix(tmp_path / "elsewhere").rows
    assert row.folder == str(tmp_path / "elsewhere" / "01")
    assert (Path(row.folder) / "plan.json").exists()


def test_a_file_from_before_the_command_was_noted_is_read(tmp_path: Path) -> None:
    folder = made_matrix(tmp_path / "m", [RING])
    value = json.loads((folder / RESULT).read_text())
    del value["about"], value["n_cells"]
    for name in ("closed_is_bound", "order", "limit"):  # fields that came later
        del value["rows"][0][name]
    (folder / RESULT).write_text(json.dumps(value))
    read = load_matrix(folder)
    assert (read.about, read.is_complete) == (About(), True)
    assert read.rows[0].time_s == load_matrix(made_matrix(tmp_path / "n", [RING])).rows[0].time_s


def test_the_folder_of_a_run_is_a_matrix_of_one_cell(tmp_path: Path) -> None:
    row = made_run(tmp_path / "run", RING, (1.0, 2.0))
    matrix = load_results(tmp_path / "run")
    assert isinstance(matrix, Matrix)
    assert matrix.rows == (row,)
    assert matrix.cells[0].times_s == (1.0, 2.0)


def test_results_of_trust_are_told_from_those_of_runs(tmp_path: Path) -> None:
    live = [Live(fabric, "live/01") for fabric in ("star:hosts=2", "star:hosts=4")]
    row = TrustRow(live[0].fabric, live[1].fabric, "valid", repeat_s=(0.5, 0.6), repeats=2)
    matrix = TrustMatrix("ddp-mlp", 2, "ecmp", 128, tuple(live), (row,), n_rows=4)
    save_trust(matrix, tmp_path)
    read = load_results(tmp_path)
    assert read == matrix
    assert not read.is_complete
    assert read.cells[0].times_s == (0.5, 0.6)
    save_trust(replace(matrix, live=tuple(live[:1])), tmp_path)
    with pytest.raises(BadRun, match="star:hosts=2 → star:hosts=4: `live` has no job on one of them"):
        load_results(tmp_path)
    save_trust(matrix, tmp_path)
    with pytest.raises(BadRun, match="results of trust; give its folder alone"):
        load_several([made_matrix(tmp_path / "m", [RING]), tmp_path])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is empty"),
        ("[]", "result.json: it is not an object"),
        ('{"fabric": "star:hosts=2"}', "algorithm is missing"),
        ('{"schema": "gradwire.matrix/1"}', "cells is missing"),
        (
            '{"schema": "gradwire.matrix/7", "cells": []}',
            "a newer gradwire wrote; this one reads gradwire.matrix/1",
        ),
        ('{"schema": "gradwire.trust/9"}', "a newer gradwire wrote; this one reads gradwire.trust/1"),
        ('{"schema": "gradwire.other/1", "cells": []}', "it holds 'gradwire.other/1', not results of runs"),
        ('{"schema": ["x"], "cells": []}', r"it holds \['x'\], not results of runs"),
        (
            f'{{"schema": "gradwire.matrix/1", "cells": [{CELL % "[0]"}], "rows": [{ROW}]}}',
            "a cell has up to 100,000 times, each above 0",
        ),
        (
            f'{{"schema": "gradwire.matrix/1", "cells": [{CELL % "[1e999]"}], "rows": [{ROW}]}}',
            "it holds a number that is too large",
        ),
        *(
            (
                f'{{"schema": "gradwire.matrix/1", "n_cells": {number}}}',
                "it holds a number that is too large",
            )
            for number in ("NaN", "Infinity", "-Infinity")
        ),
        (
            f'{{"schema": "gradwire.matrix/1", "cells": [{CELL % "[1]"}], "rows": []}}',
            "it has 0 rows, but 1 cell",
        ),
        (f'{{"schema": "gradwire.matrix/1", "cells": 5, "rows": [{ROW}]}}', "cells is not a list"),
    ],
)
def test_a_file_that_is_no_matrix_is_refused_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / RESULT).write_text(text)
    with pytest.raises(BadRun, match=said) as refused:
        load_results(tmp_path)
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith(str(tmp_path))


def test_whatever_is_changed_in_a_file_it_is_read_or_refused_in_one_line(tmp_path: Path) -> None:
    """Each value, however deep, is replaced by others: nothing but a matrix or BadRun comes out, and what is
    read can be compared and made a table of.
    """
    folder = made_matrix(tmp_path / "m", [RING])
    value = json.loads((folder / RESULT).read_text())
    said, rows = list[str](), list[Row]()
    others: tuple[Any, ...] = (None, "x", -1, 1e999, 1 << 70, [], {})
    for path in places(value):
        for other in others:
            (folder / RESULT).write_text(json.dumps(changed(value, path, other)))
            try:
                matrix = load_matrix(folder)
            except BadRun as error:
                said.append(str(error))
            else:
                compared(named(matrix.cells), named(matrix.cells))
                rows += matrix.rows
    frame(Row, rows)
    assert len(said) > 200
    assert not [line for line in said if "\n" in line]


def places(value: Any) -> Iterator[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inside:
        yield (key,)
        yield from ((key, *rest) for rest in places(each))


def changed(value: Any, path: tuple[Any, ...], other: Any) -> Any:
    copy = deepcopy(value)
    at = copy
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = other
    return copy


def test_what_is_no_folder_of_results_is_refused_and_what_to_give_is_said(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "run.incomplete").mkdir()
    (tmp_path / "file").write_text("")
    for name, said in (
        ("empty", "it has no result.json, so no run in it is done; give the folder of a finished run"),
        ("run.incomplete", "this run never finished, or still runs"),
        ("file", "this is a file; give a folder with results"),
        ("nowhere", "there is no such folder"),
    ):
        with pytest.raises(BadRun, match=said):
            load_results(tmp_path / name)


def test_a_reader_never_sees_half_a_file_while_a_cell_is_added(tmp_path: Path) -> None:
    """A new file takes the place of the old one: its inode differs, and nothing else is left."""
    folder = made_matrix(tmp_path / "m", [RING], n_cells=2)
    before = (folder / RESULT).stat().st_ino
    matrix = load_matrix(folder)
    save_matrix(replace(matrix, about=About(title="other")))
    assert (folder / RESULT).stat().st_ino != before
    assert sorted(path.name for path in folder.iterdir()) == ["01", RESULT]
