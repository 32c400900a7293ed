"""A result is in its file whole, or the file is as it was."""

import os
from pathlib import Path

import pytest

from gradwire.traces import files
from gradwire.traces.files import appended, whole_file, write_whole, write_whole_bytes


def test_a_text_replaces_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "drawing.svg"
    write_whole(path, "one")
    write_whole(path, "zwei ×\r\ndrei\n")
    assert path.read_bytes() == "zwei ×\r\ndrei\n".encode()
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "absent" / "drawing.svg"
    with pytest.raises(OSError, match="No such file") as caught:
        write_whole(path, "one")
    assert caught.value.filename == str(path)


def test_until_all_is_written_the_older_file_is_there(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    write_whole(path, "one")
    with whole_file(path) as file:
        file.write("two")
        file.flush()
        assert path.read_text() == "one"
    assert path.read_text() == "two"


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ValueError("no such row")])
def test_an_error_leaves_the_older_file_and_nothing_else(tmp_path: Path, error: Exception) -> None:
    path = tmp_path / "table.csv"
    write_whole(path, "one")

    def half_a_table() -> None:
        with whole_file(path) as file:
            file.write("tw")
            raise error

    with pytest.raises(type(error), match=r"no such row|No space left"):
        half_a_table()
    assert path.read_bytes() == b"one"
    assert list(tmp_path.iterdir()) == [path]


def test_two_writers_of_one_file_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    with whole_file(path) as one:
        one.write("one, which is longer\n" * 10_000)
        with whole_file(path) as two:
            two.write("two\n" * 10_000)
        assert path.read_text() == "two\n" * 10_000
    assert path.read_text() == "one, which is longer\n" * 10_000
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["table.csv", "table.csv.partial"])
def test_a_link_that_somebody_put_there_is_not_followed(tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("as it was")
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / name).symlink_to(victim)
    write_whole(folder / "table.csv", "new")
    assert victim.read_text() == "as it was"
    assert not (folder / "table.csv").is_symlink()
    assert (folder / "table.csv").read_text() == "new"


def test_a_link_at_the_very_name_that_was_drawn_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda nbytes: "00" * nbytes)
    victim, link = tmp_path / "victim", tmp_path / f"gradwire-{'00' * 8}.partial"
    link.symlink_to(victim)
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "table.csv", "new")
    assert not victim.exists()
    assert link.is_symlink()


def test_others_may_read_what_the_umask_lets_them(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "table.csv", "one")
    finally:
        os.umask(before)
    assert (tmp_path / "table.csv").stat().st_mode & 0o777 == 0o640


def test_bytes_replace_the_ones_before_or_leave_them(tmp_path: Path) -> None:
    path = tmp_path / "h0.messages"
    write_whole_bytes(path, b"\0one")
    write_whole_bytes(path, b"\xfftwo")
    assert path.read_bytes() == b"\xfftwo"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(OSError, match="No such file") as caught:
        write_whole_bytes(tmp_path / "absent" / "h0.messages", b"")
    assert caught.value.filename == str(tmp_path / "absent" / "h0.messages")


def test_a_folder_that_is_renamed_meanwhile_takes_the_file_along(tmp_path: Path) -> None:
    """Its owner puts a link to another folder in its place: nothing is written, or left, in that one."""
    theirs, moved, victim = (tmp_path / name for name in ("theirs", "moved", "victim"))
    theirs.mkdir()
    victim.mkdir()
    (victim / "table.csv").write_text("as it was")
    with whole_file(theirs / "table.csv") as file:
        file.write("new")
        theirs.rename(moved)
        theirs.symlink_to(victim)
    assert [(path.name, path.read_text()) for path in victim.iterdir()] == [("table.csv", "as it was")]
    assert [(path.name, path.read_text()) for path in moved.iterdir()] == [("table.csv", "new")]


def test_an_error_after_the_folder_was_renamed_leaves_nothing_in_it(tmp_path: Path) -> None:
    theirs, moved = tmp_path / "theirs", tmp_path / "moved"
    theirs.mkdir()

    def half_a_table() -> None:
        with whole_file(theirs / "table.csv"):
            theirs.rename(moved)
            raise ValueError("no such row")

    with pytest.raises(ValueError, match="no such row"):
        half_a_table()
    assert not list(moved.iterdir())


def test_lines_are_appended_at_once(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("one\n")
    with appended(path) as file:
        file.write("two ×\n")
        assert path.read_text() == "one\ntwo ×\n"


@pytest.mark.parametrize("there", [True, False])
def test_lines_are_not_appended_through_a_link(tmp_path: Path, there: bool) -> None:
    victim, link = tmp_path / "victim", tmp_path / "log"
    if there:
        victim.write_text("as it was")
    link.symlink_to(victim)
    with pytest.raises(OSError, match="symbolic link") as caught:
        appended(link)
    assert caught.value.filename == str(link)
    assert victim.read_text() == "as it was" if there else not victim.exists()


def test_lines_are_not_appended_to_what_is_not_a_file_of_its_own(tmp_path: Path) -> None:
    victim, link, pipe = (tmp_path / name for name in ("victim", "link", "pipe"))
    victim.write_text("as it was")
    link.hardlink_to(victim)
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="not a regular file, or has other hard links"):
        appended(link)
    with pytest.raises(OSError, match="pipe"):  # nobody reads it: does not wait for one
        appended(pipe)
    assert victim.read_text() == "as it was"


def test_a_device_is_written_to_and_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = tmp_path / "out"
    written.touch()
    devices = tmp_path / "dev"
    devices.mkdir()
    (devices / "stdout").symlink_to(written)
    monkeypatch.setattr(files, "DEVICES", devices)
    write_whole(devices / "stdout", "text\n")
    assert (devices / "stdout").is_symlink()
    assert written.read_text() == "text\n"
    assert [path.name for path in devices.iterdir()] == ["stdout"]
