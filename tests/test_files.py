"""A result is in its file whole, or the file is as it was."""

from pathlib import Path

import pytest

from tools.files import write_whole


def test_a_text_replaces_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "drawing.svg"
    write_whole(path, "one")
    write_whole(path, "zwei ×")
    assert path.read_text(encoding="utf-8") == "zwei ×"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "absent" / "drawing.svg"
    with pytest.raises(OSError, match="No such file") as caught:
        write_whole(path, "one")
    assert caught.value.filename == str(path)


def test_an_error_leaves_the_older_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "drawing.svg"
    write_whole(path, "one")

    def full(self: Path, text: str, **how: str) -> int:
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, "two")
    assert path.read_bytes() == b"one"
    assert list(tmp_path.iterdir()) == [path]
