"""The mirror before a host's queue, where it cannot be made; tests/real has it at work."""

import subprocess

import pytest

from gradwire.emu.network.mirror import mirror_before_queues
from gradwire.emu.watch import RunFailed


def test_a_kernel_without_it_is_named_by_its_first_word_and_where_more_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def answer(command: list[str], **options: object) -> "subprocess.CompletedProcess[str]":
        asked.append((command[-3:], options["input"]))
        is_tc = "tc" in command
        return subprocess.CompletedProcess(
            command, is_tc, "", "Error: no such action.\nCommand failed -:2" if is_tc else ""
        )

    monkeypatch.setattr(subprocess, "run", answer)
    with pytest.raises(RunFailed) as caught:
        mirror_before_queues(["h0", "h1"], {"h0": 41, "h1": 42})
    assert str(caught.value) == (
        "mirroring what h0 sends: tc: Error: no such action.: sudo ./gradwire doctor says more"
    )
    assert [command[0] for command, _ in asked] == ["ip", "tc"]
    assert "h0-eth0" in str(asked[1])
