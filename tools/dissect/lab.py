"""Scapy as a host of a lab needs it: `from gradwire.tools.dissect.lab import *`; `h0 scapy` begins with it.

It has Scapy's own names, the aggregation layer, and the MAC addresses of all hosts, which are static here:
nobody answers Scapy's ARP.  An edge module.
"""

import json
import subprocess

from scapy.all import *  # noqa: F403 - a shell's names
from scapy.config import conf

from gradwire.tools.dissect.scapy_layer import GradwireAggregation  # noqa: F401


def know_neighbours() -> None:
    """What the kernel knows of who has which MAC address, Scapy knows as well, for ever."""
    shown = subprocess.run(["ip", "-json", "neigh"], capture_output=True, text=True, check=False).stdout
    known = conf.netcache.arp_cache  # type: ignore[attr-defined] # scapy.layers.l2 makes it
    known.timeout = None
    for entry in json.loads(shown or "[]"):
        if "lladdr" in entry:
            known[entry["dst"]] = entry["lladdr"]


know_neighbours()
