"""An analysis as Chrome's JSON trace events, which ui.perfetto.dev and chrome://tracing open.

One process per rank, with a track of what it did (compute, exposed communication, wait), one for each
direction of each connection to another rank, and counters of the host's rates; collectives are a process of
their own.  Arrows lead from each message's last byte at its sender to its arrival.

The format: "Trace Event Format" by the Chromium project (phases M, X, b and e, s and f, C; times in µs).
An edge module: it writes a file.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gradwire.traces.analysis.analysis import Analysis
from gradwire.traces.files import whole_file
from gradwire.traces.framing.messages import Messages

Event = dict[str, Any]
MAX_MESSAGES = 100_000  # the largest ones; the viewer stays usable, and --csv has all
COLLECTIVES_PID, FIRST_RANK_PID = 1, 2
DOING_TID, FIRST_PEER_TID = 1, 10
NAMES = {"compute": "compute", "communication": "exposed communication", "wait": "wait"}


def write_perfetto(analysis: Analysis, messages: Messages, path: Path) -> None:
    """Write the file whole or not at all, event by event."""
    left_out = max(0, int(messages.is_data.sum()) - MAX_MESSAGES)
    other = {"trace": analysis.name, "origin_ns": analysis.origin_ns, "messages_left_out": left_out}
    with whole_file(path) as file:
        file.write(f'{{"displayTimeUnit":"ms","otherData":{json.dumps(other)},"traceEvents":[\n')
        before = ""
        for event in events(analysis, messages):
            file.write(before + json.dumps(event, separators=(",", ":")))
            before = ",\n"
        file.write("\n]}\n")


def events(analysis: Analysis, messages: Messages) -> Iterator[Event]:
    """All events, those that name processes and tracks first."""
    yield from _names(analysis)
    yield from _collectives(analysis)
    yield from _spans(analysis)
    yield from _messages(analysis, messages)
    yield from _counters(analysis)


def _names(analysis: Analysis) -> Iterator[Event]:
    yield _meta("process_name", COLLECTIVES_PID, 0, name="collectives")
    yield _meta("process_sort_index", COLLECTIVES_PID, 0, sort_index=0)
    for rank, address in enumerate(analysis.addresses):
        pid = FIRST_RANK_PID + rank
        yield _meta("process_name", pid, 0, name=f"rank {rank} ({address})")
        yield _meta("process_sort_index", pid, 0, sort_index=pid)
        yield _meta("thread_name", pid, DOING_TID, name="what it does")
        for peer in range(len(analysis.addresses)):
            if analysis.matrix_nbytes[rank][peer]:
                yield _meta("thread_name", pid, _sending_tid(peer), name=f"to rank {peer}")
            if analysis.matrix_nbytes[peer][rank]:
                yield _meta("thread_name", pid, _receiving_tid(peer), name=f"from rank {peer}")


def _meta(name: str, pid: int, tid: int, /, **values: Any) -> Event:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "ts": 0, "args": values}


def _sending_tid(peer: int) -> int:
    return FIRST_PEER_TID + 2 * peer


def _receiving_tid(peer: int) -> int:
    return FIRST_PEER_TID + 2 * peer + 1


def _collectives(analysis: Analysis) -> Iterator[Event]:
    """Async events, for they overlap."""
    for number, one in enumerate(analysis.transfers):
        where = "set-up" if one.iteration < 0 else f"iteration {one.iteration}"
        head = {"name": one.kind, "cat": "collective", "id": number, "pid": COLLECTIVES_PID, "tid": 0}
        said = {
            "where": where,
            "tag": one.tag,
            "nbytes": one.nbytes,
            "count": one.count,
            "algorithm": one.algorithm,
            "busbw_Bps": one.busbw_Bps,
        }
        yield {**head, "ph": "b", "ts": one.start_ns / 1e3, "args": said}
        yield {**head, "ph": "e", "ts": (one.start_ns + one.time_ns) / 1e3}


def _spans(analysis: Analysis) -> Iterator[Event]:
    for span in analysis.spans:
        yield {
            "ph": "X",
            "name": NAMES[span.kind],
            "cat": "rank",
            "pid": FIRST_RANK_PID + span.rank,
            "tid": DOING_TID,
            "ts": span.start_ns / 1e3,
            "dur": (span.end_ns - span.start_ns) / 1e3,
            "args": {"iteration": span.iteration},
        }


def _messages(analysis: Analysis, messages: Messages) -> Iterator[Event]:
    """A slice at the sender, one at the receiver, and an arrow; slices of one track never overlap."""
    rows = np.flatnonzero(messages.is_data & messages.whole)
    if len(rows) > MAX_MESSAGES:
        rows = np.sort(rows[np.argsort(-messages.nbytes[rows], kind="stable")[:MAX_MESSAGES]])
    free_ns: defaultdict[tuple[int, int], int] = defaultdict(lambda: -(1 << 62))
    for number in rows.tolist():
        src, dst = int(messages.src[number]), int(messages.dst[number])
        first, last, received = (
            int(column[number]) - analysis.origin_ns
            for column in (messages.first_ns, messages.last_ns, messages.received_ns)
        )
        name = messages.operations[messages.operation[number]]
        said = {"nbytes": int(messages.nbytes[number]), "tag": int(messages.tag[number])}
        ends = []
        for pid, tid, until in (
            (FIRST_RANK_PID + src, _sending_tid(dst), max(first, last)),
            (FIRST_RANK_PID + dst, _receiving_tid(src), max(first, received)),
        ):
            begin = max(first, free_ns[pid, tid])
            end = max(begin, until)
            free_ns[pid, tid] = end
            ends.append((pid, tid, begin, end))
            where = {"pid": pid, "tid": tid, "ts": begin / 1e3, "dur": (end - begin) / 1e3}
            yield {"ph": "X", "name": name, "cat": "message", **where, "args": said}
        for phase, (pid, tid, begin, end) in zip("sf", ends, strict=True):
            at = begin if phase == "s" else end
            arrow = {"ph": phase, "name": "message", "cat": "message", "id": number, "pid": pid, "tid": tid}
            yield {**arrow, "ts": at / 1e3, **({"bp": "e"} if phase == "f" else {})}


def _counters(analysis: Analysis) -> Iterator[Event]:
    """A value where it changes, so that rests cost nothing."""
    for rates in analysis.rates:
        if rates.host not in analysis.addresses:
            continue
        pid = FIRST_RANK_PID + analysis.addresses.index(rates.host)
        before = None
        for number, bps in enumerate((*rates.bps, 0.0)):
            if bps != before:
                ts = (rates.start_ns + number * rates.window_ns) / 1e3
                head = {"ph": "C", "name": f"Mb/s {rates.direction}", "pid": pid, "tid": 0, "ts": ts}
                yield {**head, "args": {"Mb/s": round(bps / 1e6, 3)}}
            before = bps
