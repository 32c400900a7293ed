"""An injection from start to end, in namespaces of its own; leaves a folder of results and nothing else."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from gradwire.emu import deadlines
from gradwire.emu.inject.counts import InjectionCounts
from gradwire.emu.inject.options import REQUEST, InjectOptions
from gradwire.emu.inject.preparation import Prepared
from gradwire.emu.inject.result import Injection, result
from gradwire.emu.inject.times import read_times
from gradwire.emu.lifecycle import Progress, follow, session, working_folder
from gradwire.planning.fabrics.spec import fabric_to_json
from gradwire.traces.files import write_whole

_REST_S = 180.0  # beyond the sending itself: start-up has a limit of its own


def inject(
    source: str, prepared: Prepared, options: InjectOptions, folder: Path, progress: Progress
) -> Injection:
    """Leave the run's files in `folder`.  Raise RunFailed with one line; the incomplete folder then stays."""
    check_queues(prepared)
    duration_s = (int(prepared.due_ns[-1]) + prepared.period_ns * (options.loops - 1)) / 1e9
    with working_folder(folder) as work:
        _write_inputs(prepared, options, duration_s, work)
        with session("the run", "gradwire.emu.inject.session", work) as child:
            follow(child, deadlines.SETUP_S + duration_s + _REST_S, progress)
        progress("matching", {})
        counted = InjectionCounts(**json.loads((work / "counted.json").read_text()))
        injection = result(source, options, prepared, read_times(work, prepared, options.loops), counted)
        write_whole(work / "result.json", json.dumps(injection.to_json(), indent=1) + "\n")
        for name in _ON_THE_WAY:
            (work / name).unlink()
    work.rename(folder)
    return injection


_ON_THE_WAY = ("packets.npz", "sent.npz", "sender.json", "counted.json")  # what is of use is in the result


def check_queues(prepared: Prepared) -> None:
    """Raise ValueError for a queue that no packet of the capture's largest size would ever pass."""
    sizes = [link.queue_nbytes for link in prepared.fabric.links if link.queue_nbytes is not None]
    if sizes and min(sizes) < prepared.largest_nbytes:
        raise ValueError(
            f"a queue of {min(sizes)} bytes has no room for this capture's packets of up to "
            f"{prepared.largest_nbytes} bytes: use larger queues, or --exact-mtu"
        )


def _write_inputs(prepared: Prepared, options: InjectOptions, duration_s: float, work: Path) -> None:
    request: Mapping[str, object] = {
        "fabric": fabric_to_json(prepared.fabric),
        "hosts": prepared.hosts,
        "routes": options.routes,
        "switch": options.switch,
        "loops": options.loops,
        "period_ns": prepared.period_ns,
        "duration_s": duration_s,
    }
    write_whole(work / REQUEST, json.dumps(request, indent=1) + "\n")
    frames = prepared.frames
    np.savez(
        work / "packets.npz",
        heads=frames.heads,
        head_at=frames.head_at,
        head_nbytes=frames.head_nbytes,
        zeros_nbytes=frames.zeros_nbytes,
        src=prepared.pieces.src,
        due_ns=prepared.due_ns,
    )
