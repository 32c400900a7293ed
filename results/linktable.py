"""Reads `links.parquet` of a run's folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gradwire.planning.runfiles import BadRun

if TYPE_CHECKING:
    import pyarrow as pa


def read_table(path: Path, columns: Sequence[str], repeat: int, optional: Sequence[str] = ()) -> "pa.Table":
    """These columns of `links.parquet`, of one repeat, and those `optional` ones that the file has.

    Only optional ones may have missing values.  Raise BadRun, or OSError.
    """
    import pyarrow as pa  # a tenth of a second, for which help pages need not wait
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    if not path.stat().st_size:
        raise BadRun(path, "it is empty")
    try:
        schema = pq.read_schema(path)
        wanted = [*columns, *(name for name in optional if name in schema.names)]
        for name in ("repeat", *wanted):
            if name not in schema.names:
                raise BadRun(path, f"it has no column {name}")
            kind = schema.field(name).type
            if not (pa.types.is_string(kind) if name == "interface" else pa.types.is_integer(kind)):
                raise BadRun(path, f"its column {name} has the wrong type, {kind}")
        table = pq.read_table(path, columns=wanted, filters=pc.field("repeat") == repeat)
    except (pa.ArrowException, OSError) as error:
        raise BadRun(path, "it is not a complete Parquet file") from error
    for name in columns:
        if table[name].null_count:
            raise BadRun(path, f"its column {name} has missing values")
    return table
