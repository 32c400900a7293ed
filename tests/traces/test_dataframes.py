"""Records as frames: names and types of columns, what is missing, and Parquet that others read as it was."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gradwire.traces.dataframes import frame, write_csv, write_parquet


@dataclass(frozen=True)
class Part:
    low_s: float
    n: int


@dataclass(frozen=True)
class Record:
    name: str
    kind: Literal["a", "b"]
    count: int
    largest: int | None
    rate_bps: float | None
    is_whole: bool
    is_known: bool | None
    where: Path
    part: Part | None
    ranks: tuple[int, ...]
    reasons: tuple[str, ...]


FULL = Record("x", "a", 1 << 60, 3, 0.5, True, False, Path("f"), Part(0.25, 2), (1, 2), ("one", "two"))
BARE = Record("y", "b", 2, None, None, False, None, Path("g"), None, (), ())
DTYPES = {
    "name": "str",
    "kind": "str",
    "count": "int64",
    "largest": "Int64",
    "rate_bps": "float64",
    "is_whole": "bool",
    "is_known": "boolean",
    "where": "str",
    "part_low_s": "float64",
    "part_n": "Int64",
    "ranks": "str",
    "reasons": "str",
}


def test_columns_have_the_types_of_the_fields_with_and_without_records() -> None:
    for records in ([FULL, BARE], [BARE], []):
        assert frame(Record, records).dtypes.astype(str).to_dict() == DTYPES


def test_parts_are_columns_and_lists_are_texts() -> None:
    table = frame(Record, [FULL, BARE])
    full = table.iloc[0]
    assert (full["part_low_s"], full["part_n"], full["ranks"], full["reasons"]) == (
        0.25,
        2,
        "1 2",
        "one; two",
    )
    assert full["count"] == 1 << 60  # a float would end in other digits
    assert table.iloc[1][["largest", "rate_bps", "is_known", "part_low_s", "part_n"]].isna().all()
    assert "ranks" not in frame(Record, [FULL], ["ranks"]).columns


def test_parquet_has_the_same_types_and_values_and_is_packed_with_zstd(tmp_path: Path) -> None:
    tables = {"full": frame(Record, [FULL, BARE]), "none": frame(Record, [])}
    paths = write_parquet(tables, tmp_path / "new" / "folder")
    assert [path.name for path in paths] == ["full.parquet", "none.parquet"]
    for path, table in zip(paths, tables.values(), strict=True):
        read = pq.read_table(path)
        kinds = {name: read.schema.field(name).type for name in DTYPES}
        assert kinds["count"] == kinds["largest"] == kinds["part_n"] == pa.int64()
        assert kinds["rate_bps"] == kinds["part_low_s"] == pa.float64()
        assert kinds["is_whole"] == kinds["is_known"] == pa.bool_()
        assert all(
            pa.types.is_large_string(kinds[name]) or pa.types.is_string(kinds[name])
            for name in ("name", "where")
        )
        pd.testing.assert_frame_equal(pd.read_parquet(path), table)
    assert pq.ParquetFile(paths[0]).metadata.row_group(0).column(0).compression == "ZSTD"


def test_csv_has_an_empty_cell_for_what_is_missing(tmp_path: Path) -> None:
    (path,) = write_csv({"full": frame(Record, [FULL, BARE])}, tmp_path)
    head, full, bare, end = (
        path.read_bytes().decode().split("\r\n")
    )  # as csv.writer ends lines of `inspect --csv`
    assert end == ""
    assert head == ",".join(DTYPES)
    assert full == "x,a,1152921504606846976,3,0.5,True,False,f,0.25,2,1 2,one; two"
    assert bare == "y,b,2,,,False,,g,,,,"


def test_no_half_a_file_stays_where_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        write_parquet({"a": frame(Record, [])}, tmp_path / "file")
