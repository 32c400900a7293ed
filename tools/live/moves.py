"""What the controller did, in words: the lines of its log (docs/schemas.md, "control.jsonl") for whoever
watches.
"""

from collections.abc import Mapping
from typing import Any

from gradwire.traces.units import show_count, show_first, show_s

_SHOWN = 4  # names in a line


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
