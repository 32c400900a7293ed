"""Where a command is to write is checked before it reads anything, which may take minutes."""

from pathlib import Path

import pytest

from gradwire.tools import cli


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("inspect", "--html"),
        ("inspect", "--perfetto"),
        ("extract", "--out"),
        ("plan", "--out"),
        ("audit", "--svg"),
    ],
)
def test_a_file_in_no_folder_is_refused_before_the_capture_is_read(
    command: str, option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The capture is not there either: whoever reads it first names it."""
    file = tmp_path / "nowhere" / "file"
    with pytest.raises(SystemExit) as left:
        cli.main([command, str(tmp_path / "no.pcap"), option, str(file)])
    assert left.value.code == 1
    line = f"gradwire: {option} {file}: there is no folder {file.parent}; make it first\n"
    assert capsys.readouterr().err == line
