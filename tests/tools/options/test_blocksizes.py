"""Tables of an alltoall's blocks: read from CSV and JSON, and refused with what they miss."""

from pathlib import Path

import pytest

from gradwire.tools.options.blocksizes import MAX_FILE_NBYTES, read_block_sizes


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "sizes"


@pytest.mark.parametrize("text", ["0,2\n3,0\n", " 0, 2\r\n\r\n3 ,0", "[[0, 2],\n [3, 0]]"])
def test_a_table_is_a_row_for_each_rank(table: Path, text: str) -> None:
    table.write_text(text)
    assert read_block_sizes(table) == ((0, 2), (3, 0))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it has 0 rows; a row for each of 2 to 16384 ranks is needed"),
        ("5", "it has 1 rows"),
        ("[]", "it has 0 rows"),
        ("1\n" * 513, "row 0 has 1 sizes, and 513 ranks need 513"),
        ("1,2\n3", "row 1 has 1 sizes, and 2 ranks need 2"),
        ("[[1, 2], [3, 4, 5]]", "row 1 has 3 sizes, and 2 ranks need 2"),
        ("[[1, 2], []]", "row 1 has 0 sizes"),
        ("1,2\n3,x", "row 1: 'x' is not a whole number from 0 to 1,099,511,627,776"),
        ("1,-2\n3,4", "row 0: '-2' is not a whole number"),
        ("1,2.5\n3,4", r"row 0: '2\.5' is not a whole number"),
        ("[[1, 2.0], [3, 4]]", "row 0 has something other than whole numbers"),
        ("[[1, true], [3, 4]]", "row 0 has something other than whole numbers"),
        ("[[1, -2], [3, 4]]", "row 0 has a size that is not from 0 to 1,099,511,627,776 bytes"),
        ("1,9999999999999\n3,4", "row 0: '9999999999999' is not a whole number from 0 to"),
        ("1," + "9" * 5000 + "\n3,4", "row 0: '9{20}' is not a whole number"),
        (f"[[1, {'9' * 5000}], [3, 4]]", "it is not valid JSON"),
        ("[1, 2]", "a table of sizes in JSON is a list with a list for each rank"),
        ('{"sizes": 1}', "is a list with a list for each rank"),
        ("[[1, 2], [3", "not a table of sizes: it is not valid JSON"),
        ("[" * 100_000, "it is not valid JSON"),
        ("7,0\n0,7", "no rank has a byte for another"),
    ],
)
def test_a_bad_table_is_refused_with_what_it_misses_in_one_line(table: Path, text: str, reason: str) -> None:
    table.write_text(text)
    with pytest.raises(ValueError, match=reason) as refused:
        read_block_sizes(table)
    assert str(refused.value).startswith(f"{table}: ")
    assert "\n" not in str(refused.value)


def test_a_file_that_is_no_text_or_too_large_or_never_ends_is_refused(table: Path) -> None:
    table.write_bytes(b"\xff\xfe1,2")
    with pytest.raises(ValueError, match="it is not text"):
        read_block_sizes(table)
    with table.open("wb") as file:
        file.truncate(MAX_FILE_NBYTES + 1)
    for endless in (table, Path("/dev/zero")):
        with pytest.raises(ValueError, match="at most 16 MiB"):
            read_block_sizes(endless)
