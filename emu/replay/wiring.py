"""A rank's connections and sockets, opened before the common start, on the ports that the plan names."""

import socket
from collections.abc import Iterable

from gradwire.emu.replay.connection import PeerLost, RankConnection
from gradwire.planning.fabrics.fabric import AGGREGATOR_IP, BROADCAST_IP
from gradwire.planning.plan import Flow, Plan
from gradwire.planning.transport import unsent_nbytes
from gradwire.planning.trees.tree import Tree
from gradwire.traces.framing.gloo import HELLO_NBYTES

CONNECT_S = 20.0
_BACKLOG = 64
_TCP_NOTSENT_LOWAT = 25  # linux/tcp.h; the socket module has no name for it
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33  # asm-generic/socket.h: beyond the machine's limits, for root
_PACKET_OVERHEAD_NBYTES = 1024  # the kernel's own, of a packet in a socket's buffer


def listen(plan: Plan, rank: int) -> list[socket.socket]:
    """The listening sockets of `rank`: the rank with the lower number is called."""
    sockets = []
    for address in sorted({(flow.dst_ip, flow.dport) for flow in _calls(plan) if flow.dst == rank}):
        sock = _socket(plan)
        sock.bind(address)
        sock.listen(_BACKLOG)
        sockets.append(sock)
    return sockets


def connect(plan: Plan, rank: int, listening: Iterable[socket.socket]) -> list[RankConnection]:
    """All connections of `rank`, opened from the plan's own ports."""
    connections: list[RankConnection] = []
    for flow in _calls(plan):
        if flow.src == rank:
            sock = _socket(plan)
            sock.settimeout(CONNECT_S)
            sock.bind((flow.src_ip, flow.sport))
            sock.connect((flow.dst_ip, flow.dport))
            sock.sendall(
                rank.to_bytes(HELLO_NBYTES, "little")
            )  # gloo's initiator speaks first, its acceptor not
            connections.append(RankConnection(sock, flow.dst))
    callers = {(flow.src_ip, flow.sport): flow.src for flow in _calls(plan) if flow.dst == rank}
    for server in listening:
        server.settimeout(CONNECT_S)
        while len(connections) < len({flow.dst for flow in plan.flows if flow.src == rank}):
            connections.append(_accept(server, callers, rank))
        server.close()
    for connection in connections:
        connection.sock.settimeout(0)
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sock.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, unsent_nbytes(plan.transport))
    return connections


def tree_socket(tree: Tree) -> socket.socket:
    """A UDP socket that hears what the tree's switches send down, and nothing that any host could send.

    That is addressed to all hosts, with the source address of nobody.  The receive buffer holds the results
    of two windows, for their senders do not wait for us; the send buffer one, which is what a host's port may
    have in its queue.  The kernel doubles both for its own bookkeeping, and counts a packet by the memory
    that it takes, up to twice its length.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    window_nbytes = tree.slots * (tree.frame_nbytes + _PACKET_OVERHEAD_NBYTES)
    sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 2 * window_nbytes)
    sock.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, window_nbytes)
    sock.bind((BROADCAST_IP, tree.udp_port))
    sock.connect((AGGREGATOR_IP, tree.udp_port))
    sock.settimeout(0)
    return sock


def _accept(server: socket.socket, callers: dict[tuple[str, int], int], rank: int) -> RankConnection:
    sock, address = server.accept()
    peer = callers.get(address)
    sock.settimeout(CONNECT_S)
    said = sock.recv(HELLO_NBYTES, socket.MSG_WAITALL)
    if peer is None or said != peer.to_bytes(HELLO_NBYTES, "little"):
        raise PeerLost(f"{address[0]}:{address[1]} connected to rank {rank}, but is not one of its peers")
    return RankConnection(sock, peer)


def _calls(plan: Plan) -> list[Flow]:
    """The direction of each connection in which it is opened."""
    return [flow for flow in plan.flows if flow.src > flow.dst]


def _socket(plan: Plan) -> socket.socket:
    """Buffers must be set before listen and connect: the window scale is agreed in the SYN."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, plan.transport.rcvbuf_nbytes)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, plan.transport.sndbuf_nbytes)
    name = plan.transport.congestion_control.encode()
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name)
    except OSError as error:
        known = plan.transport.congestion_control
        raise OSError(error.errno, f"this kernel does not have congestion control {known!r}") from error
    return sock
