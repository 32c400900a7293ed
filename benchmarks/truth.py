"""What `inspect` says of captures with logs, against what the ranks wrote into their logs by the same clock.

    .venv/bin/python -m benchmarks.truth FOLDER [FOLDER ...] [--together]

For each folder of captures, first all hosts together and then each host alone: the iteration, from the end
of one to the end of the next, the part of it that is compute, the rate that bounded each host, and the
buckets; of a host alone also what all captures together say of it.  A figure that misses its limit is marked
with `!`, and the last line counts them.  The limits: iteration 2 %, compute 3 points, of a host alone 5 each;
rates 5 %, buckets exact; all bytes read as messages where each capture has a message index, else 99 %.
A refusal in words is a miss only of all hosts together, where each capture has an index; the last line counts
refusals.

What is true comes from the logs and the capture's manifest (`benchmarks.jobtruth`).  Without a manifest links
had no limit, and `inspect` must say that none bounded the job.  Captures without logs are only compared with
themselves.
"""

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.jobtruth import Truth, rates_of, truth_of
from gradwire.planning import capturefabric
from gradwire.traces.analysis.analysis import Analysis, analyse
from gradwire.traces.analysis.exposure import Exposure
from gradwire.traces.analysis.shares import Shares, iteration_times
from gradwire.traces.groundtruth import read_logs
from gradwire.traces.indexfiles import MANIFEST, index_path
from gradwire.traces.reader import capture_paths, open_trace
from gradwire.traces.recognition.ranks import BadTrace
from gradwire.traces.recognition.recognise import find_job
from gradwire.traces.trace import MAX_UNREAD

MOST_ITERATION, MOST_SHARE, MOST_RATE = 0.02, 0.03, 0.05
MOST_ALONE = 0.05  # of the iteration and of shares, where one host's capture is all there is


@dataclass(frozen=True)
class Row:
    """One figure of a capture: what is said beside what is true, and whether that is near enough."""

    what: str
    said: str
    true: str
    is_near: bool


def rows(
    analysis: Analysis,
    truth: Truth | None,
    whole: Analysis,
    rates: dict[str, float],
    *,
    is_limited: bool,
    is_indexed: bool,
) -> Iterator[Row]:
    """Of a capture, alone or whole; `whole` is what all captures together say."""
    alone = analysis is not whole
    found = analysis.shares
    refused = bool(analysis.shares_refused)
    seen = analysis.seen_from or tuple(range(len(analysis.addresses)))
    for host in [analysis.addresses[rank] for rank in seen]:
        yield _rate(analysis, host, rates.get(host))
    if not is_limited and not alone:
        yield Row("link of the job", analysis.job_bound.bound, "none", analysis.job_bound.bound == "none")
    yield _unread(analysis, is_indexed=is_indexed)
    if found is None:
        yield Row("iterations", "none", "", is_near=refused or bool(analysis.incomparable))
        return
    number_of = {rank: whole.addresses.index(analysis.addresses[rank]) for rank in seen}  # whole's
    said = {
        (number_of[rank], iteration): one
        for (rank, iteration), one in _chosen(analysis.exposures, seen, found).items()
    }
    if truth is not None:
        logged = {key: one for key, one in said.items() if key in truth.parts}
        yield from _against(found.time_ns, logged, truth, refused=refused, alone=alone)
    if alone and whole.shares is not None:
        both = _chosen(whole.exposures, tuple(number_of.values()), whole.shares)
        usual_ns = median(iteration_times(both.values()).values()) if both else 0
        yield _pair("iteration, all say", found.time_ns, usual_ns, MOST_ALONE, refused=refused)
        busy = _busy(list(said.values())), _busy(list(both.values()))
        yield _points("busy, all say", *busy, MOST_ALONE, refused=refused)
    if truth is not None and truth.buckets:
        yield _buckets(analysis, truth, found.n_warm_up, refused=refused)
    elif alone:
        ours, theirs = (_sizes(one, found.n_warm_up) for one in (analysis, whole))
        yield Row("sizes", _some(ours), _some(theirs), bool(ours) and ours <= theirs)


def _unread(analysis: Analysis, *, is_indexed: bool) -> Row:
    """Of the bytes that ranks sent each other; more than the limit is right only where shares are refused."""
    unread, most = analysis.losses.unread, 0.0 if is_indexed else MAX_UNREAD
    is_near = unread <= most or (not is_indexed and bool(analysis.shares_refused))
    return Row("bytes unread", f"{unread:.4%}", f"at most {most:.0%}", is_near)


def _sizes(analysis: Analysis, warm_up: int) -> set[int]:
    """Of single messages and collectives."""
    return {t.nbytes // t.count for t in analysis.transfers if t.iteration >= warm_up}


def _some(sizes: set[int]) -> str:
    return ", ".join(map(str, sorted(sizes)[:2])) + ("…" if len(sizes) > 2 else "")


def _chosen(
    exposures: Sequence[Exposure], ranks: Sequence[int], shares: Shares
) -> dict[tuple[int, int], Exposure]:
    """Those that the shares are of."""
    return {
        (e.rank, e.iteration): e
        for e in exposures
        if e.rank in ranks and e.iteration >= shares.n_warm_up and e.iteration not in shares.long
    }


def _busy(some: Sequence[Exposure]) -> float:
    return sum(e.exposed_ns + e.wait_ns for e in some) / max(1, sum(e.time_ns for e in some))


def _against(
    time_ns: float,
    said: dict[tuple[int, int], Exposure],
    truth: Truth,
    *,
    refused: bool,
    alone: bool,
) -> Iterator[Row]:
    """Compute may be said without what was hidden: a bucket that had to queue shows when it was sent, not
    since when it was ready.
    """
    if not said:
        return
    true = [truth.parts[key] for key in said]
    most_time, most = (MOST_ALONE, MOST_ALONE) if alone else (MOST_ITERATION, MOST_SHARE)
    yield _pair("iteration", time_ns, median(part.time_ns for part in true), most_time, refused=refused)
    whole, logged = sum(e.time_ns for e in said.values()), sum(part.time_ns for part in true)
    compute = sum(e.compute_ns for e in said.values()) / whole
    hidden = sum(e.overlapped_ns for e in said.values()) / whole
    wait = sum(e.wait_ns for e in said.values()) / whole
    true_compute = sum(part.compute_ns for part in true) / logged
    true_hidden = sum(part.hidden_ns for part in true) / logged
    true_wait = sum(part.wait_ns for part in true) / logged
    is_near = true_compute - true_hidden - most <= compute <= true_compute + most
    yield Row("compute", f"{compute:.1%}", f"{true_compute:.1%}", is_near or refused)
    yield Row("of it hidden", f"{hidden:.1%}", f"{true_hidden:.1%}", is_near=True)
    yield Row("waiting", f"{wait:.1%}", f"{true_wait:.1%}", is_near=True)


def _pair(what: str, said_ns: float, true_ns: float, most: float, *, refused: bool) -> Row:
    is_near = abs(said_ns - true_ns) <= most * true_ns
    return Row(what, f"{said_ns / 1e6:.1f} ms", f"{true_ns / 1e6:.1f} ms", is_near or refused)


def _points(what: str, said: float, true: float, most: float, *, refused: bool) -> Row:
    return Row(what, f"{said:.1%}", f"{true:.1%}", abs(said - true) <= most or refused)


def _buckets(analysis: Analysis, truth: Truth, warm_up: int, *, refused: bool) -> Row:
    """The capture's end may cut the last iteration off."""
    said: defaultdict[int, list[int]] = defaultdict(list)
    for one in sorted(analysis.transfers, key=lambda t: t.tag):
        if one.kind == "allreduce" and one.iteration >= warm_up:
            said[one.iteration].append(one.nbytes)
    wrong = [n for n, some in said.items() if sorted(some) != sorted(truth.buckets.get(n, ()))]
    least = sum(n >= warm_up for n in truth.buckets)
    is_near = not wrong and len(said) >= least - 1
    return Row("buckets", f"{len(said) - len(wrong)} right", f"{least} iterations", is_near or refused)


def _rate(analysis: Analysis, host: str, true_bps: float | None) -> Row:
    one = next((bound for bound in analysis.host_bounds if bound.host == host), None)
    if one is None:
        return Row(f"rate of {host}", "not captured", "", is_near=True)
    said = f"{one.rate_bps / 1e6:.1f} Mb/s" if one.rate_bps is not None else one.bound
    if true_bps is None:
        return Row(f"rate of {host}", said, "none", one.rate_bps is None)
    is_near = one.rate_bps is not None and abs(one.rate_bps - true_bps) <= MOST_RATE * true_bps
    if analysis.seen_from and one.bound == "unknown":
        is_near = True  # a share of a link elsewhere takes that host's capture, and it says so
    return Row(f"rate of {host}", said, f"{true_bps / 1e6:.1f} Mb/s", is_near)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--together", action="store_true", help="not each host alone")
    given = parser.parse_args()
    missed = 0
    refused = Counter[str]()
    for folder in given.folders:
        paths = capture_paths([folder])
        is_limited = (folder / MANIFEST).is_file()
        is_indexed = all((index := index_path(path)) is not None and index.is_file() for path in paths)
        whole = _analysed([folder])
        if whole is None or whole.shares_refused:
            refused["all hosts"] += 1
            missed += is_indexed
        if whole is None:
            continue
        truth = truth_of(read_logs(folder))
        rates = rates_of(folder, whole, truth)
        said = rows(whole, truth, whole, rates, is_limited=is_limited, is_indexed=is_indexed)
        missed += _print(f"{folder.name}, all hosts", whole, list(said))
        for path in paths if not given.together else ():
            name = f"{folder.name}, {path.name} alone"
            alone = _analysed([path], name)
            refused["one host"] += alone is None or bool(alone.shares_refused)
            if alone is not None:
                said = rows(alone, truth, whole, rates, is_limited=is_limited, is_indexed=is_indexed)
                missed += _print(name, alone, list(said))
    print(
        f"{missed} figures missed their limit; refused: {refused['all hosts']} captures of all hosts, "
        f"{refused['one host']} of one"
    )
    sys.exit(missed > 0)


def _analysed(paths: Sequence[Path], name: str = "") -> Analysis | None:
    """As `inspect` does, which knows the fabric of a capture with a manifest."""
    fabric = capturefabric.capture_fabric(paths)
    try:
        return analyse(
            find_job(open_trace(paths)), fabric_rates=capturefabric.rates_of(fabric) if fabric else None
        )
    except BadTrace as error:
        print(f"{name or paths[0].name}: refused: {str(error).removeprefix(f'{paths[0]}: ')}", flush=True)
        return None


def _print(name: str, analysis: Analysis, some: Sequence[Row]) -> int:
    print(f"{name}; {analysis.job_bound.evidence}")
    if analysis.shares_refused:
        print(f"  refused: {'; '.join(analysis.shares_refused)}")
    for row in some:
        print(f"  {'' if row.is_near else '!':1} {row.what:22} {row.said:>14} {row.true:>14}", flush=True)
    return sum(not row.is_near for row in some)


if __name__ == "__main__":
    main()
