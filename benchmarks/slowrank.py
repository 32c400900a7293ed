"""Does a slow rank change a replay as it changes the job?  One job, live and replayed, with and without it.

    sudo .venv/bin/python -m benchmarks.slowrank [--slow RANK=×FACTOR] [--fabric SPEC] [--out DIR] [...]

The job is trained live as it is, and once more with the rank slowed down (`capture --slow`: it sleeps after
what it computed).  The first capture is replayed as it is, and with the same rank slowed down
(`replay --slow`).  How long a rank computes changes by a tenth and more from one training to the next, which
no replay of the first can know: one pair of trainings differs from its replays by up to 15 %.  So there are
--pairs of them, every other with the slow one first, and their geometric mean counts.  Done when the
iteration of the replay grows as the job's does, to within 5 %, and the standard error of that is at most 2 %.
The slowed rank sleeps, so the job must leave it time to: no more ranks than processors.  Needs PyTorch
(sudo ./gradwire setup --live).
"""

import argparse
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log
from pathlib import Path
from statistics import geometric_mean, median, stdev

from gradwire.emu.options import RunOptions
from gradwire.emu.records import load_repeats
from gradwire.emu.run import run
from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.model.calibration import Calibration
from gradwire.results.laboratory import Laboratory
from gradwire.results.replayedmessages import replayed_messages
from gradwire.tools.capturing import Keeping, carry_out
from gradwire.tools.exits import INTERRUPTED, NOT_VALID
from gradwire.tools.options.common import parse_slow
from gradwire.tools.options.livejob import LiveJob, need_for_live
from gradwire.tools.trust.replay import plan_for
from gradwire.traces.fidelity import message_starts
from gradwire.traces.groundtruth import read_logs
from gradwire.traces.iterationtimes import FIRST_WARM, IterationTime, iteration_times_s, logged_starts
from gradwire.traces.reader import open_trace
from gradwire.traces.recognition.recognise import Job, find_job, workload_of
from gradwire.traces.schedules.straggling import straggling
from gradwire.traces.units import show_s

MOST = 0.05  # the most by which the growths may differ
MOST_UNKNOWN = 0.02  # the standard error of that, at most: else it takes more pairs
VALID = 0.9  # of the pairs, at least
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
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=20)
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
    slowed = replace(job, slow=(arguments.slow,))
    growths, calibrations = [], dict[Fabric, Calibration]()
    for number in range(1, arguments.pairs + 1):
        place = out / str(number)
        trainings = [("live", job), ("live-slow", slowed)]
        if number % 2 == 0:  # so what changes slowly on the machine evens out
            trainings.reverse()
        by_name = {name: trained(one, arguments.fabric, place / name) for name, one in trainings}
        captured = find_job(open_trace([place / "live"]))
        shutil.rmtree(place / "runs", ignore_errors=True)  # of an earlier try
        bench = Laboratory(place / "runs", RunOptions(arguments.repeat), tell, run, calibrations)
        replays = [
            replayed(captured, slow, arguments.fabric, bench, place) for slow in (None, (arguments.slow,))
        ]
        print(f"pair {number} of {arguments.pairs}")
        both = growth("live", [by_name["live"], by_name["live-slow"]]), growth("replay", replays)
        if not any(one.reasons for one in replays):
            growths.append(both)
    sys.exit(judge(growths, arguments.pairs))


def tell(text: str) -> None:
    print(text, file=sys.stderr)


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


def judge(growths: Sequence[tuple[float, float]], n_pairs: int) -> int:
    """Print by how much the growths of replays differ from those of the job, (job, replay) of each valid
    pair; the exit code.
    """
    print(f"{len(growths)} of {n_pairs} pairs are valid (at least {VALID:.0%})")
    if len(growths) < max(2, VALID * n_pairs):
        return NOT_VALID
    live, replay = (median(each) for each in zip(*growths, strict=True))
    ratios = [there / here for here, there in growths]
    error = geometric_mean(ratios) - 1
    standard_error = stdev(map(log, ratios)) / len(ratios) ** 0.5
    print(f"median: live × {live:.3f}, replay × {replay:.3f}")
    print(
        f"the replay grows by {error:+.1%} of what the job does (at most {MOST:.0%}), known to "
        f"±{standard_error:.1%} (at most {MOST_UNKNOWN:.0%}); single pairs {min(ratios) - 1:+.1%} to "
        f"{max(ratios) - 1:+.1%}"
    )
    return 0 if abs(error) <= MOST and standard_error <= MOST_UNKNOWN else NOT_VALID


if __name__ == "__main__":
    main()
