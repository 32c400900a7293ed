"""What tcpdump says of its own capture, at its end or when it is asked meanwhile."""

import re
from dataclasses import dataclass

_AT_END = re.compile(
    r"^(\d{1,18}) packets? (captured|received by filter|dropped by kernel|dropped by interface)$",
    re.MULTILINE,
)
_MEANWHILE = re.compile(
    r"^tcpdump: (\d{1,18}) packets? captured, (\d{1,18}) packets? received by filter, "
    r"(\d{1,18}) packets? dropped by kernel",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Counts:
    """tcpdump's own figures of one host, in packets.

    On Linux the kernel counts a packet as received also if it then drops it (packet(7), PACKET_STATISTICS).
    """

    captured: int
    received: int
    dropped: int

    @property
    def lost(self) -> int:
        """What is not in the file: dropped, or still in the kernel's ring when tcpdump was ended."""
        return max(self.dropped, self.received - self.captured)


def counts(said: str) -> Counts | None:
    """From what tcpdump wrote at its end; None if it came to none."""
    found = {what: int(number) for number, what in _AT_END.findall(said)}
    if not {"captured", "received by filter", "dropped by kernel"} <= set(found):
        return None
    dropped = found["dropped by kernel"] + found.get("dropped by interface", 0)
    return Counts(found["captured"], found["received by filter"], dropped)


def answers(said: str) -> list[Counts]:
    """What it answered to each SIGUSR1 so far."""
    return [Counts(*map(int, figures)) for figures in _MEANWHILE.findall(said)]
