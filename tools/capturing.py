"""Carries a capture out, from the user's request to the folder: runs, checks, trims and reports it."""

import itertools
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer

from gradwire import COMMAND
from gradwire.emu.capturing import finish
from gradwire.emu.capturing.finish import Checked, HostCapture, TimesCheck
from gradwire.emu.capturing.manifest import Ended, manifest
from gradwire.emu.capturing.request import MAX_SNAPLEN, WHOLE, CaptureRequest, check_fits
from gradwire.emu.capturing.run import capture
from gradwire.emu.disturbance import MAX_CPU_BESIDE, MAX_CPU_STOLEN, beside_words
from gradwire.emu.lifecycle import Progress as Progressed
from gradwire.emu.lifecycle import working_folder
from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.runfiles import INCOMPLETE
from gradwire.tools.console import plain
from gradwire.tools.exits import FAULT, INTERRUPTED
from gradwire.tools.options.livejob import LiveJob, need_for_live
from gradwire.tools.progressbar import progress_bar
from gradwire.traces.files import write_whole
from gradwire.traces.units import show_count, show_first, show_nbytes, show_s

NOT_AS_LOGGED = 3
SHOWN_DIFFERENCES = 5
INDENT = " " * len("CHECK FAILED: ")
PHASES = {
    "network": "building the network",
    "switches": "programming the switches",
    "import": "importing PyTorch",
    "job": "the job runs",
    "iteration": "training",
    "over": "writing the captures",
    "ending": "ending the job; captures are kept (Ctrl-C again: end at once, keep nothing)",
    "writing": "the job is over; writing its captures (Ctrl-C again: end at once, keep nothing)",
    "check": "comparing with the job's own logs",
    "cut": "cutting the payload off",
    "index": "indexing what the cut hides, and reading both",
}
AFTER_CTRL_C = ("ending", "writing")


@dataclass(frozen=True)
class Keeping:
    """The folder, how much of each packet is kept, and whether the whole payload stays beside it."""

    folder: Path
    snaplen: int
    keeps_payload: bool


@dataclass(frozen=True)
class Captured:
    """A finished capture: its folder, its manifest, and the parts of it that are reported.

    `interrupted`: whether by Ctrl-C, also one after the job, which cuts nothing short.
    """

    folder: Path
    manifest: dict[str, Any]
    hosts: tuple[HostCapture, ...]
    check: Checked | None
    trimmed: Checked
    times: TimesCheck | None = None
    beside: tuple["Captured", ...] = ()
    interrupted: bool = False

    @property
    def is_faithful(self) -> bool:
        """Whether the capture and those beside it passed every check, which decides the exit code."""
        failed = _has_failed(self.check) or _has_failed(self.trimmed) or _has_faults(self.times)
        return not failed and all(one.is_faithful for one in self.beside)

    @property
    def cut_short(self) -> str | None:
        why: str | None = self.manifest["cut_short"]
        return why


def capture_job(
    live: LiveJob, spec: str, folder: Path | None, snaplen: int, *, keep_payload: bool, as_json: bool
) -> None:
    """Run the job on the fabric `spec` and show what was captured; the folder is by default a new one.

    Leave with exit code 3 if packets and logs differ.
    """
    request = live.request(spec)
    built = parse_fabric(spec)
    check_fits(request, built)
    need_for_live("capture", request)
    keeping = Keeping(folder or default_folder(request).absolute(), snaplen, keep_payload)
    show(carry_out(request, built, keeping, sys.argv[1:], quiet=as_json), as_json)


def carry_out(
    request: CaptureRequest, fabric: Fabric, keeping: Keeping, typed: Sequence[str], quiet: bool
) -> Captured:
    """Capture, check, cut, write down.  What was cut short stays in a folder that says so in its name."""
    with working_folder(keeping.folder, may_be_empty=True) as work, _shown(request, quiet) as progress:
        for job, place in request.parts(work):
            place.mkdir(exist_ok=True)
            finish.write_rank_map(place, fabric, job.hosts(fabric))
        started_ns, start = time.time_ns(), time.monotonic()
        ran = capture(request, work, progress)
        ended = Ended(started_ns, time.monotonic() - start, ran, keeping.snaplen, keeping.keeps_payload)
        captures = [
            _finished(request, number, place, fabric, typed, ended, progress)
            for number, (_, place) in enumerate(request.parts(work))
        ]
    if ran.cut_short is None:
        work.rename(keeping.folder)
        captures = [
            replace(one, folder=place)
            for one, (_, place) in zip(captures, request.parts(keeping.folder), strict=True)
        ]
    first, *others = captures
    return replace(first, beside=tuple(others), interrupted=ran.interrupted)


def _finished(
    request: CaptureRequest,
    number: int,
    work: Path,
    fabric: Fabric,
    typed: Sequence[str],
    ended: Ended,
    progress: Progressed,
) -> Captured:
    """Check, cut and write down one of the jobs of `request`; a fault keeps its evidence, the payload."""
    job = request.jobs[number]
    used = job.hosts(fabric)
    progress("check", {})
    whole = finish.read_whole(work)
    is_whole = ended.ran.cut_short is None
    check = finish.checked(whole, work) if is_whole else None
    times = finish.timed(whole, work) if is_whole else None
    progress("cut", {})
    finish.cut_payload(work, used, ended.snaplen)
    progress("index", {})
    trimmed, undated = finish.indexed(whole, work, {host: fabric.ip(host) for host in used})
    keeps = ended.keeps_payload or _has_failed(check) or _has_failed(trimmed) or _has_faults(times)
    if not keeps:
        finish.drop_payload(work)
    hosts = finish.host_captures(work, fabric, used, undated)
    beside = tuple(other.name for place, other in enumerate(request.jobs) if place != number)
    ended = replace(ended, keeps_payload=keeps, beside=beside)
    described = manifest(job, fabric, typed, ended, hosts, check, trimmed, times)
    write_whole(work / "manifest.json", json.dumps(described, indent=1) + "\n")
    return Captured(work, described, hosts, check, trimmed, times)


@contextmanager
def _shown(request: CaptureRequest, quiet: bool) -> Iterator[Progressed]:
    """A bar for people, which moves with a built-in job's iterations; without one, what a Ctrl-C does in a
    line.
    """
    with progress_bar(quiet=quiet) as progress:
        total = request.training.iterations if request.training else None
        task = progress.add_task("starting", total=None)

        def show(phase: str, more: dict[str, Any]) -> None:
            text = PHASES[phase]
            if quiet and phase in AFTER_CTRL_C:
                print(f"gradwire: {text}", file=sys.stderr)
            if phase == "iteration":
                text = f"{text}: iteration {more['number'] + 1} of {total}"
                progress.update(task, description=text, total=total, completed=more["number"])
            else:
                progress.update(task, description=text, total=None)

        yield show


def default_folder(request: CaptureRequest) -> Path:
    """`captures/DATE-TIME-JOB` below the current folder, which nothing has yet."""
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{request.title}-{request.n_ranks}"
    for number in itertools.count(1):
        folder = Path("captures") / (name if number == 1 else f"{name}-{number}")
        if not folder.exists() and not folder.with_name(folder.name + INCOMPLETE).exists():
            return folder
    raise AssertionError("there is always a next number")


def show(captured: Captured, as_json: bool) -> None:
    """Print the capture and what can be done with it; leave with its exit code."""
    if as_json:
        print(json.dumps(_to_json(captured), indent=1))
    else:
        for line in (line for one in (captured, *captured.beside) for line in report_lines(one)):
            print(plain(line))
    if captured.interrupted:
        if captured.cut_short is None:
            print("gradwire: interrupted when the job was over; its capture is whole", file=sys.stderr)
        raise typer.Exit(INTERRUPTED)
    if captured.cut_short is not None:
        print(plain(f"gradwire: the job was cut short: {captured.cut_short}"), file=sys.stderr)
        raise typer.Exit(FAULT)
    if not captured.is_faithful:
        raise typer.Exit(NOT_AS_LOGGED)


def _to_json(captured: Captured) -> dict[str, Any]:
    """The manifest, and those of the jobs beside it."""
    value = {"folder": str(captured.folder), **captured.manifest}
    return value | ({"captures_beside": list(map(_to_json, captured.beside))} if captured.beside else {})


def report_lines(captured: Captured) -> Iterator[str]:
    """The capture in lines of text."""
    known = [host.counts for host in captured.hosts if host.counts]
    n_packets, lost = sum(c.captured for c in known), sum(c.lost for c in known)
    nbytes = sum(host.nbytes for host in captured.hosts)
    snaplen = captured.manifest["snaplen"]
    cut = "whole packets" if snaplen >= MAX_SNAPLEN else f"the first {snaplen} bytes of each packet"
    size = f"{show_count(n_packets, 'packet')}, {show_nbytes(nbytes)} ({cut})"
    hosts = show_count(len(captured.hosts), "host")
    yield f"{captured.folder}: {hosts}, {size}, {captured.manifest['seconds']:.1f} s"
    if lost:
        yield f"drops: the captures lack {show_count(lost, 'packet')} that tcpdump was too slow for"
    if undated := {host.host: host.undated for host in captured.hosts if host.undated}:
        some = f"{show_count(sum(undated.values()), 'packet')} of {', '.join(undated)}"
        yield f"queueing: not known of {some}: sent again, or not seen before the queue"
    if missing := [host.host for host in captured.hosts if host.counts is None]:
        yield f"tcpdump did not come to its end on {', '.join(missing)}: these captures lack something"
    if captured.cut_short is not None:
        yield f"cut short: {captured.cut_short}; the folder's name says so"
    if (stolen := captured.manifest["cpu_stolen"]) > MAX_CPU_STOLEN:
        yield (
            f"disturbed: {stolen:.0%} of the CPUs went to other guests of this machine's host while the job "
            "ran, so its times are too long: capture again"
        )
    if (beside := captured.manifest["cpu_beside"] or 0.0) > MAX_CPU_BESIDE:
        yield (
            f"disturbed: {beside_words(beside, captured.manifest['programs_beside'])} while the job ran, so "
            "its times are too long: stop them and capture again"
        )
    if captured.check:
        yield from _check_lines(captured.check)
    if captured.times:
        yield from _time_lines(captured.times)
    if index_nbytes := sum(host.index_nbytes for host in captured.hosts):
        hold = "headers that the cut would hide and queueing delays"
        yield f"message index: {show_nbytes(index_nbytes)} of {hold}"
    if _has_failed(captured.trimmed):
        yield f"CHECK FAILED: the trimmed captures are not read as the whole ones: {_first(captured.trimmed)}"
    if captured.manifest["keeps_payload"]:
        yield f"whole payload: {captured.folder / WHOLE}"
    yield f"next: {COMMAND} inspect {captured.folder}"


def _time_lines(times: TimesCheck) -> Iterator[str]:
    errors = ", ".join(
        f"{what} {show_s(one['p95_ns'] / 1e9)} (largest {show_s(one['largest_ns'] / 1e9)})"
        for what, one in times.spreads.items()
    )
    if errors:
        iteration = show_s(times.iteration_ns / 1e9)
        yield f"times against the logs, 95 % within: {errors}; an iteration takes {iteration}"
    for line in times.differences[:SHOWN_DIFFERENCES]:
        yield f"times not as logged: {line}"
    for line in times.faults[:SHOWN_DIFFERENCES]:
        yield f"CHECK FAILED: times: {line}"


def _check_lines(check: Checked) -> Iterator[str]:
    if check.agrees is None:
        yield f"not checked: {check.why}"
    elif check.agrees:
        yield (
            f"checked: the workload decoded from the packets equals the job's own logs "
            f"({show_count(check.n_compared, 'entry', 'entries')}, {show_nbytes(check.nbytes)})"
        )
    else:
        yield f"CHECK FAILED: {_first(check)}"
        if more := check.differences[1:]:
            yield INDENT + show_first(more, SHOWN_DIFFERENCES - 1, f"\n{INDENT}")


def _has_failed(check: Checked | None) -> bool:
    return check is not None and check.agrees is False


def _has_faults(times: TimesCheck | None) -> bool:
    return times is not None and bool(times.faults)


def _first(check: Checked) -> str:
    return check.differences[0] if check.differences else check.why
