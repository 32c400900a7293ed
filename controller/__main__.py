"""The controller's process: programs the switches of a plan or a fabric, checks, then serves.

Prints `ready` when every switch has exactly its rules.  A line `stats PATH` on stdin writes all
counters to PATH and prints `stats`; the end of stdin ends it with exit code 0.  Anything that goes
wrong ends it with one line on stderr and exit code 1.
"""

import argparse
import json
import logging
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from controller.app import FabricController
from controller.rules import Rules, destination_rules, plan_rules
from controller.ryu_api import OFP_HANDLER, AppManager, cfg, hub
from controller.stats import counters
from emu import plan as plans
from emu.fabric import Fabric
from emu.plan import BadPlan
from emu.spec import parse_fabric
from traces.files import write_whole

LISTEN = "127.0.0.1"
_POLL_S = 0.005
_STATISTICS_S = 20.0
_SHOWN_NAMES = 4


class ControllerFailed(Exception):
    """The switches do not do what they should; the text is one line."""


class _Swallowed(logging.Handler):
    """Keeps what the library logs and drops: exceptions in handlers, malformed messages."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        raised = record.exc_info[1] if record.exc_info else None
        told = f"{type(raised).__name__}: {raised}" if raised else record.getMessage().splitlines()[-1]
        self.lines.append(f"{record.name}: {told}")


class Controller:
    """The library's server with our app in it, from the side of the main thread.

    Raise OSError if the port is taken.
    """

    def __init__(self, fabric: Fabric, rules: Rules, port: int) -> None:
        self._fabric = fabric
        _check_free(port)
        self._swallowed = _Swallowed()
        logging.basicConfig(handlers=[self._swallowed], level=logging.ERROR)
        # os-ken 4 has no osken-manager, so its two parts are started here: our app and the server.
        cfg.CONF(args=[], project="gradwire", default_config_files=[])
        cfg.CONF.set_override("ofp_listen_host", LISTEN)
        cfg.CONF.set_override("ofp_tcp_listen_port", port)
        manager = AppManager.get_instance()
        manager.load_apps([OFP_HANDLER])
        self._app = manager.instantiate(FabricController, fabric, rules)
        self._app.start()
        manager.instantiate_apps()

    def await_ready(self, timeout_s: float) -> None:
        """Return when every switch has its rules.  Raise ControllerFailed."""
        self._await(lambda: not self._app.unready, timeout_s, self._who_is_missing)

    def statistics(self) -> str:
        """The counters of all switches as JSON.  Raise ControllerFailed."""
        self._app.ask_statistics()
        self._await(self._app.is_counted, _STATISTICS_S, lambda: "the switches do not tell their counters")
        return json.dumps(counters(self._fabric, self._app.flows, self._app.ports)) + "\n"

    def check(self) -> None:
        """Raise ControllerFailed for whatever has gone wrong so far."""
        for line in (*self._app.refusals, *self._swallowed.lines):
            raise ControllerFailed(line)

    def _await(self, is_done: Callable[[], bool], timeout_s: float, complaint: Callable[[], str]) -> None:
        deadline_s = time.monotonic() + timeout_s
        while True:
            self.check()
            if is_done():
                return
            if time.monotonic() > deadline_s:
                raise ControllerFailed(f"{complaint()} ({timeout_s:.0f} s)")
            hub.sleep(_POLL_S)

    def _who_is_missing(self) -> str:
        unready = [switch for switch in self._fabric.switches if switch in self._app.unready]
        more = f" and {len(unready) - _SHOWN_NAMES} more" if len(unready) > _SHOWN_NAMES else ""
        return f"not connected or not programmed in time: {', '.join(unready[:_SHOWN_NAMES])}{more}"


def _check_free(port: int) -> None:
    """Raise OSError if the port is taken: the library's thread would end without a word."""
    try:
        socket.create_server((LISTEN, port)).close()
    except OSError as error:
        raise OSError(f"{LISTEN}:{port}: {error.strerror}; choose another --port") from error


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
            word, _, path = line.decode().partition(" ")
            if word != "stats" or not path:
                raise ValueError(f"no command {line.decode()!r} on stdin; there is `stats PATH`")
            write_whole(Path(path), controller.statistics())
            print("stats", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m controller", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("plan", nargs="?", type=Path, help="plan.json of `gradwire plan`")
    what.add_argument("--fabric", metavar="SPEC", help="shortest paths to every host of this fabric")
    parser.add_argument("--port", type=int, default=6653, help="TCP port for OpenFlow, on 127.0.0.1")
    parser.add_argument("--timeout", type=float, default=30.0, metavar="SECONDS", help="until ready")
    return parser.parse_args()


def main() -> int:
    arguments = _arguments()
    try:
        if arguments.fabric:
            fabric = parse_fabric(arguments.fabric)
            rules = destination_rules(fabric)
        else:
            plan = plans.load(arguments.plan)
            fabric, rules = plan.fabric, plan_rules(plan)
        controller = Controller(fabric, rules, arguments.port)
        controller.await_ready(arguments.timeout)
        print("ready", flush=True)
        serve(controller)
    except (ControllerFailed, BadPlan, OSError, ValueError) as error:
        print(f"controller: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


def _end(code: int) -> NoReturn:
    os._exit(code)  # the library's threads never end, so sys.exit() would wait for ever


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: _end(0))
    signal.signal(signal.SIGINT, lambda *_: _end(130))
    _end(main())
