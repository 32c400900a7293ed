"""Open MPI's wire format on TCP: the handshake, the BTL's fragments, and ob1's headers in them.

Sources (open-mpi/ompi, v4.1.4, and v5.0.8 where it has more): `mca_btl_tcp_endpoint_hs_msg_t` in
opal/mca/btl/tcp/btl_tcp_endpoint.h, `mca_btl_tcp_hdr_t` in btl_tcp_hdr.h and who fills it in btl_tcp.c,
`mca_btl_base_segment_t` in opal/mca/btl/btl.h, the headers in ompi/mca/pml/ob1/pml_ob1_hdr.h, and the tags
in ompi/mca/coll/base/coll_tags.h.

Each direction of a connection is a handshake of 24 bytes, then fragments: 8 bytes, and after them for SEND
an ob1 header with what it carries, for PUT the place to write to (16 bytes) and the data.  A small message
is one MATCH.  A large one is a RNDV (its size, perhaps its first bytes), for which the receiver asks with PUT
requests or an ACK; then PUTs of these sizes, each followed by a FIN, or FRAGs.  Numbers are little-endian,
or big-endian where a fragment's own flag says so (builds for heterogeneous clusters).
"""

import struct
from enum import Enum, IntEnum
from typing import NamedTuple

HANDSHAKE_NBYTES = 24
MAGIC = b"OPAL-TCP-BTL\0"
MAGIC_AT = 8  # in the handshake
BTL_NBYTES = 8  # tag u8, type u8, count u16, size u32
SEGMENT_NBYTES = 16  # address u64, size u64
HEAD_NBYTES = BTL_NBYTES + 72  # no header is longer than an extended RNDV's 32 + 32 or a PUT request's 56
MATCH_NBYTES = (14, 16)  # OMPI_PML_OB1_MATCH_HDR_LEN: padded in builds for heterogeneous clusters
MAX_SEND_NBYTES = 1 << 26  # eager limits and fragments are 64 and 128 KiB unless somebody tunes them
MAX_PUT_NBYTES = (1 << 31) - 1024  # btl_rdma_pipeline_frag_size
MAX_MESSAGE_NBYTES = 1 << 40
MAX_SOURCE = 1 << 20
_NETWORK_ORDER = 0x02  # MCA_PML_OB1_HDR_FLAGS_NBO
_ALL_FLAGS = (
    0x7F  # 0x01 to 0x20, and 0x44, a type that PUT requests have among their flags (pml_ob1_recvreq.c)
)
_TAG_BTL, _TAGS = 0x20, range(0x10, 0xFF)
_EXTENDED, _EXTENSION_NBYTES = 0x4A, 32  # MCA_PML_OB1_HDR_TYPE_CID of v5, mca_pml_ob1_cid_hdr_t
# fmt: off
_COLLECTIVES = dict(zip(range(-10, -27, -1), (
    "allgather", "allgatherv", "allreduce", "alltoall", "alltoallv", "alltoallw", "barrier", "broadcast",
    "exscan", "gather", "gatherv", "reduce", "reduce_scatter", "reduce_scatter_block", "scan", "scatter",
    "scatterv",
), strict=True))  # MCA_COLL_BASE_TAG_ALLGATHER and so on
# fmt: on
WORLD = 0  # the context of MPI_COMM_WORLD
NONBLOCKING, INTERNAL = "nonblocking", "internal"


class Btl(IntEnum):
    """`MCA_BTL_TCP_HDR_TYPE_*`; CLOSE is v5's FIN."""

    SEND = 1
    PUT = 2
    GET = 3
    CLOSE = 4


class What(Enum):
    """What a fragment is: ob1's header types (the values), and what the BTL sends by itself."""

    MATCH = 0x41
    RNDV = 0x42
    RGET = 0x43
    ACK = 0x44
    NACK = 0x45
    FRAG = 0x46
    PUT_REQUEST = 0x48
    FIN = 0x49
    PUT = 0
    GET = 1
    CLOSE = 2
    OTHER = 3  # for other parts of Open MPI than ob1, such as one-sided communication


# Bytes of each ob1 header, and of them those that must be there to know it again among other data.
HEADER_NBYTES = {
    What.MATCH: MATCH_NBYTES[0],
    What.RNDV: 32,
    What.RGET: 48,
    What.ACK: 32,  # 40 since hdr_send_size
    What.NACK: 32,
    What.FRAG: 32,
    What.PUT_REQUEST: 56,
    What.FIN: 24,
}
_OB1 = frozenset(what.value for what in HEADER_NBYTES)
_STARTS = (What.MATCH, What.RNDV, What.RGET)
SURE_NBYTES = BTL_NBYTES + MATCH_NBYTES[0]


class Process(NamedTuple):
    """`opal_process_name_t`: which job, and which of its processes (the rank in MPI_COMM_WORLD)."""

    job: int
    number: int


class Envelope(NamedTuple):
    """What messages are matched by: communicator, source's rank in it, tag, and a counter to each peer."""

    context: int
    source: int
    tag: int
    sequence: int


class Fragment(NamedTuple):
    """A fragment's headers; None for what was not captured of them.

    `nbytes` is the distance to the next fragment, `size` the BTL's.  `total` is the message's size (RNDV,
    RGET), what is asked for (PUT request; ACK, where 0 is all that is left) or what arrived (FIN).  `request`
    is the sender's number for the message (RNDV, PUT request, ACK, FRAG), `cookie` the receiver's for a PUT
    (PUT request, FIN), and `address` where that goes (PUT request, PUT).
    """

    what: What
    nbytes: int
    size: int
    envelope: Envelope | None = None
    total: int | None = None
    request: int | None = None
    cookie: int | None = None
    address: int | None = None


def decode_handshake(head: bytes) -> Process | None:
    """Who speaks, from a stream's first 24 bytes; None if they are not a handshake.

    The name is in network order in builds for heterogeneous clusters only; the smaller number is a rank.
    """
    if len(head) < HANDSHAKE_NBYTES or head[MAGIC_AT : MAGIC_AT + len(MAGIC)] != MAGIC:
        return None
    little, big = Process(*struct.unpack_from("<II", head)), Process(*struct.unpack_from(">II", head))
    return min(little, big, key=lambda name: name.number)


def decode_fragment(head: bytes) -> Fragment | None:
    """The fragment that begins with these bytes, at least 8 of them; None if none does.

    `head` may be as long as HEAD_NBYTES, and shorter where the capture is.
    """
    order = ">" if _is_network_order(head) else "<"
    tag, kind, count, size = struct.unpack_from(order + "BBHI", head)
    if kind == Btl.SEND and count == 0 and tag in _TAGS and 0 < size <= MAX_SEND_NBYTES:
        return _send(head, order, tag, size)
    if kind in (Btl.PUT, Btl.GET) and tag == _TAG_BTL and count == 1 and size <= MAX_PUT_NBYTES:
        address, length = _u64(head, order, BTL_NBYTES), _u64(head, order, BTL_NBYTES + 8)
        if length is not None and length != size:
            return None
        carried = size if kind == Btl.PUT else 0
        what = What.PUT if kind == Btl.PUT else What.GET
        return Fragment(what, BTL_NBYTES + SEGMENT_NBYTES + carried, size, address=address)
    if kind == Btl.CLOSE and tag in (0, _TAG_BTL) and count == 0 and size == 0:
        return Fragment(What.CLOSE, BTL_NBYTES, 0)
    return None


def is_sure(fragment: Fragment, n_visible: int) -> bool:
    """Whether so much of a fragment was read that no other data looks like it: fewer than 1 in 2^50."""
    return fragment.what not in (What.CLOSE, What.OTHER) and n_visible >= SURE_NBYTES


def operation_of(tag: int) -> tuple[str, int | None]:
    """The collective that a message belongs to, and its instance if the tag says which.

    The user's own are `send`, and their tag is kept; nonblocking collectives count theirs down, one for each.
    """
    if tag >= 0:
        return "send", tag
    if tag in _COLLECTIVES:
        return _COLLECTIVES[tag], None
    return (NONBLOCKING, -tag) if tag < min(_COLLECTIVES) else (INTERNAL, None)


def payload_nbytes(fragment: Fragment, match_nbytes: int) -> int:
    """The application's bytes that a fragment carries; `match_nbytes` is one of MATCH_NBYTES."""
    if fragment.what is What.PUT:
        return fragment.size
    if fragment.what in (What.MATCH, What.RNDV, What.FRAG):
        header = match_nbytes if fragment.what is What.MATCH else HEADER_NBYTES[fragment.what]
        return max(0, fragment.size - header)
    return 0


def _is_network_order(head: bytes) -> bool:
    if head[1] == Btl.SEND:
        return len(head) > BTL_NBYTES + 1 and bool(head[BTL_NBYTES + 1] & _NETWORK_ORDER)
    return head[2:4] == b"\0\1"


def _send(head: bytes, order: str, tag: int, size: int) -> Fragment | None:
    """ob1's header; its type is the BTL's tag too (`mca_bml_base_send` in pml_ob1_sendreq.c and others)."""
    nbytes = BTL_NBYTES + size
    is_extended = tag == _EXTENDED
    if not is_extended and tag not in _OB1:
        return Fragment(What.OTHER, nbytes, size)
    seen = head[BTL_NBYTES : BTL_NBYTES + 2]
    if (seen and seen[0] != tag) or seen[1:] > bytes([_ALL_FLAGS]):
        return None
    at = BTL_NBYTES
    if is_extended:
        at, size = at + _EXTENSION_NBYTES, size - _EXTENSION_NBYTES
        tag = head[at] if len(head) > at else What.MATCH.value
        if tag not in [what.value for what in _STARTS]:
            return None
    what = What(tag)
    if size < HEADER_NBYTES[what]:
        return None
    return _ob1(what, head, order, at, Fragment(what, nbytes, size))


def _ob1(what: What, head: bytes, order: str, at: int, bare: Fragment) -> Fragment | None:
    """The fields of the header at `at`, as far as they were captured."""
    if what in _STARTS:
        envelope = _envelope(head, order, at)
        total = None if what is What.MATCH else _u64(head, order, at + 16, least=5)
        request = None if what is What.MATCH else _u64(head, order, at + 24)
        if (envelope and not 0 <= envelope.source < MAX_SOURCE) or (total or 0) > MAX_MESSAGE_NBYTES:
            return None
        return bare._replace(envelope=envelope, total=total, request=request)
    if what is What.FIN:
        return bare._replace(total=_u64(head, order, at + 8), cookie=_u64(head, order, at + 16))
    if what is What.FRAG:
        return bare._replace(request=_u64(head, order, at + 16))
    request = _u64(head, order, at + 8)
    if what is not What.PUT_REQUEST:
        asked = _u64(head, order, at + 32) if bare.size >= 40 else 0
        return None if (asked or 0) > MAX_MESSAGE_NBYTES else bare._replace(total=asked, request=request)
    asked = _u64(head, order, at + 48, least=5)
    if (asked or 0) > MAX_MESSAGE_NBYTES:
        return None
    cookie, address = _u64(head, order, at + 16), _u64(head, order, at + 40)
    return bare._replace(total=asked, request=request, cookie=cookie, address=address)


def _envelope(head: bytes, order: str, at: int) -> Envelope | None:
    if len(head) < at + MATCH_NBYTES[0]:
        return None
    return Envelope(*struct.unpack_from(order + "HiiH", head, at + 2))


def _u64(head: bytes, order: str, at: int, least: int = 8) -> int | None:
    """None unless captured; of a number that must be small, its `least` lowest bytes do."""
    seen = head[at : at + 8]
    if order == ">":
        return int.from_bytes(seen, "big") if len(seen) == 8 else None
    return int.from_bytes(seen, "little") if len(seen) >= least else None
