"""OpenFlow 1.3's constants, as `ofp`, and its errors."""

from gradwire.emu.switch.wire import constants as ofp

__all__ = ["ProtocolError", "bad_length", "ofp"]


class ProtocolError(Exception):
    """A request that gets an OFPT_ERROR of this type and code for an answer."""

    def __init__(self, kind: int, code: int) -> None:
        super().__init__(f"OpenFlow error type {kind} code {code}")
        self.kind, self.code = kind, code


def bad_length() -> ProtocolError:
    return ProtocolError(ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_BAD_LEN)
