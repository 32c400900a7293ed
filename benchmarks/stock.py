"""Mininet as it comes, for comparison: TCLink on every link, and Open vSwitch, its default switch.

Made for namespaces of its own (`emu.kernel.isolate`): Open vSwitch's folders are covered there with memory.
"""

import subprocess
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address
from pathlib import Path

from mininet.link import TCLink
from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.node import OVSSwitch

from gradwire.emu.switch.ovs import datapath_kind
from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.openflow.rules import destination_rules
from gradwire.planning.plan import Plan

OVS_CTL = "/usr/share/openvswitch/scripts/ovs-ctl"
OVS_FOLDERS = ("/run", "/etc/openvswitch", "/var/lib/openvswitch", "/var/log/openvswitch")
LIMIT_S = 120


def start_ovs() -> None:
    """Open vSwitch's daemons, which end with the namespaces."""
    for folder in OVS_FOLDERS:
        Path(folder).mkdir(parents=True, exist_ok=True)
        run("mount", "-t", "tmpfs", "tmpfs", folder)
    run(OVS_CTL, "start", "--system-id=random", "--no-monitor")


@contextmanager
def stock_mininet(fabric: Fabric, static_arp: bool) -> Iterator[Mininet]:
    """The fabric, built and started by Mininet; its switches have no rules and no controller."""
    setLogLevel("critical")  # it tells as errors what tc says of large quanta
    net = Mininet(controller=None, autoSetMacs=False, autoStaticArp=static_arp, link=TCLink)
    try:
        for host in fabric.hosts:
            net.addHost(host, ip=f"{fabric.ip(host)}/16", mac=fabric.mac(host))
        for switch in fabric.switches:
            net.addSwitch(
                switch,
                OVSSwitch,
                dpid=f"{fabric.dpid(switch):016x}",
                datapath="kernel" if datapath_kind() == "system" else "user",
                failMode="secure",
                protocols="OpenFlow13",
            )
        for link in fabric.links:
            # txo: a switch in user space forwards the checksum that it is handed, so hosts must make it.
            net.addLink(link.a, link.b, link.a_port, link.b_port, bw=link.rate_bps / 1e6, txo=False)
        net.start()
        yield net
    finally:
        net.stop()


def program(plan: Plan) -> None:
    """The plan's flows as rules, and one path to every host for the rest, written in without a controller."""
    rules: defaultdict[str, list[str]] = defaultdict(list)
    for switch, own in destination_rules(plan.fabric).items():
        for rule in own:
            match = f"priority=1,ip,nw_dst={IPv4Address(rule.match.ipv4_dst or 0)}"
            rules[switch].append(f"{match},actions=output:{rule.ports[0]}")
    for flow in plan.flows:
        match = f"tcp,nw_src={flow.src_ip},nw_dst={flow.dst_ip},tp_src={flow.sport},tp_dst={flow.dport}"
        for end in flow.path[1:]:  # the first is the host's own port
            rules[end.node].append(f"{match},actions=output:{end.port}")
    for switch, lines in rules.items():
        run("ovs-ofctl", "-O", "OpenFlow13", "add-flows", switch, "-", stdin="\n".join(lines) + "\n")


def run(*command: str, stdin: str = "") -> None:
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:3])}: {done.stderr or done.stdout}")
