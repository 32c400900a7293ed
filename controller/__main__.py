"""The controller's process: programs the switches of a plan or a fabric, checks them, then serves.

Prints `ready` when every switch has exactly its rules.  A line `stats PATH` on stdin writes all
counters to PATH and prints `stats`; a line `settle` waits until all cables are up and the first rules in
force again, and prints `settled`; a line `await SWITCH` waits until that switch has its rules and its cables
are used, and prints `ready SWITCH`, or `late SWITCH` after some seconds; a line `await-gone SWITCH` waits
until it is not connected and all flows are led around it, and prints `gone SWITCH` or `late SWITCH`; a line
`await-away SWITCH` only until it is not connected, and prints `away SWITCH` or `late SWITCH`; the end of
stdin ends it with exit code 0.  Anything that goes wrong with a switch of the fabric ends it with one line
on stderr and exit code 1.
"""

import argparse
import os
import select
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import NoReturn

from gradwire.controller.server import Controller, ControllerFailed
from gradwire.planning.plan import BadPlan
from gradwire.planning.refused import Refused
from gradwire.traces.files import write_whole
from gradwire.traces.plugins import BadPlugin, bug_of, whose
from gradwire.traces.units import show_count

LISTEN = "127.0.0.1"
_LOOK_S = 0.1
_SWITCH_S = 8.0


def serve(controller: Controller) -> None:
    """Obey the lines on stdin until it ends.  Raise ControllerFailed, OSError or ValueError."""
    commands = b""
    while True:
        readable, _, _ = select.select([sys.stdin], [], [], 1.0)
        controller.check()
        if not readable:
            continue
        octets = os.read(sys.stdin.fileno(), 4096)
        if not octets:
            return
        *lines, commands = (commands + octets).split(b"\n")
        for line in lines:
            _obey(controller, line.decode())


def _obey(controller: Controller, line: str) -> None:
    word, _, rest = line.partition(" ")
    if word == "stats" and rest:
        write_whole(Path(rest), controller.statistics())
        done = "stats"
    elif word == "await" and rest:
        done = f"{'ready' if controller.await_switch(rest, _SWITCH_S) else 'late'} {rest}"
    elif word == "await-gone" and rest:
        done = f"{'gone' if controller.await_gone(rest, _SWITCH_S) else 'late'} {rest}"
    elif word == "await-away" and rest:
        done = f"{'away' if controller.await_away(rest, _SWITCH_S) else 'late'} {rest}"
    elif line == "settle":
        controller.settle()
        done = "settled"
    else:
        raise ValueError(
            f"stdin: unknown command {line!r}; the commands are `stats PATH`, `await SWITCH`, "
            "`await-gone SWITCH`, `await-away SWITCH` and `settle`"
        )
    print(done, flush=True)


def report_to_people(controller: Controller, where: str, timeout_s: float) -> None:
    """Say which switches come and go, until killed.  Raise ControllerFailed."""
    names = controller.fabric.switches
    switches = show_count(len(names), "switch", "switches")
    print(f"listening on {where} for {switches} of {controller.fabric.spec}", flush=True)
    print(controller.says, flush=True)
    deadline_s = time.monotonic() + timeout_s
    before = set(names)
    while True:
        controller.check()
        missing = set(controller.unready())
        n_ready = len(names) - len(missing)
        for changed, what in ((before - missing, "has its rules"), (missing - before, "is gone")):
            if affected := [name for name in names if name in changed]:
                print(f"{', '.join(affected)}: {what}; {n_ready} of {len(names)}", flush=True)
        if before and not missing:
            print("ready: every switch has its rules; Ctrl-C ends this", flush=True)
            deadline_s = float("inf")
        elif missing and time.monotonic() > deadline_s:
            controller.await_ready(0)
        before = missing
        time.sleep(_LOOK_S)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m gradwire.controller", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("plan", nargs="?", type=Path, help="plan.json of `gradwire plan`")
    what.add_argument("--fabric", metavar="SPEC", help="routes between all hosts of this fabric")
    parser.add_argument("--routes", default="ecmp", metavar="POLICY", help="for --fabric")
    parser.add_argument("--listen", default=LISTEN, metavar="ADDRESS", help=f"default: {LISTEN}")
    parser.add_argument("--port", type=int, default=6653, help="TCP port for OpenFlow")
    parser.add_argument("--timeout", type=float, default=30.0, metavar="SECONDS", help="until ready")
    parser.add_argument("--people", action="store_true", help="report in words, obey nothing but Ctrl-C")
    parser.add_argument("--log", type=Path, metavar="FILE", help="write failures and what was done there")
    parser.add_argument("--no-reroute", action="store_true", help="leave failures to the switches alone")
    return parser.parse_args()


def main() -> int:
    """Run the controller until its stdin ends; return the exit code, 1 with a line on stderr if it failed."""
    arguments = _arguments()
    try:
        controller = Controller(
            arguments.listen,
            arguments.port,
            waits=arguments.people,
            plan=str(arguments.plan) if arguments.plan else None,
            fabric=arguments.fabric,
            routes=arguments.routes,
            log=str(arguments.log) if arguments.log else None,
            reroute=not arguments.no_reroute,
        )
        if arguments.people:
            report_to_people(controller, f"{arguments.listen}:{arguments.port}", arguments.timeout)
        controller.await_ready(arguments.timeout)
        print("ready", flush=True)
        serve(controller)
    except Exception as error:
        plugin = whose(error)
        if isinstance(error, (ControllerFailed, BadPlan, BadPlugin, Refused, OSError, ValueError)):
            said = f"{plugin}: {error}" if plugin else str(error)
        elif plugin:
            traceback.print_exc()
            said = bug_of(plugin)
        else:
            raise
        who = "gradwire" if arguments.people else "controller"
        print(f"{who}: {said}", file=sys.stderr, flush=True)
        return 1
    return 0


def _end(code: int) -> NoReturn:
    os._exit(code)  # the library's threads never end, so sys.exit() would wait for ever


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: _end(0))
    signal.signal(signal.SIGINT, lambda *_: _end(130))
    # `gradwire controller` blocked it, so that a Ctrl-C did not end the imports with a traceback.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    _end(main())
