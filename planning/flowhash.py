"""The published hash that spreads flows over equal-cost ports, the same in Python and in the switch.

FNV-1a (32 bit; Fowler, Noll, Vo; draft-eastlake-fnv) over the 13 bytes of the 5-tuple in network
order -- source, destination, protocol, source port, destination port -- begun at the offset basis
xor `seed`, then MurmurHash3's 32-bit finaliser (Appleby), because the low bits of FNV-1a alone
depend only on the low bits of its input, and a choice among two ports looks at one bit.
`emu/switch/switch.c` holds the same function for the data plane.
"""

import struct
from functools import lru_cache
from ipaddress import IPv4Address

FNV_BASIS = 0x811C9DC5
FNV_PRIME = 0x01000193
_U32 = 0xFFFFFFFF
_FIVE_TUPLE = struct.Struct("!IIBHH")


def flow_hash(src_ip: int, dst_ip: int, proto: int, sport: int, dport: int, seed: int) -> int:
    """A number of 32 bits; a switch sends the flow to its port number `hash % n` of n.

    Addresses are integers as in the header (10.0.0.1 is 0x0A000001).  Packets without
    ports, and fragments, count as ports 0.
    """
    return _fmix32(_fnv1a(_FIVE_TUPLE.pack(src_ip, dst_ip, proto, sport, dport), seed))


@lru_cache(maxsize=4096)  # an address is in many flows, and hashed at each of their switches
def address_number(text: str) -> int:
    """An IPv4 address as the integer in a header."""
    return int(IPv4Address(text))


def switch_salt(dpid: int, seed: int) -> int:
    """The `seed` that switch `dpid` hashes with, so that two switches do not choose alike."""
    return _fmix32(_fnv1a(dpid.to_bytes(8, "big"), seed))


def _fnv1a(octets: bytes, seed: int) -> int:
    state = FNV_BASIS ^ (seed & _U32)
    for octet in octets:
        state = ((state ^ octet) * FNV_PRIME) & _U32
    return state


def _fmix32(state: int) -> int:
    state = ((state ^ (state >> 16)) * 0x85EBCA6B) & _U32
    state = ((state ^ (state >> 13)) * 0xC2B2AE35) & _U32
    return state ^ (state >> 16)
