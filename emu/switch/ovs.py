"""Open vSwitch as the switches of a fabric: a private instance in the namespaces of the run.

The system's Open vSwitch is not touched: database, sockets, logs and pid files are in folders that
the caller gives.  With the kernel module the data path is the kernel's, one per network namespace;
without it packets are forwarded in user space, and the hosts' transmit offloads must be off.
"""

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import if_nametoindex

from gradwire.emu.kernel.rtnetlink import Request, carry_out, link_down, link_state, link_up
from gradwire.planning.fabrics.fabric import Fabric, interface

SCHEMA_FILE = Path("/usr/share/openvswitch/vswitch.ovsschema")
_MODULE = Path("/sys/module/openvswitch")
_START_S = 10.0
_TRANSACTION_S = 60
_END_S = 2.0
_MAX_BACKOFF_MS = 1000  # between two tries to reach the controller; its least value
_POLL_S = 0.02
_MAX_SOCKET_PATH = 107  # sun_path


class OvsError(OSError):
    """Open vSwitch cannot be started or refused the bridges; the text is one line."""


@dataclass(frozen=True)
class RunningOvs:
    """`pids` are its processes by name, for whoever watches them."""

    kind: str
    pids: Mapping[str, int]


def datapath_kind() -> str:
    """`system` if the kernel has Open vSwitch (loaded, or by `modprobe openvswitch`), else `netdev`."""
    return "system" if _MODULE.exists() else "netdev"


@contextmanager
def running_ovs(
    fabric: Fabric, folder: Path, openflow_port: int, logs: Path | None = None
) -> Iterator[RunningOvs]:
    """A bridge for every switch of the fabric, with its dpid and port numbers, in search of its controller.

    The interfaces must exist.  `folder` is made, must be this instance's alone, and is short: sockets are
    there.  `logs` is made too, and is the same folder unless it is given.  A kernel data path stays when
    this ends, and goes with the network namespace.  Raise OvsError.
    """
    logs = logs or folder
    for directory in (folder, logs):
        directory.mkdir(parents=True, exist_ok=True)
    folder, logs = folder.resolve(), logs.resolve()
    database, socket = folder / "conf.db", folder / "db.sock"
    if len(str(socket)) > _MAX_SOCKET_PATH:
        raise OvsError(f"{socket}: this path is too long for a socket; use a folder with a shorter path")
    _run(["ovsdb-tool", "create", str(database), str(SCHEMA_FILE)], folder)
    server = ["ovsdb-server", str(database), f"--remote=punix:{socket}"]
    switchd = ["ovs-vswitchd", f"unix:{socket}"]
    kind = datapath_kind()
    with ExitStack() as stack:
        pids = {}
        for name, command in (("ovsdb-server", server), ("ovs-vswitchd", switchd)):
            process = stack.enter_context(_daemon(name, command, folder, logs))
            pids[name] = process.pid
            if name == "ovsdb-server":
                _await(socket, process, logs / f"{name}.log")
                _vsctl(folder, ["--no-wait", "init"])
        _vsctl(folder, bridges(fabric, kind, openflow_port))
        yield RunningOvs(kind, pids)


def bridges(fabric: Fabric, kind: str, openflow_port: int) -> list[str]:
    """The words for `ovs-vsctl`: all bridges and ports in one transaction."""
    words: list[str] = []
    for switch in fabric.switches:
        words += _bridge(fabric, switch, kind, openflow_port)
    return words[1:]


def _bridge(fabric: Fabric, switch: str, kind: str, openflow_port: int) -> list[str]:
    """The words for one bridge, each command after a `--`."""
    words = ["--", "add-br", switch]
    words += ["--", "set", "bridge", switch, f"datapath_type={kind}", "protocols=OpenFlow13"]
    words += ["fail_mode=secure", f"other-config:datapath-id={fabric.dpid(switch):016x}"]
    words += ["other-config:disable-in-band=true"]
    for port in fabric.ports.get(switch, ()):
        name = interface(switch, port)
        words += ["--", "add-port", switch, name]
        words += ["--", "set", "interface", name, f"ofport_request={port}"]
    words += ["--", "set-controller", switch, f"tcp:127.0.0.1:{openflow_port}"]
    words += ["--", "set", "controller", switch, f"max_backoff={_MAX_BACKOFF_MS}"]
    return words


class Bridges:
    """Stops and starts single bridges of a running instance, whose sockets are in `folder`."""

    def __init__(self, fabric: Fabric, folder: Path, openflow_port: int) -> None:
        self._fabric, self._folder, self._openflow_port = fabric, folder, openflow_port
        self._stopped: dict[str, list[str]] = {}  # the interfaces that were up, by switch

    def power(self, verb: str, switch: str) -> None:
        """`stop`: no bridge, and its cables are dead.  `start`: both as before.  Raise OSError."""
        if verb == "stop" and switch not in self._stopped:
            names = [interface(switch, port) for port in self._fabric.ports.get(switch, ())]
            self._stopped[switch] = [name for name in names if _is_enabled(name)]
            _vsctl(self._folder, ["del-br", switch])
            self._enable(switch, link_down)
        elif verb == "start" and switch in self._stopped:
            self._enable(switch, link_up)
            _vsctl(self._folder, _bridge(self._fabric, switch, datapath_kind(), self._openflow_port)[1:])
            del self._stopped[switch]

    def _enable(self, switch: str, change: Callable[[int], Request]) -> None:
        carry_out([change(if_nametoindex(name)) for name in self._stopped[switch]])


def _is_enabled(name: str) -> bool:
    return link_state(if_nametoindex(name)).is_enabled


@contextmanager
def _daemon(name: str, command: list[str], folder: Path, logs: Path) -> "Iterator[subprocess.Popen[bytes]]":
    """Not `--detach`ed: a child of ours, ended by its own handle, and deaf to a terminal's Ctrl-C."""
    files = [
        f"--pidfile={folder / name}.pid",
        f"--unixctl={folder / name}.ctl",
        f"--log-file={logs / name}.log",
    ]
    quiet = ["--verbose=console:off"]
    try:
        process = subprocess.Popen(
            [*command, *quiet, *files],
            env=_environment(folder),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise OvsError(f"{command[0]} is not installed: run apt-get install openvswitch-switch") from error
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _environment(folder: Path) -> dict[str, str]:
    folders = dict.fromkeys(("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"), str(folder))
    return os.environ | folders


def _await(socket: Path, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline_s = time.monotonic() + _START_S
    while not socket.exists():
        if process.poll() is not None or time.monotonic() > deadline_s:
            said = log.read_text(errors="replace").splitlines() if log.exists() else []
            raise OvsError(f"ovsdb-server did not start: {said[-1] if said else 'it gave no reason'}")
        time.sleep(_POLL_S)


def _vsctl(folder: Path, words: list[str]) -> None:
    _run(["ovs-vsctl", f"--db=unix:{folder / 'db.sock'}", f"--timeout={_TRANSACTION_S}", *words], folder)


def _run(command: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            command,
            env=_environment(folder),
            capture_output=True,
            text=True,
            timeout=_TRANSACTION_S + _END_S,
            check=False,
        )
    except FileNotFoundError as error:
        raise OvsError(f"{command[0]} is not installed: run apt-get install openvswitch-switch") from error
    if done.returncode or "rror" in done.stderr:  # it reports a port that it cannot add, with exit code 0
        complaint = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise OvsError(f"{command[0]}: {complaint[0]}")
