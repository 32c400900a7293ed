"""What people do with one running switch: `ovs-ofctl` on it, stop it, start it.

Both kinds of switches listen at FOLDER/NAME.mgmt, so Open vSwitch's own program asks ours as well.  Our
agent, which stops and starts switches, listens at FOLDER/agent.ctl for one line, as `stop leaf0`, and answers
`done` or what is wrong.
"""

import shlex
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

AGENT = "agent.ctl"
DONE = "done"
PROGRAM = ("ovs-ofctl", "-O", "OpenFlow13", "--no-names")  # as to a file: ports by number
LIMIT_S = 30
_ANSWER_NBYTES = 4096


@dataclass(frozen=True, slots=True)
class Answer:
    """What `ovs-ofctl` wrote, errors included; `complaint` is their first line, None if there are none."""

    text: str
    complaint: str | None = None


def management_socket(folder: Path, switch: str) -> Path:
    """Where the switch speaks OpenFlow with people."""
    return folder / f"{switch}.mgmt"


def asked(folder: Path, switch: str, words: Sequence[str]) -> Answer:
    """`ovs-ofctl WORDS` of one switch: the command first, its arguments then."""
    if not management_socket(folder, switch).exists():
        return _complaint(_stopped(switch))
    whole = asking(folder, switch, words)
    try:
        done = subprocess.run(whole, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except FileNotFoundError:
        return _complaint("ovs-ofctl is not installed: run apt-get install openvswitch-switch")
    except subprocess.TimeoutExpired:
        return _complaint(f"ovs-ofctl {words[0]} did not end within {LIMIT_S} s")
    return answered(done.returncode, done.stdout, done.stderr)


def asking(folder: Path, switch: str, words: Sequence[str]) -> list[str]:
    """The command that asks."""
    command, *arguments = words
    return [*PROGRAM, command, f"unix:{management_socket(folder, switch)}", *arguments]


def answered(exit_code: int, stdout: str, stderr: str) -> Answer:
    """What the command's end says."""
    if not exit_code:
        return Answer(stdout + stderr)
    errors = [line for line in stderr.strip().splitlines() if "|WARN|" not in line]
    return Answer(stdout + stderr, errors[0] if errors else f"exit code {exit_code}")


def shell_function(folder: Path, switch: str) -> str:
    """A line of shell after which `dpctl COMMAND …` is `ovs-ofctl` on this switch."""
    path = shlex.quote(str(management_socket(folder, switch)))
    is_there = f"[ -S {path} ] || {{ echo {shlex.quote(_stopped(switch))} >&2; return 1; }}"
    return f'dpctl() {{ {is_there}; local word=$1; shift; {" ".join(PROGRAM)} "$word" unix:{path} "$@"; }}'


def order(folder: Path, verb: str, switch: str) -> None:
    """Have our agent `stop` or `start` a switch; returns when it is done.  Raise OSError or ValueError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as agent:
        agent.settimeout(LIMIT_S)
        agent.connect(str(folder / AGENT))
        agent.sendall(f"{verb} {switch}\n".encode())
        answer = agent.recv(_ANSWER_NBYTES).decode(errors="replace")
    if answer != DONE:
        raise ValueError(answer or "the switch agent ended")


def _complaint(text: str) -> Answer:
    return Answer(f"{text}\n", text)


def _stopped(switch: str) -> str:
    return f"{switch} is stopped: `switch {switch} start` starts it"
