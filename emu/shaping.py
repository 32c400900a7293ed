"""The commands that make a fabric's ports: text for `ip -batch` and `tc -batch`.  Runs nothing.

Every port, a host's too, sends through HTB at the link's rate.  Pure ACKs have a class of their own: behind
their own side's data they would make a full-duplex exchange 1.5 times slower (they wait up to a queue's
length, and congestion control takes the delay for a sign).  Only ACKs: other small packets belong to a
stream and would overtake their own data.
"""

from collections.abc import Iterable, Iterator

from emu.fabric import FRAME_NBYTES, Fabric, Link, interface
from emu.plan import Transport

LINK_GROUP = 71  # `ip link delete group 71` would remove every link of ours
AUTO_QUEUE_MIN_NBYTES = 256 * 1024
_BURST_NBYTES = 2 * FRAME_NBYTES
_ACK_SHARE = 10  # the ACK class is guaranteed a tenth and may borrow the rest


def links_batch(links: Iterable[Link], transport: Transport) -> Iterator[str]:
    """`ip -batch` lines, in the switches' namespace: all veth pairs.

    Host ends are `h3-eth0` like switch ends; whoever makes the hosts moves them.
    """
    gso = f"gso_max_size {transport.gso_max_nbytes} gso_max_segs 65535"
    for link in links:
        a, b = interface(link.a, link.a_port), interface(link.b, link.b_port)
        yield f"link add name {a} group {LINK_GROUP} {gso} type veth peer name {b} group {LINK_GROUP} {gso}"


def move_batch(fabric: Fabric, pid_of: dict[str, int]) -> Iterator[str]:
    """`ip -batch` lines: host ends into their hosts' namespaces, switch ends up."""
    for end in fabric.peers:
        name = interface(end.node, end.port)
        if end.node in pid_of:
            yield f"link set dev {name} netns {pid_of[end.node]}"
        else:
            yield f"link set dev {name} up"


def host_batch(fabric: Fabric, host: str) -> Iterator[str]:
    """`ip -batch` lines inside a host: its address, and everybody's in its neighbour table (no ARP)."""
    name = interface(host, 0)
    yield "link set dev lo up"
    yield f"link set dev {name} address {fabric.mac(host)}"
    yield f"link set dev {name} up"
    yield f"addr add {fabric.ip(host)}/16 dev {name}"
    for other in fabric.hosts:
        if other != host:
            yield f"neigh add {fabric.ip(other)} lladdr {fabric.mac(other)} dev {name} nud permanent"


def port_batch(name: str, rate_bps: int, queue_nbytes: int) -> Iterator[str]:
    """`tc -batch` lines: HTB, a class for data with a queue of `queue_nbytes`, one for ACKs."""
    ack_bps = rate_bps // _ACK_SHARE
    tail = f"ceil {rate_bps}bit burst {_BURST_NBYTES} cburst {_BURST_NBYTES} quantum {_BURST_NBYTES}"
    yield f"qdisc add dev {name} root handle 1: htb default 2"
    yield f"class add dev {name} parent 1: classid 1:10 htb rate {rate_bps}bit {tail}"
    yield f"class add dev {name} parent 1:10 classid 1:1 htb prio 0 rate {ack_bps}bit {tail}"
    yield f"class add dev {name} parent 1:10 classid 1:2 htb prio 1 rate {rate_bps - ack_bps}bit {tail}"
    yield f"qdisc add dev {name} parent 1:1 handle 11: bfifo limit {AUTO_QUEUE_MIN_NBYTES}"
    yield f"qdisc add dev {name} parent 1:2 handle 12: bfifo limit {queue_nbytes}"
    for length, mask in (("0x0000", "0xffc0"), ("0x0040", "0xfff0")):  # IPv4 total length below 80
        yield (
            f"filter add dev {name} parent 1: protocol ip prio 1 u32 "
            f"match u8 6 0xff at 9 match u16 {length} {mask} at 2 flowid 1:1"
        )


def queue_nbytes(fabric: Fabric, transport: Transport, flows_at_port: int) -> int:
    """A port's queue: as the fabric says, else so long that what the receivers allow always fits.

    The kernel doubles SO_RCVBUF for its own bookkeeping, so twice the buffer bounds what is in flight.
    """
    if fabric.queue_nbytes is not None:
        return fabric.queue_nbytes
    return max(AUTO_QUEUE_MIN_NBYTES, 2 * transport.rcvbuf_nbytes * max(1, flows_at_port))
