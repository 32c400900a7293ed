"""One capture, inside its namespaces: network, controller, tcpdump at every host, and the job or the jobs.

`python -m gradwire.emu.capturing.session FOLDER` reads `request.json` there, says what it does as JSON Lines
on stdout, and leaves captures, logs and outputs in the folder.  A line on stdin, or its end, ends the job
early.  The last line says whether it was cut short, and why.  Exit code 1 and a line on stderr if nothing
could be captured.
"""

import sys
from contextlib import ExitStack
from pathlib import Path

from gradwire.emu.capturing import hosts, job
from gradwire.emu.capturing.request import MIRRORED, WHOLE, CaptureRequest
from gradwire.emu.emulation import in_force
from gradwire.emu.kernel.isolate import PRIVATE
from gradwire.emu.lifecycle import errors_in_one_line, say
from gradwire.emu.network.mirror import MIRROR, mirror_before_queues
from gradwire.emu.network.net import emulated
from gradwire.emu.network.tcpdump import SENT_HEADERS, captures, whole_packets
from gradwire.emu.options import Software
from gradwire.emu.otherprograms import Use, host_proc, read_with_beside, share_beside, used
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.transport import fabric_transport
from gradwire.traces.memory import free_nbytes


def main(folder: Path) -> None:
    request = CaptureRequest.load(folder)
    fabric = parse_fabric(request.fabric)
    network = emulated(fabric, fabric_transport(fabric), None)
    parts = request.parts(folder)
    with ExitStack() as stack:
        launchers = [stack.enter_context(job.launcher(one, place)) for one, place in parts]
        emulation = stack.enter_context(in_force(network, fabric, Software(), PRIVATE, say=say))
        pid_of = emulation.pid_of
        hosts.lay_out(fabric, pid_of)
        for launcher in launchers:
            if launcher:
                say("import")
                launcher.await_line("ready", job.IMPORT_S, emulation.watch)
        listening = whole_packets(request.total_ranks, free_nbytes())
        for one, place in parts:
            used_hosts = one.hosts(fabric)
            mirror_before_queues(used_hosts, pid_of)
            stack.enter_context(captures(used_hosts, pid_of, place / WHOLE, listening))
            stack.enter_context(captures(used_hosts, pid_of, place / MIRRORED, SENT_HEADERS, MIRROR))
        proc = host_proc()
        before = None if proc is None else read_with_beside(proc)
        say("job")
        with ExitStack() as running:
            first, *others = [
                running.enter_context(job.begun(one, fabric, pid_of, place, launcher))
                for (one, place), launcher in zip(parts, launchers, strict=True)
            ]
            whole = first.with_beside(others)
            cut_short = whole.follow(emulation.watch, sys.stdin, request.limit_s, _say_iteration)
        beside: float | None = None
        programs: tuple[Use, ...] = ()
        if proc is not None and before is not None:
            after = read_with_beside(proc)
            beside, programs = share_beside(before, after), used(proc, before[0], after[0])
        say("over", cpu_beside=beside, programs=[(use.program, use.share) for use in programs])
    say("ended", cut_short=cut_short)


def _say_iteration(line: str) -> None:
    word, _, number = line.partition(" ")
    if word == "iteration":
        say("iteration", number=int(number))


if __name__ == "__main__":
    with errors_in_one_line():
        main(Path(sys.argv[1]))
