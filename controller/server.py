"""The library's server with our app in it, as seen by the main thread, which prints, waits and ends."""

import gc
import json
import logging
import socket
import time
from collections.abc import Callable

from gradwire.controller.app import GROUP, FabricController
from gradwire.controller.connection import Complaints
from gradwire.controller.ryu_api import OFP_HANDLER, AppManager, cfg, hub
from gradwire.planning.fabrics.fabric import Fabric
from gradwire.traces.units import show_first

_COLLECT_AFTER = 50_000  # new objects after which Python looks for unreachable ones
_POLL_S = 0.005
_STATISTICS_S = 20.0
_SETTLE_S = 20.0
_SHOWN_NAMES = 4


class ControllerFailed(Exception):
    """The switches do not do what they should; the text is one line."""


class Controller:
    """One of it in a process: the library has global state."""

    def __init__(self, host: str, port: int, **options: object) -> None:
        """`options` are the app's.  Raise OSError if the port is taken, and what the app raises."""
        _check_free(host, port)
        self._complaints = Complaints()
        logging.basicConfig(handlers=[self._complaints], level=logging.ERROR)
        # os-ken 4 has no osken-manager, so its two parts are started here: our app and the server.
        cfg.CONF(args=[], project="gradwire", default_config_files=[])
        cfg.CONF.set_override("ofp_listen_host", host)
        cfg.CONF.set_override("ofp_tcp_listen_port", port)
        for name, value in options.items():
            cfg.CONF.set_override(name, value, group=GROUP)
        manager = AppManager.get_instance()
        manager.load_apps([OFP_HANDLER])
        self._app = manager.instantiate(FabricController)
        manager.instantiate_apps()  # starts ours too: started twice, two threads would take its events
        gc.freeze()  # to look for garbage among 100,000 rules would delay an answer by 0.3 s
        gc.set_threshold(_COLLECT_AFTER)

    @property
    def fabric(self) -> Fabric:
        fabric: Fabric = self._app.fabric
        return fabric

    @property
    def says(self) -> str:
        """One line about the rules."""
        says: str = self._app.steering.intent.says
        return says

    def unready(self) -> list[str]:
        """The switches that have not, or not for certain, their rules."""
        unready: list[str] = self._app.steering.unready()
        return unready

    def await_ready(self, timeout_s: float) -> None:
        """Return when every switch has its rules.  Raise ControllerFailed."""
        self._await(lambda: not self._app.steering.unready(), timeout_s, self._who_is_missing)

    def await_switch(self, name: str, timeout_s: float) -> bool:
        """Whether this switch has its rules, and flows are led over it, within the time.  Raise
        ControllerFailed.
        """
        return self._is_within(timeout_s, lambda: self._app.is_in_force_at(name))

    def await_gone(self, name: str, timeout_s: float) -> bool:
        """Whether this switch is away, and all flows are led around it, within the time.  Raise
        ControllerFailed.
        """
        return self._is_within(timeout_s, lambda: self._app.is_gone(name))

    def await_away(self, name: str, timeout_s: float) -> bool:
        """Whether this switch's connection has ended within the time.  Raise ControllerFailed."""
        return self._is_within(timeout_s, lambda: self._app.is_away(name))

    def settle(self) -> None:
        """Return when all cables are up and the first rules are in force again.  Raise ControllerFailed."""
        self._app.settle()
        self._await(
            self._app.is_settled, _SETTLE_S, lambda: "some cables are not up or some rules are not in force"
        )

    def statistics(self) -> str:
        """The counters of all switches as JSON.  Raise ControllerFailed, or ValueError for a wrong answer."""
        self._app.ask_statistics()
        self._await(
            self._app.is_counted, _STATISTICS_S, lambda: "some switches have not reported their counters"
        )
        return json.dumps(self._app.statistics.to_json()) + "\n"

    def check(self) -> None:
        """Raise ControllerFailed for whatever has gone wrong so far."""
        for line in (*self._app.refusals, *self._complaints.lines):
            raise ControllerFailed(line)

    def _is_within(self, timeout_s: float, is_done: Callable[[], bool]) -> bool:
        deadline_s = time.monotonic() + timeout_s
        while not is_done() and time.monotonic() < deadline_s:
            self.check()
            hub.sleep(_POLL_S)
        return is_done()

    def _await(self, is_done: Callable[[], bool], timeout_s: float, complaint: Callable[[], str]) -> None:
        deadline_s = time.monotonic() + timeout_s
        while True:
            self.check()
            if is_done():
                return
            if time.monotonic() > deadline_s:
                raise ControllerFailed(f"after {timeout_s:.0f} s {complaint()}")
            hub.sleep(_POLL_S)

    def _who_is_missing(self) -> str:
        unready = self._app.steering.unready()
        names = show_first(unready, _SHOWN_NAMES)
        return f"these switches are not connected or not programmed: {names}"


def _check_free(host: str, port: int) -> None:
    """Raise OSError if nobody can listen there: the library's thread would end silently."""
    try:
        socket.create_server((host, port)).close()
    except OSError as error:
        raise OSError(f"{host}:{port}: {error.strerror}; choose another --listen or --port") from error
