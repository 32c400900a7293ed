"""The kernel is asked for netem only where a cable has a delay; without it the error names a remedy."""

import subprocess

import pytest

from gradwire.emu.network import netem
from gradwire.planning.fabrics.spec import parse_fabric


def answer(monkeypatch: pytest.MonkeyPatch, code: int) -> list[list[str]]:
    asked: list[list[str]] = []

    def run(command: list[str], **_: object) -> "subprocess.CompletedProcess[str]":
        asked.append(command)
        return subprocess.CompletedProcess(command, code)

    monkeypatch.setattr(subprocess, "run", run)
    return asked


def test_without_delays_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answer(monkeypatch, 2)
    netem.need_netem(parse_fabric("fat-tree:k=4"))
    assert asked == []


def test_the_probe_is_taken_away_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answer(monkeypatch, 0)
    netem.need_netem(parse_fabric("star:hosts=2,delay=1ms"))
    assert [command[2] for command in asked] == ["add", "del"]


def test_a_kernel_without_netem_is_told_of_with_the_links_and_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer(monkeypatch, 2)
    with pytest.raises(netem.NoNetem) as caught:
        netem.need_netem(parse_fabric("star:hosts=5,delay=1ms"))
    text = str(caught.value)
    assert text.startswith("links h0-switch0, h1-switch0, h2-switch0 and 2 more have a delay")
    assert "modprobe sch_netem" in text
    assert "\n" not in text
