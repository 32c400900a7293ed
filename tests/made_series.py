"""Trains of packets whose link's rate is known, for tests of what their times show."""

import numpy as np

from gradwire.traces.analysis.bursts import Series, Way

HOST, PEER = "10.0.0.1", "10.0.0.2"
FRAME, HEADERS = 1514, 66
MS = 1_000_000


def through_link(
    rate_bps: float,
    *,
    host: str = HOST,
    direction: Way = "out",
    bursts: int = 40,
    frames: int = 120,
    rest_ns: int = 30 * MS,
    jitter_ns: float = 20_000,
    seed: int = 0,
) -> Series:
    """Bursts of whole frames, one after the other as a link sends them, seen when each has been sent."""
    random = np.random.default_rng(seed)
    frame_ns = FRAME * 8e9 / rate_bps
    starts = np.arange(bursts) * (frames * frame_ns + rest_ns)
    time_ns = (starts[:, None] + np.arange(1, frames + 1) * frame_ns).ravel()
    time_ns += random.uniform(0, jitter_ns, len(time_ns))
    return Series(host, direction, np.sort(time_ns).astype(np.int64), np.full(len(time_ns), FRAME, np.int64))


def merged(one: Series, frames: int, *, at_last: bool = True) -> Series:
    """As with segmentation offload: each `frames` neighbours are one packet, seen with its last or first."""
    count = len(one.time_ns) // frames
    payload = FRAME - HEADERS
    place = np.arange(count) * frames + (frames - 1 if at_last else 0)
    return one._replace(
        time_ns=one.time_ns[place], nbytes=np.full(count, HEADERS + frames * payload, np.int64)
    )


def made_by_a_processor(seed: int = 0) -> Series:
    """Bursts of 64 KB packets, one every 10 to 60 µs: as a busy processor takes, now more, now less."""
    random = np.random.default_rng(seed)
    pace = np.exp(random.normal(0, 0.6, 60))[:, None]
    spacing = 20_000 * pace * np.exp(random.normal(0, 0.4, (60, 100)))
    spacing[:, 0] += random.uniform(5, 40, 60) * MS
    time_ns = np.cumsum(spacing.ravel()).astype(np.int64)
    return Series(HOST, "out", time_ns, np.full(len(time_ns), 66 + 45 * 1448, np.int64))


def paced(rate_bps: float, *, clump: int) -> Series:
    """A rate that is held, by clumps of packets nearly at once: a window or a pacing application."""
    clump_ns = clump * FRAME * 8e9 / rate_bps
    random = np.random.default_rng(2)
    time_ns = np.concatenate(
        [number * clump_ns + np.cumsum(random.uniform(6_000, 60_000, clump)) for number in range(1500)]
    )
    return Series(HOST, "out", np.sort(time_ns).astype(np.int64), np.full(len(time_ns), FRAME, np.int64))
