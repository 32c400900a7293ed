"""The interface of a network model: what carries items between ranks."""

from enum import Enum
from typing import NamedTuple, Protocol


class EventKind(Enum):
    """What happens to an item in a network: see `NetworkEvent`."""

    TAKEN = "taken"
    ARRIVED = "arrived"
    NOTICE = "notice"
    ASKED = "asked"


class NetworkEvent(NamedTuple):
    """TCP has TAKEN an item, so that its sender goes on; it has ARRIVED.  Or a notice about it has: its
    receiver's NOTICE that it may come, or its sender's that it is ready to leave (ASKED).
    """

    what: EventKind
    item: int


class Network(Protocol):
    """Connections by the number of their flow, trees of aggregations among them.

    What is handed over at an instant happens at that instant or later, in `advance`.
    """

    def add(self, flow: int, item: int, nbytes: float, now_s: float) -> list[NetworkEvent]:
        """A connection is handed an item; returns what happens at once."""

    def receiver_ready(self, flow: int, item: int) -> list[NetworkEvent]:
        """A connection is handed the notice that who sends on it is ready to receive an item; likewise."""

    def sender_ready(self, flow: int, item: int) -> list[NetworkEvent]:
        """A connection is handed the notice that who sends on it is ready to send an item; likewise."""

    def advance(self, now_s: float, until_s: float) -> tuple[float, list[NetworkEvent]]:
        """Go on from `now_s` to what happens next, to `until_s` at the latest.

        Returns when that is, infinity if nothing will happen and `until_s` is, and what happens then: nothing
        at `until_s`, or where only inside the network something did.
        """
