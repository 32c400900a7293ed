"""The commands that make a fabric's ports: text for `ip -batch` and `tc -batch`.  Runs nothing.

Every port, a host's too, sends through HTB at the link's rate.  Pure ACKs have a class of their own: behind
their own side's data they would make a full-duplex exchange 1.5 times slower (they wait up to a queue's
length, and congestion control takes the delay for a sign).  Only ACKs: other small packets belong to a
stream and would overtake their own data.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gradwire.planning.fabrics.fabric import Egress, Fabric, Link, interface
from gradwire.planning.machines.part import Part
from gradwire.planning.transport import Transport, port_burst_nbytes
from gradwire.planning.trees.tree import Tree, child_ports

LINK_GROUP = 71  # `ip link delete group 71` would remove every link of ours
AUTO_QUEUE_MIN_NBYTES = 256 * 1024
MOST_QUEUE_NBYTES = (1 << 32) - 1  # a number of 32 bits in the kernel (struct tc_fifo_qopt)
_LEAST_FRAME_NBYTES = 60
_NETEM_PACKETS = (
    10_000  # room in netem beside what a delay holds: the queue after it is the one that may drop
)
_ACK_SHARE = 10  # the ACK class is guaranteed a tenth and may borrow the rest
_TIMES = 2  # each chunk of a window, and once more what was sent again because it waited


def segment_limits(fabric: Fabric, transport: Transport) -> str:
    """Of an interface, for `ip link`: how long a segment may be that the kernel hands to it as one.

    The kernel makes segments of two packets at least unless their number says otherwise.
    """
    most_packets = 1 if transport.gso_max_nbytes < 2 * fabric.mtu_nbytes else 65535
    return f"gso_max_size {transport.gso_max_nbytes} gso_max_segs {most_packets}"


def links_batch(
    fabric: Fabric, transport: Transport, pid_of: Mapping[str, int], part: Part | None = None
) -> Iterator[str]:
    """`ip -batch` lines, in the switches' namespace: all veth pairs, and switch ends come up.  Of a fabric on
    several machines, those of this `part`; its tunnels are there already.

    Host ends are made in their hosts' namespaces: to move one there costs more than the whole cable.
    """
    common = f"group {LINK_GROUP} mtu {fabric.mtu_nbytes} {segment_limits(fabric, transport)}"
    for link in fabric.links:
        if part and not part.nodes.issuperset((link.a, link.b)):
            continue
        ends = ((link.a, link.a_port), (link.b, link.b_port))
        first, second = sorted(ends, key=lambda end: end[0] not in pid_of)  # only the first can be elsewhere
        pid = pid_of.get(first[0])
        where = "" if pid is None else f"netns {pid} address {fabric.mac(first[0])} "
        near, far = interface(*first), interface(*second)
        yield f"link add name {near} {where}{common} type veth peer name {far} {common}"
    for end in switch_ends(fabric, part):
        yield f"link set dev {interface(*end)} up"


def switch_ends(fabric: Fabric, part: Part | None = None) -> list[Egress]:
    """The ports of the switches that are here."""
    hosts = fabric.host_set
    return [end for end in fabric.peers if end.node not in hosts and (part is None or end.node in part.nodes)]


@dataclass(frozen=True, slots=True)
class PortShape:
    """How a port sends: `queues_nbytes` are that of pure ACKs, and that of all else."""

    rate_bps: int
    burst_nbytes: int
    queues_nbytes: tuple[int, int]
    delay_ns: int

    @property
    def ack_bps(self) -> int:
        """What is guaranteed to pure ACKs; they may borrow the rest."""
        return self.rate_bps // _ACK_SHARE


def port_shape(
    fabric: Fabric, transport: Transport, end: Egress, flows_at_port: int, windows_nbytes: int = 0
) -> PortShape:
    """For a queue that is `auto`: `flows_at_port` are the flows that can meet at the port `end`,
    `windows_nbytes` is what can wait there of sums that switches make.
    """
    link = fabric.cables[end]
    queues = AUTO_QUEUE_MIN_NBYTES, queue_nbytes(link, transport, flows_at_port, windows_nbytes)
    burst = port_burst_nbytes(link.rate_bps / 8, fabric.frame_nbytes)
    return PortShape(link.rate_bps, burst, queues, egress_delay_ns(fabric, end))


def port_batch(name: str, shape: PortShape) -> Iterator[str]:
    """`tc -batch` lines for an interface: HTB, a class for data with a queue of its own, one for ACKs."""
    rate_bps, ack_bps, burst_nbytes = shape.rate_bps, shape.ack_bps, shape.burst_nbytes
    tail = f"ceil {rate_bps}bit burst {burst_nbytes} cburst {burst_nbytes} quantum {burst_nbytes}"
    yield f"qdisc add dev {name} root handle 1: htb default 2"
    yield f"class add dev {name} parent 1: classid 1:10 htb rate {rate_bps}bit {tail}"
    yield f"class add dev {name} parent 1:10 classid 1:1 htb prio 0 rate {ack_bps}bit {tail}"
    yield f"class add dev {name} parent 1:10 classid 1:2 htb prio 1 rate {rate_bps - ack_bps}bit {tail}"
    for number, limit in enumerate(shape.queues_nbytes, start=1):
        parent = f"1:{number}"
        if shape.delay_ns:
            packets = _NETEM_PACKETS + rate_bps * shape.delay_ns // (8 * _LEAST_FRAME_NBYTES * 10**9)
            netem = f"netem delay {shape.delay_ns}ns limit {packets}"
            yield f"qdisc add dev {name} parent {parent} handle 2{number}: {netem}"
            parent = f"2{number}:1"
        yield f"qdisc add dev {name} parent {parent} handle 1{number}: bfifo limit {limit}"
    for length, mask in (("0x0000", "0xffc0"), ("0x0040", "0xfff0")):  # IPv4 total length below 80
        yield (
            f"filter add dev {name} parent 1: protocol ip prio 1 u32 "
            f"match u8 6 0xff at 9 match u16 {length} {mask} at 2 flowid 1:1"
        )


def most_flows(fabric: Fabric, end: Egress) -> int:
    """One from each host to each: at a host's cable those of all others, at another those of one half of the
    hosts to the other half.
    """
    n_hosts, at_host = len(fabric.hosts), {end.node, fabric.peers[end].node} & fabric.host_set
    return n_hosts - 1 if at_host else (n_hosts // 2) * (n_hosts - n_hosts // 2)


def egress_delay_ns(fabric: Fabric, end: Egress) -> int:
    """What the port `end` delays.

    A sending host's own port delays nothing: netem there would hold back what TCP has counted as sent
    (small queues, pacing).  The switch's port towards the host delays for both ways.
    """
    hosts, link = fabric.host_set, fabric.cables[end]
    if end.node in hosts:
        return 0
    return 2 * link.delay_ns if fabric.peers[end].node in hosts else link.delay_ns


def queue_nbytes(link: Link, transport: Transport, flows_at_port: int, windows_nbytes: int = 0) -> int:
    """A port's queue: as the cable says, else so long that what the receivers allow always fits.

    The kernel doubles SO_RCVBUF for its own bookkeeping, so twice the buffer bounds what is in flight.  It
    takes MOST_QUEUE_NBYTES at most; more would have to be under way to one port at once.
    """
    if link.queue_nbytes is not None:
        return link.queue_nbytes
    in_flight_nbytes = 2 * transport.rcvbuf_nbytes * max(1, flows_at_port) + windows_nbytes
    return min(MOST_QUEUE_NBYTES, max(AUTO_QUEUE_MIN_NBYTES, in_flight_nbytes))


def windows_at(fabric: Fabric, trees: Sequence[Tree], may_move: bool) -> Counter[str]:
    """Bytes of frames by interface, hosts' own among them.

    If trees `may_move` during a run, each of them can come to any cable between switches.
    """
    window_nbytes: Counter[str] = Counter()
    for tree in trees:
        ports = set(child_ports(tree))
        if may_move:
            ports |= {Egress(link.a, link.a_port) for link in fabric.inner_links}
        ends = ports | {fabric.peers[port] for port in ports}
        for end in ends:
            window_nbytes[interface(*end)] += _TIMES * tree.slots * tree.frame_nbytes
    return window_nbytes
