"""gradwire's fabrics and switch for Mininet's own command `mn`.

    mn --custom emu/mn.py --topo bigraph,8,2 --switch gradwire --controller remote --arp --mac

Add `--wait` where people type at its prompt (no `--test`): else the prompt comes before the rules, and the
first pings are lost.

Topologies: `bigraph,N,M`, `fattree,K[,LEVELS]`, `leafspine,LEAVES,SPINES,HOSTS`, `mesh,X,Y`, `torus,X,Y` (in
place of Mininet's own).  Names, ports, dpids and addresses are those of the fabric everywhere else, so
`gradwire controller bigraph:n=8,m=2` knows them.
"""

import sys
from pathlib import Path

from mininet.topo import Topo

# `mn` runs this file as text: it is not a module then, and the project is not on the path.
_PROJECT = str(Path((lambda: None).__code__.co_filename).resolve().parents[1])
if Path(_PROJECT, "gradwire.py").exists() and _PROJECT not in sys.path:
    sys.path.append(_PROJECT)

from gradwire.emu.switch.node import GradwireSwitch  # noqa: E402
from gradwire.planning.fabrics.spec import parse_fabric  # noqa: E402 - see above


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


# The names that `mn` looks for.
topos = {"bigraph": bigraph, "fattree": fattree, "leafspine": leafspine, "mesh": mesh, "torus": torus}
switches = {"gradwire": GradwireSwitch}
