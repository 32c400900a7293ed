"""A training job without PyTorch: ranks that compute (sleep) and send as gloo's ring allreduce does.

`capture` and `trust` run it once on each host.  It speaks gloo's wire format and writes a rank's log; nothing
is added up.
"""

import json
import os
import socket
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from gradwire.traces.framing.gloo import (
    HELLO_NBYTES,
    PREAMBLE_NBYTES,
    PREFIXES,
    Opcode,
    decode_preamble,
    encode_preamble,
    pack_slot,
)
from gradwire.traces.schedules.algorithms.gloo import gloo_ring

ITERATIONS = 9
NBYTES = 98_304
COMPUTE_S = 0.02
PORT = 5000


def main() -> None:
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    peers = connected(rank, world, os.environ["GRADWIRE_HOSTS"].split(","))
    down, up = peers[(rank - 1) % world], peers[(rank + 1) % world]
    events: list[dict[str, int | str]] = []
    for number in range(ITERATIONS):
        events.append({"k": "iter0", "it": number, "t": time.time_ns()})
        time.sleep(COMPUTE_S)
        events.append({"k": "bucket_ready", "it": number, "t": time.time_ns(), "n": NBYTES, "b": 0})
        slot = pack_slot(PREFIXES["allreduce"], number + 1)
        sends = gloo_ring(world, NBYTES)
        mine = [send.nbytes for send in sends if send.src == rank]
        theirs = [send.nbytes for send in sends if send.dst == rank]
        for out, come in zip(mine, theirs, strict=True):
            down.sendall(encode_preamble(Opcode.SEND_READY, slot, out))
            up.sendall(encode_preamble(Opcode.RECV_READY, slot, come))
            expect(down, Opcode.RECV_READY, out)
            down.sendall(encode_preamble(Opcode.DATA, slot, out) + bytes(out))
            expect(up, Opcode.SEND_READY, come)
            expect(up, Opcode.DATA, come)
            exactly(up, come)
    Path(os.environ["GRADWIRE_LOG"]).write_text(json.dumps({"rank": rank, "events": events}))


def connected(rank: int, world: int, names: list[str]) -> dict[int, socket.socket]:
    """Connections to both neighbours; the higher rank opens, and says its number first."""
    server = socket.create_server((names[rank], PORT))
    peers: dict[int, socket.socket] = {}
    around = {(rank - 1) % world, (rank + 1) % world}
    for other in sorted(peer for peer in around if peer < rank):
        peers[other] = opened(names[other])
        peers[other].sendall(rank.to_bytes(HELLO_NBYTES, "little"))
    while around - peers.keys():
        came, _ = server.accept()
        peers[int.from_bytes(exactly(came, HELLO_NBYTES), "little")] = came
    for peer in peers.values():
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return peers


def opened(name: str) -> socket.socket:
    while True:
        try:
            return socket.create_connection((name, PORT))
        except ConnectionRefusedError:
            time.sleep(0.01)


def expect(peer: socket.socket, opcode: Opcode, nbytes: int) -> None:
    found = decode_preamble(exactly(peer, PREAMBLE_NBYTES))
    assert found is not None
    assert (found.opcode, found.length) == (opcode, nbytes)


def exactly(peer: socket.socket, nbytes: int) -> bytes:
    octets = b""
    while len(octets) < nbytes:
        more = peer.recv(nbytes - len(octets))
        assert more, "the other rank has ended"
        octets += more
    return octets


if __name__ == "__main__":
    main()
