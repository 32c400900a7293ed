"""Counters of an injection."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class InjectionCounts:
    """`cpu_idle` is a share, measured during the sending; `queue_dropped` are packets by interface.

    `softnet_dropped` is what the kernel's receive queues dropped, `capture_dropped` what captures did, by
    host.
    """

    cpu_idle: float
    softnet_dropped: int
    queue_dropped: dict[str, int]
    capture_dropped: dict[str, int] = field(default_factory=dict)
