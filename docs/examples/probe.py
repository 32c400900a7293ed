"""Which way do my packets go?  At the prompt of `gradwire up`: h0 python3 docs/examples/probe.py h3

Sends UDP probes that differ in their source port alone, and shows by the switch's counters through which of
its ports they left: the hash of its `select` group decides.  Some come back, as ICMP's `port unreachable`.
"""

import re
import subprocess
import sys
from collections import Counter

from gradwire.tools.dissect.lab import IP, UDP, conf, send

N_PROBES = 64


def sent_by_port(switch: str) -> Counter[str]:
    """Packets that left through each port, by `ovs-ofctl dump-ports`."""
    command = ["ovs-ofctl", "-O", "OpenFlow13", "--no-names", "dump-ports", switch]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return Counter(
        {
            port: int(packets)
            for port, packets in re.findall(r"port +(\d+):.*?tx pkts=(\d+)", shown, re.DOTALL)
        }
    )


def main(destination: str, switch: str = "leaf0") -> None:
    conf.verb = 0
    before = sent_by_port(switch)
    send([IP(dst=destination) / UDP(sport=10_000 + n, dport=9) / bytes(100) for n in range(N_PROBES)])
    for port, packets in sorted((sent_by_port(switch) - before).items()):
        print(f"{packets} of {N_PROBES} probes left {switch} through port {port}")


if __name__ == "__main__":
    main(*sys.argv[1:])
