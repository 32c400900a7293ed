"""Time read from captures of jobs that their links bound, against what the ranks logged by the same clock."""

import json
from collections import defaultdict
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradwire.traces.analysis.analysis import Analysis, analyse
from gradwire.traces.analysis.summary import sentences
from gradwire.traces.reader import open_trace
from gradwire.traces.recognition.ranks import BadTrace
from gradwire.traces.recognition.recognise import Job, find_job

SAMPLES = Path(__file__).parents[2] / "traces" / "samples"
LEAF_SPINE, STAR = "slow_ddp_8_mlp_leafspine50M", "slow_ddp_8_mlp_star100M"
SERVERS = "slow_ps_2srv_4wk_star20M"
STEADY = 2  # the iteration from which on nothing is set up any more
MS = 1_000_000
UNLIMITED = ("ddp_gloo_8", "ddp_gloo_8_gpt_tso", "ddp_gloo_4_resnet18_tso")


@cache
def job(sample: str, *files: str) -> Job:
    folder = SAMPLES / sample
    return find_job(open_trace([folder / name for name in files] or [folder]))


@cache
def analysis(sample: str, *files: str) -> Analysis:
    return analyse(job(sample, *files))


@cache
def buckets(sample: str, rank: int) -> dict[int, dict[str, int]]:
    """By iteration, when the only bucket was ready and done, and when the iteration began."""
    found: defaultdict[int, dict[str, int]] = defaultdict(dict)
    events = json.loads((SAMPLES / sample / f"log.r{rank}.json").read_bytes())["events"]
    for event in events:
        if event["k"] in ("bucket_ready", "bucket_done", "iter0"):
            found[event["it"]][event["k"]] = event["t"]
    return dict(found)


def pairs(sample: str) -> list[tuple[Any, Any, dict[str, int], dict[str, int]]]:
    """Each steady allreduce at each rank: the operation, its start, its log, that of the iteration before.

    Tags count the buckets; the first is tag 3, DDP then agrees on buckets with 4 to 6.
    """
    found = []
    for operation, starts in zip(job(sample).operations, job(sample).starts, strict=True):
        iteration = operation.tag - 5
        if operation.kind != "allreduce" or iteration < STEADY:
            continue
        for start in starts:
            log = buckets(sample, start.rank)
            found.append((operation, start, log[iteration], log[iteration - 1]))
    return found


def percentile(values: list[int], q: float) -> float:
    return float(np.percentile(np.abs(values), q)) / MS


@pytest.mark.parametrize("sample", [LEAF_SPINE, STAR])
def test_ranks_begin_and_end_when_they_say_so(sample: str) -> None:
    some = pairs(sample)
    assert len(some) >= 8 * 9
    begun = [o.begun[s.rank] - log["bucket_ready"] for o, s, log, _ in some]
    done = [o.done[s.rank] - log["bucket_done"] for o, s, log, _ in some]
    assert percentile(begun, 95) <= 10
    assert percentile(done, 95) <= 10
    assert abs(float(np.median(done))) <= 0.5 * MS
    assert float(np.percentile(done, 95)) <= MS  # where the last byte sent leaves 1.3 to 4.9 ms later, too


@pytest.mark.parametrize(("sample", "iteration_ms"), [(LEAF_SPINE, 240), (STAR, 75)])
def test_compute_gaps_are_the_ranks_own(sample: str, iteration_ms: float) -> None:
    errors = [s.gap_ns - (log["bucket_ready"] - before["bucket_done"]) for _, s, log, before in pairs(sample)]
    assert percentile(errors, 95) <= max(10, 0.05 * iteration_ms)
    assert percentile(errors, 100) < iteration_ms / 2


def test_every_iteration_waits_for_the_allreduce_of_the_one_before() -> None:
    number = {o.tag: n for n, o in enumerate(job(LEAF_SPINE).operations) if o.kind == "allreduce"}
    for operation, start, _, _ in pairs(LEAF_SPINE):
        assert start.after == (number[max(tag for tag in number if tag < operation.tag)],)


@pytest.mark.parametrize("sample", [LEAF_SPINE, STAR])
def test_the_iteration_and_its_compute_are_what_the_ranks_logged(sample: str) -> None:
    found = analysis(sample).shares
    assert found is not None
    assert analysis(sample).shares_refused == ()
    starts, compute, whole = [], 0, 0
    for rank in range(8):
        log = buckets(sample, rank)
        numbers = sorted(number for number in log if number >= STEADY)
        starts += [log[b]["iter0"] - log[a]["iter0"] for a, b in pairwise(numbers)]
        compute += sum(log[n]["bucket_ready"] - log[n - 1]["bucket_done"] for n in numbers)
        whole += sum(log[n]["bucket_done"] - log[n - 1]["bucket_done"] for n in numbers)
    assert found.time_ns == pytest.approx(float(np.median(starts)), rel=0.02)
    assert found.compute == pytest.approx(compute / whole, abs=0.03)


def test_parameter_servers_take_as_long_as_their_workers_say() -> None:
    found = analysis(SERVERS).shares
    assert found is not None
    times = []
    for rank in range(2, 6):
        events = json.loads((SAMPLES / SERVERS / f"log.r{rank}.json").read_bytes())["events"]
        begins = [event["t"] for event in events if event["k"] == 1]
        times += list(np.diff(begins)[STEADY:])
    assert found.time_ns == pytest.approx(float(np.median(times)), rel=0.02)


@pytest.mark.parametrize("rank", range(6))
def test_one_host_of_parameter_servers_tells_pushes_from_pulls_as_all_together_do(rank: int) -> None:
    """Two servers, four workers: a worker exchanges with two ranks, as a server of two workers would."""
    seen = job(SERVERS, capture_of(SERVERS, rank))
    assert seen.labels.servers == ((rank,) if rank < 2 else (0, 1))
    roles = {(o.src, o.dst, role) for o, role in zip(seen.operations, seen.labels.roles, strict=True)}
    assert {role for src, _, role in roles if src < 2} - {"other"} == {"pull"}
    assert {role for src, _, role in roles if src >= 2} - {"other"} == {"push"}


def capture_of(sample: str, rank: int) -> str:
    return f"h{rank}.pcap.gz" if sample.startswith("slow") else f"h{rank}.pcap"


ALONE = {
    LEAF_SPINE: 8,
    STAR: 8,
    SERVERS: 6,
    "ddp_gloo_8": 8,
    "ddp_gloo_8_gpt_tso": 8,
    "ddp_gloo_4_resnet18_tso": 4,
    "ps_1srv_4wk": 5,
}


# 128 bytes of 64 KB packets that begin inside of messages: what is hidden takes both ends of a connection.
UNREAD = {
    *(("ddp_gloo_8_gpt_tso", rank) for rank in range(8)),
    *(("ddp_gloo_4_resnet18_tso", rank) for rank in range(4)),
}

HIDDEN = {(STAR, 0), (STAR, 1)}  # 1.9 % of the bytes: shares are refused, and near all the same


@pytest.mark.broad(10)
@pytest.mark.parametrize(("sample", "rank"), [(name, rank) for name, n in ALONE.items() for rank in range(n)])
def test_each_hosts_capture_tells_that_hosts_story(sample: str, rank: int) -> None:
    """As all captures together tell it: its iterations, its time without compute, its messages' sizes."""
    alone, whole = analysis(sample, capture_of(sample, rank)), analysis(sample)
    assert whole.shares is not None
    if (sample, rank) in UNREAD:
        assert alone.shares is None
        assert "bytes" in alone.shares_refused[0]
        assert "could not be read" in sentences(alone)[0]
        return
    assert bool(alone.shares_refused) == ((sample, rank) in HIDDEN)
    assert alone.shares is not None
    seen = alone.seen_from or range(len(alone.addresses))  # a single server has a part in all there is
    assert rank in seen
    mine = [e for e in whole.exposures if e.rank in seen and e.iteration >= whole.shares.n_warm_up]
    assert alone.shares.time_ns == pytest.approx(float(np.median([e.time_ns for e in mine])), rel=0.05)
    assert sizes(alone) == sizes(whole)
    busy = sum(e.exposed_ns + e.wait_ns for e in mine) / sum(e.time_ns for e in mine)
    assert alone.shares.exposed + alone.shares.wait == pytest.approx(busy, abs=0.05)


def sizes(of: Analysis) -> set[int]:
    kinds = ("allreduce", "push", "pull")
    return {t.nbytes // t.count for t in of.transfers if t.kind in kinds and t.iteration >= 0}


@pytest.mark.parametrize("rank", range(4))
def test_one_host_of_an_mpi_job_is_refused_with_what_is_missing(rank: int) -> None:
    """Its collectives have no tags: who did the same step is only seen from all hosts."""
    with pytest.raises(BadTrace, match="add the captures of 10"):
        job("mpi_4_tso", f"h{rank}.pcap")
