"""gradwire's fabrics and switch for Mininet's own command `mn`.

    mn --custom emu/mn.py --topo bigraph,8,2 --switch gradwire --controller remote --arp --mac

Topologies: `bigraph,N,M`, `fattree,K[,LEVELS]`, `leafspine,LEAVES,SPINES,HOSTS`, `mesh,X,Y`, `torus,X,Y` (in
place of Mininet's own).  Names, ports, dpids and addresses are those of the fabric everywhere else, so
`gradwire controller bigraph:n=8,m=2` knows them.
"""

import sys
from pathlib import Path
from typing import Any

from mininet.net import Mininet
from mininet.topo import Topo

# `mn` runs this file as text: it is not a module then, and the project is not on the path.
_PROJECT = str(Path((lambda: None).__code__.co_filename).resolve().parents[1])
if Path(_PROJECT, "gradwire.py").exists() and _PROJECT not in sys.path:
    sys.path.append(_PROJECT)

from gradwire.emu.prompt.cli import LabPrompt, run_iperf  # noqa: E402
from gradwire.emu.switch.node import GradwireSwitch  # noqa: E402
from gradwire.planning.fabrics.spec import parse_fabric  # noqa: E402 - see above

CONTROLLER_S = 20.0  # in which the switches find their controller; then the prompt comes all the same


class FabricTopo(Topo):  # type: ignore[misc]
    """Any fabric, by its spec, as a Mininet topology.  Raise ValueError for a spec that is none."""

    def build(self, spec: str) -> None:
        fabric = parse_fabric(spec)
        for host in fabric.hosts:
            self.addHost(host, ip=f"{fabric.ip(host)}/16", mac=fabric.mac(host))
        for switch in fabric.switches:
            self.addSwitch(switch, dpid=f"{fabric.dpid(switch):016x}")
        for link in fabric.links:
            self.addLink(link.a, link.b, port1=link.a_port, port2=link.b_port)


def bigraph(n: int, m: int) -> FabricTopo:
    return FabricTopo(f"bigraph:n={n},m={m}")


def fattree(k: int, levels: int = 3) -> FabricTopo:
    return FabricTopo(f"fat-tree:k={k},levels={levels}")


def leafspine(leaves: int, spines: int, hosts: int) -> FabricTopo:
    return FabricTopo(f"leaf-spine:leaves={leaves},spines={spines},hosts={hosts}")


def mesh(x: int, y: int) -> FabricTopo:
    return FabricTopo(f"mesh:x={x},y={y}")


def torus(x: int, y: int) -> FabricTopo:
    return FabricTopo(f"torus:x={x},y={y}")


def iperf(net: Mininet) -> None:
    """`--test iperf`, which does not wait for ever."""
    net.waitConnected()
    run_iperf(net.hosts[0], net.hosts[-1])


class CLI(LabPrompt):
    """The prompt, once the switches have their rules: else the first pings would be lost."""

    def __init__(self, net: Mininet, **keywords: Any) -> None:
        net.waitConnected(timeout=CONTROLLER_S)
        super().__init__(net, **keywords)


# The names that `mn` looks for, besides CLI.
tests = {"iperf": iperf}
topos = {"bigraph": bigraph, "fattree": fattree, "leafspine": leafspine, "mesh": mesh, "torus": torus}
switches = {"gradwire": GradwireSwitch}
