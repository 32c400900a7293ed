"""`gradwire up` and the process of its prompt, for which another one stands here."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from gradwire.emu.options import Software
from gradwire.emu.prompt import INTERRUPTED
from gradwire.tools.work import up

LATE_READER = """
import signal, sys, time
signal.alarm(10)  # else it would wait for ever, and so would we
time.sleep(0.5)
sys.exit(0 if len(sys.stdin.read()) == 220_000 else 1)
"""


def exit_code(monkeypatch: pytest.MonkeyPatch, script: Path, source: str) -> int:
    """That of `up` for a script, if this Python is what its prompt does."""

    def isolated(module: str, words: object, pass_fds: object, underlay: bool, **popen: Any) -> Any:
        del module, words, pass_fds, underlay
        return subprocess.Popen([sys.executable, "-c", source], text=True, **popen)

    monkeypatch.setattr(up, "isolated", isolated)
    monkeypatch.setattr(up, "need_root_and_tools", lambda *_, **__: None)
    monkeypatch.setattr(up, "LOOK_S", 0.1)
    with pytest.raises(typer.Exit) as left:
        up.start_fabric("star:hosts=2", Software(), "ecmp", script, None, None)
    return left.value.exit_code


def test_a_script_that_no_pipe_holds_reaches_a_prompt_that_reads_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "script"
    script.write_text("# a remark\n" * 20_000)
    assert exit_code(monkeypatch, script, LATE_READER) == 0


def test_a_prompt_that_was_interrupted_interrupts_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "script"
    script.touch()
    with pytest.raises(KeyboardInterrupt):
        exit_code(monkeypatch, script, f"raise SystemExit({INTERRUPTED})")
