"""Checksums that a sender left to its network card.  Pure.

Between virtual interfaces no card ever fills them in: a packet travels with the sum of its pseudo header
in the field (Linux: CHECKSUM_PARTIAL), and the kernel knows.  Who gets the bytes alone, a controller
that sends them on, does not.
"""

import struct

_ETH_TYPES_OF_TAGS = (0x8100, 0x88A8)
_IPV4, _IPV6 = 0x0800, 0x86DD
_CHECKSUM_AT = {6: 16, 17: 6}  # in the headers of TCP and of UDP
_IPV4_HEADER = struct.Struct(
    "!BxHxxHxBxx8s"
)  # version and length, total length, fragment, protocol, addresses
_IPV6_HEADER = struct.Struct("!4xHBx32s")  # payload's length, next header, addresses
_FRAGMENT = 0x3FFF  # more fragments, and the offset


def completed(frame: bytes) -> bytes:
    """The frame with its TCP or UDP checksum, if it has but the sum of the pseudo header (RFC 1071)."""
    found = _segment(frame)
    if found is None:
        return frame
    proto, addresses, start, end = found
    at = start + _CHECKSUM_AT.get(proto, len(frame))
    if at + 2 > end or end > len(frame):
        return frame
    (field,) = struct.unpack_from("!H", frame, at)
    if field != _folded(_sum(addresses) + proto + end - start):
        return frame
    checksum = ~_folded(_sum(frame[start:end])) & 0xFFFF  # the field's sum of the pseudo header is in it
    if proto == 17:
        checksum = checksum or 0xFFFF  # RFC 768: 0 says that there is none
    return frame[:at] + checksum.to_bytes(2, "big") + frame[at + 2 :]


def _segment(frame: bytes) -> tuple[int, bytes, int, int] | None:
    """(protocol, both addresses, start, end) of what an IP packet carries; None of anything else."""
    at = 12
    while int.from_bytes(frame[at : at + 2], "big") in _ETH_TYPES_OF_TAGS:
        at += 4
    eth_type = int.from_bytes(frame[at : at + 2], "big")
    at += 2
    if eth_type == _IPV4 and len(frame) >= at + _IPV4_HEADER.size:
        version, nbytes, fragment, proto, addresses = _IPV4_HEADER.unpack_from(frame, at)
        is_whole = version >> 4 == 4 and not fragment & _FRAGMENT
        return (proto, addresses, at + (version & 0xF) * 4, at + nbytes) if is_whole else None
    if eth_type == _IPV6 and len(frame) >= at + _IPV6_HEADER.size:
        nbytes, proto, addresses = _IPV6_HEADER.unpack_from(frame, at)
        start = at + _IPV6_HEADER.size
        return proto, addresses, start, start + nbytes
    return None


def _sum(octets: bytes) -> int:
    padded = octets + bytes(len(octets) % 2)
    return sum(struct.unpack(f"!{len(padded) // 2}H", padded))


def _folded(total: int) -> int:
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total
