"""Does a slow rank change a replay as it changes the job?  One job, live and replayed, with and without it.

    sudo .venv/bin/python -m benchmarks.slowrank [--slow RANK=×FACTOR] [--fabric SPEC] [--out DIR] [...]

The job is trained live as it is, and once more with the rank slowed down (`capture --slow`: it sleeps after
what it computed).  The first capture is replayed as it is, and with the same rank slowed down
(`replay --slow`).  How fast a rank computes changes from one training to the next, by a seventh at times,
which no replay of the first can know.  So the second training's iteration is also given as if the rank had
computed there for as long as in the first, by its own log, and all is done --pairs times.  Done when the
iteration of the replay grows like that, to within 5 % in the median.  The slowed rank sleeps, so the job must
leave it time to: no more ranks than processors.  Needs PyTorch (sudo ./gradwire setup --live).
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from gradwire.emu.options import RunOptions
from gradwire.emu.records import load_repeats
from gradwire.emu.run import run
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.results.laboratory import Laboratory
from gradwire.results.replayedmessages import replayed_messages
from gradwire.tools.capturing import Keeping, carry_out
from gradwire.tools.exits import INTERRUPTED
from gradwire.tools.options.common import parse_slow
from gradwire.tools.options.livejob import LiveJob, need_for_live
from gradwire.tools.trust.replay import plan_for
from gradwire.traces.fidelity import message_starts
from gradwire.traces.groundtruth import BUCKET_READY, read_logs
from gradwire.traces.iterationtimes import (
    BEGINS,
    FIRST_WARM,
    IterationTime,
    iteration_times_s,
    logged_starts,
)
from gradwire.traces.reader import open_trace
from gradwire.traces.recognition.recognise import Job, find_job, workload_of
from gradwire.traces.schedules.straggling import straggling
from gradwire.traces.units import show_s

MOST = 0.05  # the most by which the growths may differ
NOT_VALID = 3  # an exit code
SNAPLEN = 128


@dataclass(frozen=True, slots=True)
class Measured:
    """An iteration's time, and why it cannot be believed."""

    time: IterationTime
    reasons: tuple[str, ...] = ()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--slow", default="1=×2", metavar="RANK=×FACTOR")
    parser.add_argument("--model", default="mlp")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--fabric", default="star:hosts=2,rate=100M")
    parser.add_argument("--out", type=Path, default=Path("runs") / "slowrank")
    arguments = parser.parse_args()
    job = LiveJob(
        words=("ddp",),
        ranks=arguments.ranks,
        model=arguments.model,
        iterations=arguments.iterations,
        batch=arguments.batch,
        seed=0,
        bucket_mib=None,
        servers=1,
        workers=1,
        asynchronous=False,
        once=False,
        limit_s=600,
    )
    out: Path = arguments.out.absolute()
    need_for_live("slowrank", job.request(arguments.fabric))
    ((rank, factor),) = parse_slow((arguments.slow,)).items()
    found = []
    for number in range(1, arguments.pairs + 1):
        place = out / str(number)
        live = [
            trained(one, arguments.fabric, place / name)
            for name, one in (("live", job), ("live-slow", replace(job, slow=(arguments.slow,))))
        ]
        captured = find_job(open_trace([place / "live"]))
        bench = Laboratory(
            place / "runs", RunOptions(arguments.repeat), lambda text: print(text, file=sys.stderr), run
        )
        slows = (None, (arguments.slow,))
        replays = [replayed(captured, slow, arguments.fabric, bench, place) for slow in slows]
        computed = [computed_s(place / name, rank) for name in ("live", "live-slow")]
        found.append((*live_growths(live, computed, float(factor)), growth("replay", replays)))
        if any(one.reasons for one in replays):
            sys.exit(NOT_VALID)
    sys.exit(judge(found))


def trained(job: LiveJob, spec: str, place: Path) -> Measured:
    """Trained and captured, unless that has been done; by the ranks' own logs."""
    if not place.exists():
        keeping = Keeping(place, SNAPLEN, keeps_payload=False)
        captured = carry_out(job.request(spec), parse_fabric(spec), keeping, sys.argv[1:], quiet=True)
        if captured.interrupted:
            sys.exit(INTERRUPTED)
        if captured.cut_short is not None:
            sys.exit(f"{captured.folder}: {captured.cut_short}")
    times_s = iteration_times_s(logged_starts(read_logs(place)), FIRST_WARM)
    return Measured(IterationTime.of(times_s))


def computed_s(place: Path, rank: int) -> float:
    """How long the rank computes in an iteration, with what it sleeps: from its beginning until its first
    bucket is ready, by its log; the median, without the first iterations.
    """
    (log,) = (one for one in read_logs(place) if one.rank == rank)
    begun_ns = {event.it: event.t for event in log.events if event.k in BEGINS}
    ready_ns: dict[int, int] = {}
    for event in log.events:
        if event.k == BUCKET_READY and event.it >= FIRST_WARM:
            ready_ns.setdefault(event.it, event.t)
    return median(time_ns - begun_ns[it] for it, time_ns in ready_ns.items()) / 1e9


def replayed(job: Job, slow: Sequence[str] | None, spec: str, bench: Laboratory, out: Path) -> Measured:
    fabric = parse_fabric(spec)
    workload = straggling(workload_of(job), parse_slow(slow))
    plan = plan_for([workload], fabric, str(out / "live"), "ecmp", captured_on=fabric)
    row = bench.row(plan)
    assert row.folder
    repeats = load_repeats(Path(row.folder), plan)
    messages = replayed_messages(Path(row.folder), plan, len(repeats))
    kept = [some for some, repeat in zip(messages, repeats, strict=True) if repeat.counts] or messages
    times_s = [
        time_s
        for some in kept
        for time_s in iteration_times_s(message_starts(some, range(job.trace.n_ranks)), FIRST_WARM)
    ]
    return Measured(IterationTime.of(times_s), row.reasons)


def growth(name: str, both: Sequence[Measured]) -> float:
    """How many times as long an iteration takes with the slow rank, printed; `both`: without and with it."""
    plain, slow = both
    found = slow.time.median / plain.time.median
    times = " → ".join(f"{show_s(one.time.median)} ±{one.time.spread:.0%}" for one in both)
    print(f"{name:8}{times}: × {found:.3f}")
    for reason in (*plain.reasons, *slow.reasons):
        print(f"not valid: {name}: {reason}")
    return found


def live_growths(both: Sequence[Measured], computed: Sequence[float], factor: float) -> tuple[float, float]:
    """As it was, and with the rank computing in the second training for as long as in the first; `computed`
    (s) has what it did in each.
    """
    plain, slow = both
    more_s = factor * computed[0] - computed[1]
    as_before = (slow.time.median + more_s) / plain.time.median
    found = growth("live", both)
    words = " and ".join(map(show_s, computed))
    print(f"        the rank computed {words}; with {factor:g} times the first: × {as_before:.3f}")
    return found, as_before


def judge(found: Sequence[tuple[float, float, float]]) -> int:
    """Print how the growths of replays differ from those of the job, in the median; the exit code."""
    live, as_before, replay = (median(some) for some in zip(*found, strict=True))
    plain, error = (median(each[2] / each[which] - 1 for each in found) for which in (0, 1))
    print(f"median: live × {live:.3f}, had the rank computed alike × {as_before:.3f}, replay × {replay:.3f}")
    print(f"the replay grows by {plain:+.1%} of what the job does")
    print(f"had the rank computed alike: {error:+.1%} (at most {MOST:.0%})")
    return 0 if abs(error) <= MOST else NOT_VALID


if __name__ == "__main__":
    main()
