"""Tables of an alltoall's blocks, from CSV or JSON: row r has the bytes that rank r sends to each rank."""

import csv
import json
from pathlib import Path

from gradwire.traces.files import read_at_most
from gradwire.traces.schedules.kinds import BlockSizes
from gradwire.traces.units import parse_count
from gradwire.traces.workload import MAX_NBYTES, MAX_RANKS

MAX_FILE_NBYTES = 16 << 20


def read_block_sizes(path: Path) -> BlockSizes:
    """Raise ValueError with what a table misses, OSError for a file that cannot be read."""
    octets = read_at_most(path, MAX_FILE_NBYTES)
    if len(octets) > MAX_FILE_NBYTES:
        raise ValueError(f"{path}: a table of sizes has at most {MAX_FILE_NBYTES >> 20} MiB")
    try:
        text = octets.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not a table of sizes: it is not text") from None
    rows = _of_json(path, text) if text.lstrip().startswith(("[", "{")) else _of_csv(path, text)
    if not 2 <= len(rows) <= MAX_RANKS:
        raise ValueError(
            f"{path}: it has {len(rows)} rows; a row for each of 2 to {MAX_RANKS} ranks is needed"
        )
    for rank, row in enumerate(rows):
        if len(row) != len(rows):
            raise ValueError(
                f"{path}: row {rank} has {len(row)} sizes, and {len(rows)} ranks need {len(rows)}"
            )
        if not 0 <= min(row) <= max(row) <= MAX_NBYTES:
            raise ValueError(f"{path}: row {rank} has a size that is not from 0 to {MAX_NBYTES:,} bytes")
    if not any(size for rank, row in enumerate(rows) for other, size in enumerate(row) if other != rank):
        raise ValueError(f"{path}: no rank has a byte for another: write sizes above 0")
    return rows


def _of_json(path: Path, text: str) -> BlockSizes:
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError):  # what is not JSON, or has a number of thousands of digits
        raise ValueError(f"{path}: not a table of sizes: it is not valid JSON") from None
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise ValueError(f"{path}: a table of sizes in JSON is a list with a list for each rank")
    for rank, row in enumerate(rows):
        if not all(type(size) is int for size in row):
            raise ValueError(f"{path}: row {rank} has something other than whole numbers of bytes")
    return tuple(map(tuple, rows))


def _of_csv(path: Path, text: str) -> BlockSizes:
    rows: list[tuple[int, ...]] = []
    for cells in filter(None, csv.reader(text.splitlines())):
        where = f"{path}: row {len(rows)}"
        rows.append(tuple(parse_count(where, cell.strip(), 0, MAX_NBYTES) for cell in cells))
    return tuple(rows)
