"""Records as pandas frames, and frames as Parquet and CSV files.  An edge module: it writes files.

A record's field is a column with the type that the field has, also where there is no record.  A field that is
a record itself is several columns, FIELD_PART; a list is a text.  What is not known is missing (NaN, NA).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from io import BytesIO
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

from typing_extensions import is_typeddict  # typing's own does not know those that pydantic reads

from gradwire.traces.files import write_whole, write_whole_bytes

if TYPE_CHECKING:
    import pandas as pd

_DTYPES = {int: ("int64", "Int64"), float: ("float64", "float64"), bool: ("bool", "boolean")}
TEXT = "str"


@dataclass(frozen=True, slots=True)
class Column:
    """`path` leads from a record to the value, by the names of fields; `dtype` is pandas'."""

    name: str
    dtype: str
    path: tuple[str, ...] = ()

    def of(self, record: Any) -> Any:
        """The value in a record, None where one on the way is None; of a list its text."""
        value = record
        for name in self.path:
            if value is None:
                return None
            value = value[name] if isinstance(value, Mapping) else getattr(value, name)
        if isinstance(value, tuple):
            return ("; " if any(isinstance(item, str) for item in value) else " ").join(map(str, value))
        return str(value) if self.dtype == TEXT and value is not None else value


def columns_of(kind: Any, leave_out: Sequence[str] = ()) -> tuple[Column, ...]:
    """A column for each field of a dataclass or of a TypedDict, but for those to leave out."""
    return tuple(_columns(kind, (), leave_out, may_miss=False))


def _columns(
    kind: Any, path: tuple[str, ...], leave_out: Sequence[str], *, may_miss: bool
) -> Iterator[Column]:
    for name, hint in get_type_hints(kind).items():
        if name in leave_out:
            continue
        here, of_field = (*path, name), _kind(hint)
        missing = may_miss or of_field is not hint
        if is_dataclass(of_field) or is_typeddict(of_field):
            yield from _columns(of_field, here, leave_out, may_miss=missing)
        else:
            yield Column("_".join(here), _DTYPES.get(of_field, (TEXT, TEXT))[missing], here)


def _kind(hint: Any) -> Any:
    """Of `KIND | None` the kind; of what may be of several kinds text."""
    if get_origin(hint) not in (Union, UnionType):
        return hint
    kinds = [one for one in get_args(hint) if one is not NoneType]
    return kinds[0] if len(kinds) == 1 else str


def frame(kind: Any, records: Iterable[Any], leave_out: Sequence[str] = ()) -> "pd.DataFrame":
    """A row for each record of this kind.  Raise OverflowError for a number that no column can hold."""
    columns = columns_of(kind, leave_out)
    return typed(columns, ([column.of(record) for column in columns] for record in records))


def typed(columns: Sequence[Column], rows: Iterable[Sequence[Any]]) -> "pd.DataFrame":
    """The frame of these columns' values."""
    import pandas as pd  # here, because it takes a while to import

    values = list(zip(*rows, strict=True)) or [()] * len(columns)
    return pd.DataFrame(
        {
            column.name: pd.Series(list(of_column), dtype=column.dtype)
            for column, of_column in zip(columns, values, strict=True)
        }
    )


def write_parquet(frames: "Mapping[str, pd.DataFrame]", folder: Path) -> tuple[Path, ...]:
    """NAME.parquet in the folder for each frame, packed with zstd; each file whole or not at all.

    Raise OSError.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    paths = _paths(frames, folder, "parquet")
    for path, table in zip(paths, frames.values(), strict=True):
        packed = BytesIO()
        pq.write_table(pa.Table.from_pandas(table, preserve_index=False), packed, compression="zstd")
        write_whole_bytes(path, packed.getvalue())
    return paths


def write_csv(frames: "Mapping[str, pd.DataFrame]", folder: Path) -> tuple[Path, ...]:
    """NAME.csv in the folder for each frame, with an empty cell for what is missing; whole or not at all.

    Lines end as RFC 4180 has it, as those of traces/analysis/tables.py do.  Raise OSError.
    """
    paths = _paths(frames, folder, "csv")
    for path, table in zip(paths, frames.values(), strict=True):
        write_whole(path, table.to_csv(index=False, lineterminator="\r\n"))
    return paths


def _paths(frames: "Mapping[str, pd.DataFrame]", folder: Path, ending: str) -> tuple[Path, ...]:
    """The file of each frame, in the folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    return tuple(folder / f"{name}.{ending}" for name in frames)
