"""Mininet's prompt as a lab needs it: nothing that a command does ends it, and each says whether it failed.

For any Mininet, as of `mn`; that of `gradwire up` knows more (`hosts.py`).
"""

import logging
import os
import re
import shlex
import shutil
import subprocess
import traceback
from collections.abc import Sequence
from typing import Any

from mininet.cli import CLI
from mininet.log import error, lg, output

from gradwire.emu.prompt import iperf
from gradwire.emu.switch.node import GradwireSwitch

SHOW_TRACEBACK = "GRADWIRE_TRACEBACK"
_SECONDS = re.compile(r"(\d+(\.\d+)?)?", re.ASCII)
_MOST_SECONDS = 60
_RATE = re.compile(r"\d{1,9}(?:\.\d{1,6})?[KMGkmg]?")
_RULE = "-" * 72  # as Mininet's


class _Errors(logging.Handler):
    """Keeps what Mininet reports as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage().strip().removeprefix("*** "))


class LabPrompt(CLI):  # type: ignore[misc]
    """`failures` are what went wrong in the commands so far, a line each.

    `reaches_network`: its process is in the machine's own network, as that of `mn` is.
    """

    reaches_network = True

    def __init__(self, net: Any, *arguments: Any, **keywords: Any) -> None:
        """Returns when whoever types has left, or Mininet's `script` is done."""
        self._errors = _Errors()
        lg.addHandler(self._errors)
        try:
            super().__init__(net, *arguments, **keywords)
        finally:
            lg.removeHandler(self._errors)

    @property
    def failures(self) -> list[str]:
        return self._errors.texts

    def fail(self, reason: str) -> None:
        """Note a failure that the command's own output shows already."""
        self._errors.texts.append(reason)

    def onecmd(self, line: str) -> Any:
        """Whether it was the last command."""
        try:
            return super().onecmd(line)
        except (Exception, SystemExit) as failure:  # noqa: BLE001 - whatever it is, the lab goes on
            if os.environ.get(SHOW_TRACEBACK):
                output(traceback.format_exc())
            error(f"*** {_one_line(failure)}\n")
            return None

    def do_pingall(self, line: str) -> None:
        """Ping between all hosts.  Usage: pingall [SECONDS to wait]"""
        self._note_lost(self.mn.pingAll(_seconds(line)))

    def do_pingpair(self, _line: str) -> None:
        """Ping between the first two hosts."""
        self._note_lost(self.mn.pingPair())

    def do_pingallfull(self, _line: str) -> None:
        """Ping between all hosts, and print the times."""
        self._note_unanswered(self.mn.pingAllFull())

    def do_pingpairfull(self, _line: str) -> None:
        """Ping between the first two hosts, and print the times."""
        self._note_unanswered(self.mn.pingPairFull())

    def _note_lost(self, percent: float) -> None:
        if percent:
            self.fail(f"{percent:.0f}% of the pings were lost")

    def _note_unanswered(self, results: Sequence[Any]) -> None:
        lost = sum(counts[0] - counts[1] for _, _, counts in results)
        if lost:
            self.fail(f"pings lost: {lost} of {len(results)}")

    def do_iperf(self, line: str) -> None:
        """TCP between two hosts for 5 s, by iperf3: what arrived, and what was sent.  Usage: iperf [h0 h7]"""
        names = line.split()
        if len(names) not in (0, 2):
            raise ValueError("usage: iperf [CLIENT SERVER], as iperf h0 h7")
        self._iperf(names or self._ends())

    def do_iperfudp(self, line: str) -> None:
        """UDP between two hosts for 5 s, by iperf3.  Usage: iperfudp [RATE h0 h7], as iperfudp 10M h0 h7"""
        words = line.split()
        if len(words) not in (0, 3):
            raise ValueError("usage: iperfudp [RATE CLIENT SERVER], as iperfudp 10M h0 h7")
        self._iperf(words[1:] or self._ends(), _rate(words[0]) if words else "10M")

    def _ends(self) -> list[str]:
        return [self.mn.hosts[0].name, self.mn.hosts[-1].name]

    def _iperf(self, names: Sequence[str], udp_rate: str | None = None) -> None:
        client, server = map(self._host, names)
        if client is server:
            raise ValueError(f"iperf needs two hosts, not {client.name} twice")
        run_iperf(client, server, udp_rate)

    def _node(self, name: str) -> Any:
        if name not in self.mn:
            raise ValueError(f"there is no node {name!r}; `nodes` lists them")
        return self.mn[name]

    def _host(self, name: str) -> Any:
        if name not in self.mn or self.mn[name] not in self.mn.hosts:
            raise ValueError(f"there is no host {name!r}; `nodes` lists them")
        return self.mn[name]

    def do_dpctl(self, line: str) -> None:
        """Run a command of ovs-ofctl on all switches; on one: leaf0 dpctl COMMAND.  Usage: dpctl COMMAND"""
        words = shlex.split(line)
        if not words:
            raise ValueError("usage: dpctl COMMAND [ARGUMENT...], as dpctl dump-flows")
        for switch in self.mn.switches:
            output(f"*** {switch.name} {_RULE}\n")
            if not isinstance(switch, GradwireSwitch):
                output(switch.dpctl(*words))
                continue
            answer = switch.ask(words)
            output(answer.text)
            if answer.complaint:
                self.fail(f"{switch.name}: {answer.complaint}")

    def do_link(self, line: str) -> None:
        """Pull the cables between two nodes, or put them back.  Usage: link leaf0 spine0 down|up"""
        words = line.split()
        if len(words) != 3 or words[2] not in ("down", "up"):
            raise ValueError("usage: link NODE NODE down|up, as link leaf0 spine0 down")
        a, b = (self._node(name) for name in words[:2])
        cables = a.connectionsTo(b)
        if not cables:
            raise ValueError(f"there is no cable between {a.name} and {b.name}; `net` shows all")
        for ends in cables:
            # A host notices as of a pulled cable: were its own end disabled, it would forget its neighbours.
            at_switches = [end for end in ends if end.node not in self.mn.hosts]
            for end in at_switches or ends:
                if complaint := end.ifconfig(words[2]):
                    raise OSError(f"{end.name}: {' '.join(complaint.split())}")

    def do_switch(self, line: str) -> None:
        """Take the power from a switch, or give it back.  Usage: switch leaf0 stop|start"""
        name, _, verb = line.strip().partition(" ")
        if verb not in ("stop", "start"):
            raise ValueError("usage: switch NAME stop|start, as switch leaf0 stop")
        if name not in self.mn or self.mn[name] not in self.mn.switches:
            raise ValueError(f"there is no switch {name!r}; `nodes` lists them")
        if verb == "stop":
            self.mn[name].stop(deleteIntfs=False)
            output(f"*** {name} has no power: its rules are gone, and its cables are dead\n")
        else:
            self.mn[name].start(self.mn.controllers)
            output(f"*** {name} is back\n")

    def do_xterm(self, line: str, term: str = "xterm") -> None:
        """Open a terminal window on each of these nodes.  Usage: xterm h0 h1 ..."""
        program = {"gterm": "gnome-terminal"}.get(term, term)
        display = os.environ.get("DISPLAY")
        if display is None:
            raise OSError(f"{term} opens a window, and there is no display (DISPLAY is not set)")
        if display.partition(":")[0] not in ("", "unix") and not self.reaches_network:
            raise OSError(f"{term}: display {display} is reached by TCP, which this network does not reach")
        if not shutil.which(program):
            raise OSError(f"{program} is not installed: run apt-get install {program}")
        super().do_xterm(line, term)

    def do_sh(self, line: str) -> None:
        """Run a command of the shell outside all hosts.  Usage: sh COMMAND"""
        code = subprocess.run(["sh", "-c", line], check=False).returncode
        if code:
            self.fail(f"exit code {code}")

    def do_py(self, line: str) -> None:
        """Evaluate a Python expression; nodes are there by name.  Usage: py h0.IP()"""
        result = eval(line, self.getLocals())
        if result:
            output(f"{result if isinstance(result, str) else repr(result)}\n")

    def do_px(self, line: str) -> None:
        """Execute a Python statement; nodes are there by name.  Usage: px print(h0.cmd('ls'))"""
        exec(line, self.getLocals())  # noqa: S102 - what the person types

    def do_source(self, line: str) -> None:
        """Carry out the commands in a file.  Usage: source FILE"""
        with open(line.strip()) as file:
            lines = file.read().splitlines()
        for each in lines:
            if self.onecmd(self.precmd(each)):
                break


def run_iperf(client: Any, server: Any, udp_rate: str | None = None) -> None:
    """Print what `measured` does, in Mininet's words.  Raise as it does."""
    kind = "UDP" if udp_rate else "TCP"
    output(f"*** Iperf: testing {kind} bandwidth between {client.name} and {server.name}\n")
    output(f"*** Results: {iperf.measured(client, server, udp_rate)}\n")


def _seconds(line: str) -> str:
    """What ping takes after -W, where 0 is for ever; none is ping's own.  Raise ValueError."""
    text = line.strip()
    if not _SECONDS.fullmatch(text):
        raise ValueError(f"{line!r} is not a number of seconds")
    if text and not 0 < float(text) <= _MOST_SECONDS:
        raise ValueError(f"pingall waits above 0 and up to {_MOST_SECONDS} seconds for an answer, not {text}")
    return text


def _rate(text: str) -> str:
    """What iperf3 takes after -b, where 0 is as fast as it can.  Raise ValueError."""
    if not _RATE.fullmatch(text) or not float(text.rstrip("KMGkmg")):
        raise ValueError(f"{text!r} is not a rate: write it like 10M")
    return text


def _one_line(failure: BaseException) -> str:
    """Its text; of what is not written for people its kind as well."""
    if isinstance(failure, OSError) and failure.filename and failure.strerror:
        return f"{failure.filename}: {failure.strerror}"
    text = " ".join(str(failure).split())
    kind = type(failure)
    is_for_people = issubclass(kind, OSError | ValueError) or kind.__module__.startswith("gradwire.")
    return text if is_for_people and text else f"{kind.__name__}: {text}"
