"""The switch agent: one process that runs all OpenFlow switches of a fabric.

It attaches the data plane to their ports (`attached` on stdout), connects every switch to its
controllers (`connected` when each switch has one), and then carries out what they say.  When a
controller goes away the rules stay in force, OpenFlow's fail-secure mode, and the agent tries to reach
it again.
"""

import argparse
import gc
import resource
import signal
import sys
from importlib import import_module
from pathlib import Path

from gradwire.emu.switch import ports
from gradwire.emu.switch.plane.dataplane import attached
from gradwire.planning.trees.tree import MAX_SWITCH_SLOTS, SWITCH_SLOTS

COLLECT_AFTER = 50_000  # new objects after which Python looks for unreachable ones
PATIENCE_S = 10.0  # how long a switch may be without a controller
DEFAULT_CONTROLLER = ("127.0.0.1", 6653)
# Imported when the ports are attached already.
_SERVING = "gradwire.emu.switch.server.serving"


def address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT; write it like 127.0.0.1:6653")
    return host.strip("[]"), int(port)


def slot_count(text: str) -> int:
    if not text.isdecimal() or int(text) > MAX_SWITCH_SLOTS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of slots from 0 to {MAX_SWITCH_SLOTS}")
    return int(text)


def allow_open_files() -> None:
    """As many as the machine lets us have: each switch has a socket or two, and 1,024 is the usual limit."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _is_started() -> bool:
    """Wait for a line on stdin after the imports; False if stdin ends."""
    import_module(_SERVING)
    return bool(sys.stdin.readline())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m gradwire.emu.switch.agent", description=__doc__)
    parser.add_argument("ports", type=Path, help="JSON file that names the switches and their ports")
    parser.add_argument(
        "--controller",
        type=address,
        action="append",
        metavar="HOST:PORT",
        help="may be given several times; else 127.0.0.1:6653",
    )
    parser.add_argument("--object", type=Path, required=True, help="the compiled switch.o")
    parser.add_argument("--pin", type=Path, default=Path("/sys/fs/bpf/gradwire_switch"))
    parser.add_argument("--seed", type=int, default=0, help="of the hash of select groups")
    parser.add_argument(
        "--patience",
        type=float,
        default=PATIENCE_S,
        metavar="SECONDS",
        help="how long a switch may be without a controller; 0: for ever",
    )
    parser.add_argument(
        "--slots",
        type=slot_count,
        default=SWITCH_SLOTS,
        help="of each switch, for the jobs that it adds up; with none the agent starts sooner",
    )
    parser.add_argument(
        "--management",
        type=Path,
        metavar="FOLDER",
        help="where people reach the switches: NAME.mgmt for ovs-ofctl, agent.ctl to stop and start them",
    )
    parser.add_argument("--wait", action="store_true", help="begin when a line comes on stdin")
    return parser.parse_args()


def main() -> int:
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    allow_open_files()
    try:
        switches = ports.load(arguments.ports)
        if arguments.wait and not _is_started():
            return 0
        adds_up = arguments.slots > 0
        with attached(switches, arguments.object, arguments.pin, arguments.seed, adds_up) as plane:
            print("attached", flush=True)
            controllers = arguments.controller or [DEFAULT_CONTROLLER]
            serving = import_module(_SERVING)
            agent = serving.SwitchAgent(
                switches, plane, controllers, arguments.patience, arguments.slots, arguments.management
            )
            gc.freeze()  # to walk all tables for garbage would take a fifth of the time that a rule takes
            gc.set_threshold(COLLECT_AFTER)
            agent.run()
    except (OSError, ValueError) as error:
        print(f"switch agent: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
