"""Reads and checks the files of a run's folder: a whole file, or one line that says what is wrong."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import TypeAdapter, ValidationError

from gradwire.traces.complaints import complaint

if TYPE_CHECKING:
    import pyarrow as pa

TEXTS = {"interface", "event"}  # the columns of tables that are text; all others are whole numbers
INCOMPLETE = ".incomplete"  # ends the name of the folder of a run that is under way, or was never finished
MOST_ROW_NBYTES = 1000  # of a table, unpacked; an event has 72 and its name
Value = TypeVar("Value")


class BadRun(ValueError):
    """What a run's folder holds cannot be used; the text is one line that begins with the path."""

    def __init__(self, path: Path, what: str, advice: str = "run it again") -> None:
        super().__init__(f"{path}: {what}; {advice}")


def check_folder(folder: Path, advice: str) -> None:
    """Raise BadRun for what is not a folder."""
    if not folder.is_dir():
        raise BadRun(folder, "this is a file" if folder.exists() else "there is no such folder", advice)


def check_finished(folder: Path) -> None:
    """Raise BadRun for the folder of a run that never finished."""
    if folder.name.endswith(INCOMPLETE):
        advice = "look at its plan.json alone, or run it again"
        raise BadRun(folder, "this run never finished, or still runs", advice)


@contextmanager
def one_run(folder: Path) -> Iterator[None]:
    """In the block what the files say is put together; raise BadRun where they contradict each other."""
    try:
        yield
    except BadRun:
        raise
    except (ValueError, TypeError, LookupError, ArithmeticError) as error:
        said = complaint(error) if isinstance(error, ValidationError) else str(error)
        reason = (said.splitlines() or [type(error).__name__])[0]
        raise BadRun(folder, f"its files do not belong together: {reason}") from error


def read_json(path: Path, kind: TypeAdapter[Value]) -> Value:
    """The file's one value.  Raise BadRun, or OSError."""
    return _value(path, path.read_bytes(), kind, "")


def read_lines(path: Path, kind: TypeAdapter[Value], holding: bytes = b"") -> Iterator[tuple[int, Value]]:
    """The value of each line, or of those that hold some text, and the line's number from 1.

    Raise BadRun, or OSError.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if holding in line:
                yield number, _value(path, line, kind, f"line {number}: ")


def read_table(
    path: Path, columns: Sequence[str], repeat: int, optional: Sequence[str] = (), most: int | None = None
) -> "pa.Table":
    """These columns of a Parquet file, of one repeat, and those `optional` ones that the file has.

    Only optional ones may have missing values; `most` is how many rows there can be.  Raise BadRun, or
    OSError.
    """
    import pyarrow as pa  # a tenth of a second, for which help pages need not wait
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    if not path.stat().st_size:
        raise BadRun(path, "it is empty")
    try:
        described = pq.read_metadata(path)
        schema = described.schema.to_arrow_schema()
        wanted = [*columns, *(name for name in optional if name in schema.names)]
        for name in ("repeat", *wanted):
            if name not in schema.names:
                raise BadRun(path, f"it has no column {name}")
            if schema.names.count(name) > 1:
                raise BadRun(path, f"it has several columns named {name}")
            kind = schema.field(name).type
            if kind != (pa.string() if name in TEXTS else pa.int64()):
                raise BadRun(path, f"its column {name} has the wrong type, {kind}")
        if most is not None and described.num_rows > most:
            raise BadRun(path, f"it has {described.num_rows:,} rows, and the plan explains {most:,} at most")
        groups = map(described.row_group, range(described.num_row_groups))
        _check_size(path, described.num_rows, sum(group.total_byte_size for group in groups))
        texts = [name for name in wanted if name in TEXTS]
        is_ours = pc.field("repeat") == repeat
        table = pq.read_table(path, columns=wanted, filters=is_ours, read_dictionary=texts)
        for name in texts:  # a text that each row has is once in the file, and as often as that in a column
            chunks = [(each.dictionary, each.indices) for each in table[name].chunks]
            sizes = [pc.sum(pc.binary_length(values).take(rows)).as_py() or 0 for values, rows in chunks]
            _check_size(path, described.num_rows, sum(sizes))
            table = table.set_column(wanted.index(name), name, table[name].cast(pa.string()))
    except PermissionError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise BadRun(path, "it is not a complete Parquet file") from error
    for name in columns:
        if table[name].null_count:
            raise BadRun(path, f"its column {name} has missing values")
    return table


def _check_size(path: Path, n_rows: int, nbytes: int) -> None:
    if nbytes > MOST_ROW_NBYTES * (n_rows + 100):
        raise BadRun(path, f"its {n_rows:,} rows would unpack to {nbytes:,} bytes, which is too many")


def _value(path: Path, octets: bytes, kind: TypeAdapter[Value], where: str) -> Value:
    if not octets.strip():
        raise BadRun(path, f"{where}it is empty")
    try:
        return kind.validate_json(octets)
    except ValidationError as error:
        said = complaint(error)
        raise BadRun(path, where + (said.replace("line 1, column", "column") if where else said)) from error
