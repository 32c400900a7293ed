"""Analyses that a test makes itself: a small one with known figures, and large ones."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gradwire.traces.analysis.analysis import Analysis
from gradwire.traces.analysis.bottleneck import JobBound
from gradwire.traces.analysis.bursts import Burstiness, WindowRates
from gradwire.traces.analysis.exposure import Exposure, Span, SpanKind, Straggler
from gradwire.traces.analysis.flows import FlowFigures
from gradwire.traces.analysis.incast import Incast
from gradwire.traces.analysis.linerate import LineRate
from gradwire.traces.analysis.percentiles import Percentiles
from gradwire.traces.analysis.shares import shares
from gradwire.traces.analysis.traffic import Traffic
from gradwire.traces.analysis.transfers import AlgorithmUse, Iteration, Transfer
from gradwire.traces.framing.messages import Messages
from gradwire.traces.recognition.shape import JobShape
from gradwire.traces.trace import CaptureFile, Losses

MS = 1_000_000
ADDRESSES = ("10.0.0.1", "10.0.0.2")


def made_flow(number: int = 0, **values: Any) -> FlowFigures:
    """A flow of 10 MB in 100 ms: 800 Mb/s, RTT 1 ms, window 1 MB."""
    flow = FlowFigures(
        src=ADDRESSES[0],
        sport=1024 + number % 60_000,
        dst=ADDRESSES[1],
        dport=5000,
        number=0,
        src_rank=0,
        dst_rank=1,
        framing="gloo",
        training=True,
        packets=7_000,
        payload_nbytes=10_000_000,
        wire_nbytes=10_400_000,
        start_ns=0,
        duration_ns=100 * MS,
        goodput_bps=8e8,
        retransmitted=0,
        out_of_order=0,
        reset=False,
        rtt_ns=Percentiles(10, MS, MS, 2 * MS, 3 * MS, 4 * MS),
        window_nbytes=Percentiles(10, 65_000, 1_000_000, 2_000_000, 2_000_000, 2_000_000),
        delay_ns=None,
    )
    return replace(flow, **values)


def made_analysis() -> Analysis:
    """Two ranks, two iterations of 100 and 300 ms, each an allreduce of 1 MB with a busbw of 1 Gb/s.

    The link carries 10 Gb/s.  Rank 1 is last both times, by 20 ms.
    """
    times = ((0, 100 * MS), (100 * MS, 300 * MS))
    parts: tuple[tuple[SpanKind, int, int], ...] = (
        ("compute", 0, 5),
        ("communication", 5, 8),
        ("wait", 8, 10),
    )
    exposures = tuple(
        Exposure(n, rank, ns, ns * 5 // 10, ns * 3 // 10, 0, ns * 2 // 10, 1 - rank)
        for n, (_, ns) in enumerate(times)
        for rank in (0, 1)
    )
    return Analysis(
        name="made",
        framing="gloo",
        addresses=ADDRESSES,
        seen_from=(),
        origin_ns=10**18,
        duration_ns=400 * MS,
        missing="",
        shape=JobShape("allreduce", None, (), (0, 1), None, 1.0, "all bytes are in allreduces"),
        line_rate=LineRate(1e10, "told"),
        bounds=(),
        host_bounds=(),
        job_bound=JobBound(
            "none", None, None, None, 0.0, "no link bounded it: no rate that a link would set was held"
        ),
        files=(CaptureFile(Path("h0.pcap"), ADDRESSES[0], 9, 900, 0, 400 * MS, False, 128, 7, None),),
        matrix_nbytes=((0, 2_000_000), (1_000_000, 0)),
        transfers=tuple(
            Transfer(
                n, "allreduce", n, 1, 1_000_000, start + 50 * MS, 8 * MS, 1.25e8, 1.25e8, 0.1, "ring", 0.9
            )
            for n, (start, _) in enumerate(times)
        ),
        algorithms=(AlgorithmUse("allreduce", "ring", 2, 0.9, "each rank sends to one other"),),
        iterations=tuple(
            Iteration(n, start, ns, 1, 2_000_000, MS, warm_up=False) for n, (start, ns) in enumerate(times)
        ),
        spans=tuple(
            Span(rank, n, kind, start + ns * first // 10, start + ns * last // 10)
            for n, (start, ns) in enumerate(times)
            for rank in (0, 1)
            for kind, first, last in parts
        ),
        exposures=exposures,
        shares=shares(exposures, warm_up=0),
        shares_refused=(),
        stragglers=(Straggler(1, 2, 20 * MS),),
        flows=(made_flow(),),
        burstiness=(Burstiness(ADDRESSES[0], "out", MS, 1e8, 2e9, 20.0, 50 * MS),),
        rates=(WindowRates(ADDRESSES[0], "out", 10 * MS, 0, (0.0, 5e8, 5e8, 0.0)),),
        incasts=(Incast(ADDRESSES[1], 1, 0, MS, (0,), 1000, 8e6),),
        aggregations=(),
        traffic=(Traffic("gloo", True, 1, 7000, 10_000_000, 1.0, "3 preambles"),),
        losses=Losses(7000, 0, 1, 0, 0, 0, 3_000_000),
        rendezvous_packets=4,
        notes=("ranks: as given",),
    )


def made_messages(count: int) -> Messages:
    """Messages of 1000 bytes from rank 0 to rank 1, one every 10 µs, each under way for 5 µs."""
    first_ns = 10**18 + np.arange(count, dtype=np.int64) * 10_000
    return Messages(
        addresses=ADDRESSES,
        operations=("allreduce",),
        src=np.zeros(count, np.int32),
        dst=np.ones(count, np.int32),
        connection=np.zeros(count, np.int32),
        kind=np.zeros(count, np.uint8),
        operation=np.zeros(count, np.int32),
        tag=np.arange(count, dtype=np.int64),
        offset=np.arange(count, dtype=np.int64) * 1000,
        nbytes=np.full(count, 1000, np.int64),
        first_ns=first_ns,
        last_ns=first_ns + 2_000,
        received_ns=first_ns + 5_000,
        whole=np.ones(count, np.bool_),
        recovered=np.zeros(count, np.bool_),
        retransmitted=np.zeros(count, np.int32),
    )
