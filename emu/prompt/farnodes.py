"""Hosts and switches of other machines as Mininet's nodes: their shells and commands run there, by ssh.

Mininet's cluster edition is the model (mininet.examples.cluster): a node's processes are started through the
program that reaches its machine, and Mininet sees no difference.
"""

import os
import shlex
import subprocess
import termios
from collections.abc import Callable, Sequence
from typing import Any

from mininet.net import Mininet
from mininet.node import Host

from gradwire.emu.machines.machine import Machine, Team
from gradwire.emu.network.net import connect_nodes
from gradwire.emu.network.nodes import MadeIntf, ShellOnDemand
from gradwire.emu.network.underlay import handed
from gradwire.emu.switch import ofctl
from gradwire.emu.switch.node import GradwireSwitch
from gradwire.emu.switch.ofctl import Answer
from gradwire.emu.switch.running import MANAGEMENT
from gradwire.planning.fabrics.fabric import Fabric

_SESSION = 1  # a session's own process in its namespaces


class _FarNode(ShellOnDemand):
    """In the namespaces of process `pid` of a session of `machine`, which are parameters of the node."""

    def _popen(self, command: Sequence[str], **parameters: Any) -> "subprocess.Popen[Any]":
        """Mininet starts all its processes so."""
        machine: Machine = self.params["machine"]
        stdin = parameters.get("stdin")
        is_shell = False
        if isinstance(stdin, int) and stdin >= 0 and os.isatty(stdin):  # PIPE is below 0
            is_shell = True
            _without_echo(stdin)
        whole = machine.entering(shlex.join(command), is_shell)
        parameters |= {"close_fds": True, "pass_fds": (handed(),), "start_new_session": True}
        return subprocess.Popen(whole, **parameters)

    def prepare_shell(self) -> None:
        self.pid = self.params["pid"]  # that of the shell is one of ssh here
        super().prepare_shell()


class FarHost(_FarNode, Host):
    """A host of another machine."""


class FarSwitch(_FarNode, GradwireSwitch):
    """A switch of another machine."""

    def __init__(self, name: str, dpid: str, **parameters: Any) -> None:
        super().__init__(name, dpid, **{**parameters, "pid": _SESSION, "inNamespace": True})
        self.inNamespace = False  # said late, for Mininet would start a shell to bring a loopback up
        self.controlIntf = MadeIntf("lo", self, port=0)

    def ask(self, words: Sequence[str]) -> Answer:
        process = self.popen(ofctl.asking(MANAGEMENT, self.name, words), text=True)
        try:
            stdout, stderr = process.communicate(timeout=ofctl.LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return Answer("", f"ovs-ofctl {words[0]} did not end within {ofctl.LIMIT_S} s")
        return ofctl.answered(process.returncode, stdout, stderr)

    def prepare_shell(self) -> None:
        super().prepare_shell()
        self.cmd(ofctl.shell_function(MANAGEMENT, self.name))

    def connected(self) -> bool:
        """True: the controller was ready when the prompt began."""
        return True

    def stop(self, deleteIntfs: bool = True) -> None:
        """At the lab's end its machine takes it down."""
        if not deleteIntfs:
            super().stop(deleteIntfs)


class _FarIntf(MadeIntf):
    """Its address is the fabric's: to ask would take a connection of ssh."""

    def updateIP(self) -> str:
        return str(self.ip)

    def status(self) -> str:
        words = self.node.cmd("ip", "-brief", "link", "show", "dev", self.name).split()
        return "OK" if len(words) > 1 and words[1] in ("UP", "UNKNOWN") else "DOWN"


def add_far_nodes(net: Mininet, fabric: Fabric, team: Team, power: Callable[[Machine], Any]) -> None:
    """The nodes of other machines, and all cables that they have, in the fabric's order.

    `power` gives what stops and starts the switches of a machine.
    """
    for machine in team.others:
        for host, pid in machine.host_pids.items():
            net.addHost(host, FarHost, ip=None, pid=pid, machine=machine)
        for switch in machine.switches:
            added = net.addSwitch(switch, FarSwitch, dpid=f"{fabric.dpid(switch):016x}", machine=machine)
            added.power = power(machine)
    far = {node for machine in team.others for node in (*machine.host_pids, *machine.switches)}
    links = [link for link in fabric.links if not far.isdisjoint((link.a, link.b))]
    connect_nodes(net, fabric, links, lambda node: _FarIntf if node in far else MadeIntf)
    order = {name: number for number, name in enumerate((*fabric.hosts, *fabric.switches))}
    for nodes in (net.hosts, net.switches):
        nodes.sort(key=lambda node: order[node.name])


def _without_echo(fd: int) -> None:
    """Of a terminal: what is typed comes back from the far shell, if at all."""
    settings = termios.tcgetattr(fd)
    settings[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(fd, termios.TCSANOW, settings)
