"""Two machines: sets of namespaces, joined by a cable, of which the second is reached as if by ssh (`rsh`).

The second one's clock (CLOCK_MONOTONIC) is a day ahead, as if it had been started a day earlier.

`twomachines.py FOLDER MTU COMMAND...` runs the command on `left`, with `$MACHINES` the file that names both.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from gradwire.emu.project import PROJECT

_RSH = Path(__file__).with_name("rsh.py")
_ALONE = ["unshare", "--net", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child=KILL", "--"]
LEFT, RIGHT = "192.0.2.1", "192.0.2.2"
_A_DAY_AHEAD = ["--time", "--monotonic", "86400", "--boottime", "86400", "--"]
_LATE_S = 10.0


def on_left(
    folder: Path,
    *command: str,
    mtu: int = 1600,
    gradwire: str = str(PROJECT / "gradwire"),
    timeout_s: float = 240,
) -> "subprocess.CompletedProcess[str]":
    """Run a command on `left`, with FILE in it as the file of machines; `gradwire` is what `right` runs."""
    listed = folder / "machines.yaml"
    listed.write_text(
        "machines:\n"
        f"  - {{name: left, address: {LEFT}}}\n"
        f"  - {{name: right, address: {RIGHT}, ssh: right, gradwire: {gradwire}}}\n"
        f"mtu: {max(mtu, 1550)}\n"  # what the cable has is to be found out
    )
    words = [str(listed) if word == "FILE" else word for word in command]
    return subprocess.run(
        [
            "setpriv",
            "--pdeathsig",
            "KILL",
            *_ALONE,
            sys.executable,
            "-P",
            __file__,
            str(folder),
            str(mtu),
            *words,
        ],
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def _main(folder: str, mtu: str, *command: str) -> int:
    socket = f"{folder}/right"
    alone = [*_ALONE[:-1], *_A_DAY_AHEAD]
    with subprocess.Popen([*alone, sys.executable, str(_RSH), "serve", socket]) as right:
        deadline_s = time.monotonic() + _LATE_S
        while not os.path.exists(socket):
            assert time.monotonic() < deadline_s, "the second machine does not start"
            time.sleep(0.05)
        there = f"/proc/{_child_of(right.pid)}/ns/net"
        enter = ["nsenter", f"--net={there}", "--"]
        for words in (
            ["ip", "link", "set", "lo", "up"],
            [*enter, "ip", "link", "set", "lo", "up"],
            ["ip", "link", "add", "left0", "type", "veth", "peer", "name", "right0"],
            ["ip", "link", "set", "right0", "netns", str(_child_of(right.pid))],
            ["ip", "address", "add", f"{LEFT}/24", "dev", "left0"],
            ["ip", "link", "set", "left0", "mtu", mtu, "up"],
            [*enter, "ip", "address", "add", f"{RIGHT}/24", "dev", "right0"],
            [*enter, "ip", "link", "set", "right0", "mtu", mtu, "up"],
        ):
            subprocess.run(words, check=True)
        environment = {**os.environ, "GRADWIRE_SSH": f"{sys.executable} {_RSH} {socket}"}
        code = subprocess.run(command, env=environment, check=False).returncode
        left = subprocess.run(["ip", "-brief", "link"], capture_output=True, text=True, check=True).stdout
        far = subprocess.run([*enter, "ip", "-brief", "link"], capture_output=True, text=True, check=True)
        names = sorted(line.split("@")[0].split()[0] for line in (left + far.stdout).splitlines())
        assert names == ["left0", "lo", "lo", "right0"], f"left behind: {names}"
        right.kill()
    return code


def _child_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
