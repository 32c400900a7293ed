"""What is typed at the prompt never ends a lab, and what failed is known."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mininet.cli import CLI

from gradwire.emu.prompt.cli import LabPrompt


class Net(dict[str, Any]):
    """As much of a Mininet as the commands look at."""

    def __init__(self) -> None:
        self.hosts = [SimpleNamespace(name=name) for name in ("h0", "h1")]
        self.switches = [SimpleNamespace(name="leaf0")]
        self.controllers: list[Any] = []
        super().__init__({node.name: node for node in (*self.hosts, *self.switches)})
        self.lost = 0.0

    def pingAll(self, _timeout: str) -> float:  # noqa: N802 - Mininet's name
        return self.lost


class Typed(LabPrompt):
    """Carries out these lines and ends."""

    def __init__(self, net: Net, *lines: str) -> None:
        self.lines = lines
        with open(os.devnull) as nothing:
            super().__init__(net, stdin=nothing)

    def run(self) -> None:
        for line in self.lines:
            if self.onecmd(self.precmd(line)):
                break


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CLI, "readlineInited", True)  # else Mininet writes a history file
    monkeypatch.delenv("GRADWIRE_TRACEBACK", raising=False)
    monkeypatch.delenv("DISPLAY", raising=False)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("py 1/0", "ZeroDivisionError: division by zero"),
        ("py nosuch", "NameError: name 'nosuch' is not defined"),
        ("px exit(3)", "SystemExit: 3"),
        ("time py 1/0", "ZeroDivisionError: division by zero"),
        ("nonsense", "Unknown command: nonsense"),
        ("source /nonexistent", "/nonexistent: No such file or directory"),
        ("iperf h0", "usage: iperf [CLIENT SERVER], as iperf h0 h7"),
        ("iperf h0 h9", "there is no host 'h9'; `nodes` lists them"),
        ("iperf h0 leaf0", "there is no host 'leaf0'; `nodes` lists them"),
        ("iperf h0 h0", "iperf needs two hosts, not h0 twice"),
        ("link h0 leaf7 down", "there is no node 'leaf7'; `nodes` lists them"),
        ("link h0 leaf0", "usage: link NODE NODE down|up, as link leaf0 spine0 down"),
        ("switch leaf7 stop", "there is no switch 'leaf7'; `nodes` lists them"),
        ("switch h0 stop", "there is no switch 'h0'; `nodes` lists them"),
        ("switch leaf0 stpo", "usage: switch NAME stop|start, as switch leaf0 stop"),
        ("dpctl", "usage: dpctl COMMAND [ARGUMENT...], as dpctl dump-flows"),
        ('dpctl add-flow "', "No closing quotation"),
        ("xterm h0", "xterm opens a window, and there is no display (DISPLAY is not set)"),
        ("pingall 1; reboot", "'1; reboot' is not a number of seconds"),
        ("pingall 0", "pingall waits above 0 and up to 60 seconds for an answer, not 0"),
        ("pingall 86400", "pingall waits above 0 and up to 60 seconds for an answer, not 86400"),
        ("iperfudp abc h0 h1", "'abc' is not a rate: write it like 10M"),
        ("iperfudp 0 h0 h1", "'0' is not a rate: write it like 10M"),
    ],
)
def test_a_command_that_fails_is_one_line_and_the_lab_goes_on(line: str, said: str) -> None:
    net = Net()
    prompt = Typed(net, line, "py net.update(after=1)")
    assert prompt.failures == [said]
    assert "after" in net


def test_a_command_that_does_what_it_should_is_no_failure() -> None:
    assert (
        Typed(Net(), "pingall", "pingall 0.5", "py 1+1", "sh true", "nodes", "# a remark", "").failures == []
    )


def test_lost_pings_and_exit_codes_are_failures() -> None:
    net = Net()
    net.lost = 25.0
    assert Typed(net, "pingall", "sh exit 3").failures == ["25% of the pings were lost", "exit code 3"]


def test_exit_ends_the_prompt() -> None:
    assert Typed(Net(), "exit", "nonsense").failures == []


def test_a_file_is_carried_out_until_its_exit(tmp_path: Path) -> None:
    path = tmp_path / "commands"
    path.write_text("nonsense\nexit\nmore nonsense\n")
    assert Typed(Net(), f"source {path}").failures == ["Unknown command: nonsense"]
