"""The aggregation header as a Scapy layer, for people who look at captures or make packets.

`from gradwire.tools.dissect.scapy_layer import GradwireAggregation`, in Scapy's own shell too, makes Scapy
show it on UDP ports 0xBEE0 to 0xBEFF, whichever end has them.  The fields are those of
traces.framing.aggregation.  An edge module.
"""

from scapy.fields import (
    ByteEnumField,
    ByteField,
    FieldLenField,
    FieldListField,
    IntField,
    ShortField,
    SignedIntField,
    XLongField,
)
from scapy.layers.inet import UDP
from scapy.packet import Packet, bind_bottom_up, bind_top_down

from gradwire.traces.framing.aggregation import (
    DISSECTED_PORTS,
    ELEMENT_NBYTES,
    FIRST_PORT,
    HEADER_NBYTES,
    NO_PEAK,
    VERSION,
    PacketKind,
)

MAX_COUNT = (1 << 16) - 1  # what the field has room for; Scapy's own limit is 100


class GradwireAggregation(Packet):
    """`count` is filled in from `elements`; of a STATUS it is a number of levels, to be set by hand.

    Elements that a capture has cut off are absent from `elements`.
    """

    name = "gradwire aggregation"
    fields_desc = [  # noqa: RUF012 - as Scapy's own layers have it
        ByteField("version", VERSION),
        ByteEnumField("kind", PacketKind.CONTRIBUTION, {kind.value: kind.name for kind in PacketKind}),
        ShortField("job", 0),
        ShortField("epoch", 0),
        FieldLenField("count", None, fmt="!H", count_of="elements"),
        IntField("chunk", 0),
        SignedIntField("peak", NO_PEAK),
        XLongField("seen", 0),
        FieldListField(
            "elements",
            [],
            SignedIntField("", 0),
            count_from=lambda layer: layer.n_elements(),
            max_count=MAX_COUNT,
        ),
    ]

    def n_elements(self) -> int:
        """How many are announced and there."""
        announced = int(self.count) if self.kind in (PacketKind.CONTRIBUTION, PacketKind.RESULT) else 0
        return min(announced, max(0, len(self.original) - HEADER_NBYTES) // ELEMENT_NBYTES)


for _port in DISSECTED_PORTS:
    bind_bottom_up(UDP, GradwireAggregation, sport=_port)
    bind_bottom_up(UDP, GradwireAggregation, dport=_port)
bind_top_down(UDP, GradwireAggregation, sport=FIRST_PORT, dport=FIRST_PORT)
