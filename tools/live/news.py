"""What a live view has received so far that a new viewer must be sent.

Messages are those of `tools.live.view` and of `emu.looks`; the newest of each kind counts.  Lines of the
controller's log (docs/schemas.md, "control.jsonl") are put into words.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any

from gradwire.traces.units import show_count, show_first, show_s

MOST_MOVES = 200
_OF_A_RUN = ("load",)  # kinds that a new run makes out of date
_SHOWN = 4  # names in a line


class News:
    """Bounded, however long the run is."""

    def __init__(self) -> None:
        self._last: dict[str, Mapping[str, Any]] = {}
        self._moves: deque[Mapping[str, Any]] = deque(maxlen=MOST_MOVES)
        self._ports: dict[tuple[str, int], str] = {}

    def add(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """The message as it is shown: the controller's moves in words."""
        kind = message["kind"]
        if kind == "run":
            for stale in _OF_A_RUN:
                self._last.pop(stale, None)
            self._moves.clear()
            self._ports = {(node, port): name for name, _, node, port in message["links"]}
        elif kind == "load":
            moves = [{"t_s": m["t_s"], "text": move_words(m, self._ports)} for m in message["moves"]]
            message = {**message, "moves": moves}
            self._moves.extend(moves)
        self._last.pop(kind, None)
        self._last[kind] = message  # so that they are in the order in which they came
        return message

    def get(self, kind: str) -> Mapping[str, Any]:
        """The last message of a kind; empty if there was none."""
        return self._last.get(kind, {})

    @property
    def moves(self) -> list[Mapping[str, Any]]:
        """The last ones of this run, each with `t_s` and `text`."""
        return list(self._moves)

    def everything(self) -> list[Mapping[str, Any]]:
        """For a new viewer, in the order in which to read it."""
        messages = sorted(self._last.values(), key=lambda message: message["kind"] == "load")
        return [{**m, "moves": self.moves} if m["kind"] == "load" else m for m in messages]


def move_words(move: Mapping[str, Any], ports: Mapping[tuple[str, int], str]) -> str:
    """One line; `ports` names the link that leaves each port."""
    event = move["event"]
    if event in ("port_down", "port_up"):
        link = ports.get((move["switch"], move["port"]), f"{move['switch']} port {move['port']}")
        return f"{link} is {'down' if event == 'port_down' else 'up'}"
    if event == "rerouted":
        return _rerouted(move)
    if event == "rebalanced":
        moves = [f"{each['src']}→{each['dst']}" for each in move["moves"]]
        flows = show_count(len(moves), "flow")
        return f"{flows} moved off full links, of ranks {show_first(moves, _SHOWN)}"
    if event in ("tree_moved", "tree_lost"):
        where = f"moved from {move['from']} to {move['to']}" if move["to"] else "has no way left"
        return f"aggregation tree {move['job']} {where}"
    if event in ("switch_came", "switch_gone"):
        return f"{move['switch']} {'has connected' if event == 'switch_came' else 'is gone'}"
    if event == "settled":
        return "all ports are up, and the plan's own rules in force"
    return str(move.get("text", event))


def _rerouted(move: Mapping[str, Any]) -> str:
    done = f"{show_count(move['flows'], 'flow')} moved in {show_s(move['seconds'])}"
    done += f", {show_count(move['rules'], 'rule')} sent"
    if not move["down"]:
        return f"back on the first paths: {done}"
    return f"rerouted around {show_first(move['down'], _SHOWN)}: {done}"
