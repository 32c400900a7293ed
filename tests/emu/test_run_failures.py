"""Why a run could not be carried out, in words, where the run itself could not say it."""

import errno
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from gradwire.emu import run
from gradwire.emu.watch import RunFailed


@pytest.mark.parametrize(
    ("free", "said"), [(4096, "left on its disk"), (1 << 30, r"main process died \(exit code 1\)")]
)
def test_a_process_that_died_in_silence_on_a_full_disk_names_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, said: str
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    with pytest.raises(RunFailed, match=said):
        fail_with(tmp_path, 1)


def fail_with(work: Path, code: int) -> None:
    raise RunFailed(run._unexplained(work, code))


def test_a_folder_that_is_deleted_in_mid_run_is_said_to_be(tmp_path: Path) -> None:
    def carried_out() -> None:
        with run.whole_folder(tmp_path / "runs" / "01") as work:
            shutil.rmtree(tmp_path / "runs")
            (work / "session.log").read_text()

    with pytest.raises(RunFailed, match="was deleted or moved during the run"):
        carried_out()


def test_a_full_disk_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="make room there"), run.whole_folder(tmp_path / "01"):
        raise OSError(errno.ENOSPC, "No space left on device")
