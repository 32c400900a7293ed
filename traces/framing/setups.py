"""Recognises connections that only set a job up, so that they are not taken for training.

PyTorch's TCPStore, where the processes of a job meet: its port, and the side that listens there, are all that
a capture is asked.  Open MPI's control connections, from its daemons (orted) to mpirun: each side begins with
a header of 64 bytes that says who it is and whom it wants, two processes of one launch; nothing more is read
(`mca_oob_tcp_hdr_t` in orte/mca/oob/tcp/oob_tcp_hdr.h of open-mpi/ompi v4.1.4).
"""

import struct
from collections.abc import Sequence

from gradwire.traces.framing.beginnings import Beginnings, Mask
from gradwire.traces.framing.frames import Fit, Found
from gradwire.traces.packets.streams import Connection

_HEADER = struct.Struct("!IIIIIIIB")  # origin's job and number, target's, tag, sequence, size, type
_TYPE_AT = _HEADER.size - 1
_IDENT = 1
MAX_IDENT_NBYTES = 1 << 10  # a flag, a version and a security token
_ROUTED_NBYTES = 32
VISIBLE_NBYTES = _HEADER.size + _ROUTED_NBYTES  # padded to 64
STORE_PORT = 29500  # torch.distributed's default MASTER_PORT: where its processes meet (TCPStore)


class Store:
    """Connections to the port of torch.distributed's rendezvous."""

    name = "torch-store"
    is_training = False

    def fit(self, connection: Connection) -> Fit | None:
        if connection.listener_port != STORE_PORT:
            return None
        return Fit(0.9, f"port {STORE_PORT}, where torch.distributed's processes meet")

    def rules_out(self, seen: Beginnings) -> Mask:
        """Where neither side has the port."""
        return seen.all_of((seen.ports != STORE_PORT).all(axis=1))

    def read(self, connections: Sequence[Connection]) -> Found:  # noqa: ARG002
        return Found(())


class MpiControl:
    """mpirun's daemons set a job up and collect its output."""

    name = "mpi-control"
    is_training = False

    def fit(self, connection: Connection) -> Fit | None:
        """Each side's first bytes are the greeting of a process to another of the same launch."""
        if not all(is_greeting(stream.visible.read(0, VISIBLE_NBYTES)) for stream in connection.streams):
            return None
        return Fit(0.9, "the greeting of Open MPI's daemons (oob/tcp), by which mpirun sets a job up")

    def rules_out(self, seen: Beginnings) -> Mask:
        """Where a side's first bytes are too few for a greeting, or of another type."""
        is_other = (seen.n_visible > _TYPE_AT) & (seen.head[:, _TYPE_AT] != _IDENT)
        return seen.any_of(is_other | (seen.nbytes < VISIBLE_NBYTES))

    def read(self, connections: Sequence[Connection]) -> Found:  # noqa: ARG002
        return Found(())


def is_greeting(head: bytes) -> bool:
    """Whether a stream begins with MCA_OOB_TCP_IDENT; names may be in either byte order, the rest may not."""
    if len(head) < VISIBLE_NBYTES:
        return False
    job, _, wanted_job, _, tag, sequence, nbytes, kind = _HEADER.unpack_from(head)
    routed = head[_HEADER.size :].rstrip(b"\0")
    return (
        kind == _IDENT
        and job == wanted_job != 0
        and tag == sequence == 0
        and 0 < nbytes <= MAX_IDENT_NBYTES
        and (not routed or routed.isalpha())
    )
