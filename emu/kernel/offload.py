"""A device feature switched off in this network namespace, without a process of `ethtool` for it.

The structs and numbers are those of linux/ethtool.h; a feature's bit is found by its name, as they move.
"""

import array
import errno
import fcntl
import socket
import struct

UDP_SEGMENTATION = "tx-udp-segmentation"
_SIOCETHTOOL = 0x8946
_GSTRINGS, _GSSET_INFO, _SFEATURES = 0x1B, 0x37, 0x3B
_SS_FEATURES = 4
_NAME_NBYTES = 32  # ETH_GSTRING_LEN
_INTERFACE = struct.Struct("16sP")  # ifreq: name, pointer to the command


def switch_off(interface: str, feature: str) -> None:
    """The kernel then does in software what the device did.  Raise OSError, or ValueError for an unknown
    feature.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        names = _names(control, interface)
        if feature not in names:
            raise ValueError(f"this kernel has no device feature {feature}")
        word, bit = divmod(names.index(feature), 32)
        blocks = [0] * (2 * -(-len(names) // 32))  # for 32 features each: which are meant, how to be
        blocks[2 * word] = 1 << bit
        command = struct.pack(f"=II{len(blocks)}I", _SFEATURES, len(blocks) // 2, *blocks)
        refused, _ = _asked(control, interface, command)
    if refused:  # ETHTOOL_F_UNSUPPORTED, ETHTOOL_F_WISH
        raise OSError(errno.EOPNOTSUPP, f"{interface}: the device cannot switch off {feature}")


def _names(control: socket.socket, interface: str) -> list[str]:
    """Of all features, in the order of their bits."""
    _, answer = _asked(control, interface, struct.pack("=IIQI", _GSSET_INFO, 0, 1 << _SS_FEATURES, 0))
    (count,) = struct.unpack_from("=I", answer, 16)
    head = struct.pack("=III", _GSTRINGS, _SS_FEATURES, count)
    _, answer = _asked(control, interface, head + bytes(count * _NAME_NBYTES))
    octets = (answer[at : at + _NAME_NBYTES] for at in range(len(head), len(answer), _NAME_NBYTES))
    return [each.rstrip(b"\0").decode() for each in octets]


def _asked(control: socket.socket, interface: str, command: bytes) -> tuple[int, bytes]:
    """The call's result, and what the kernel made of the command in its place.  Raise OSError."""
    memory = array.array("B", command)
    request = bytearray(_INTERFACE.pack(interface.encode(), memory.buffer_info()[0]))
    return fcntl.ioctl(control, _SIOCETHTOOL, request), memory.tobytes()
