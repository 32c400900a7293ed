"""Reads plain YAML from people: bounded, and an error names its line.

Plain is: no aliases (a few lines of them can expand to billions of nodes), nothing nested deeper than the
document may be, no key twice (YAML would quietly take the last).
"""

from collections.abc import Sequence

import yaml
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, Node, SequenceNode

from gradwire.traces.units import MOST_LETTERS


class _Loader(yaml.SafeLoader):
    """One whose errors all have a line."""

    def construct_object(self, node: Node, deep: bool = False) -> object:
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError, OverflowError) as error:  # `2026-13-01`, `!!bool x`
            kind = node.tag.rpartition(":")[2]
            problem = f"{str(node.value)[:MOST_LETTERS]!r} is not a valid {kind}"
            raise ConstructorError(problem=problem, problem_mark=node.start_mark) from error


def compose(text: bytes, max_depth: int) -> Node | None:
    """The nodes of the document; None of an empty one.  Raise ValueError with line and reason."""
    try:
        _check_plain(text, max_depth)
        return yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}: " if mark else ""
        reason = ", ".join(filter(None, (error.context, error.problem)))
        raise ValueError(f"{where}{reason}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"not valid YAML: {str(error).splitlines()[0]}") from error


def value_of(node: Node | None) -> object:
    """The node's value by YAML's own types.  Raise ValueError with line and reason."""
    loader = _Loader("")
    try:
        return None if node is None else loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or node.start_mark if node else None
        reason = (error.problem or "").replace(
            "could not determine a constructor for the tag", "gradwire does not read values with the tag"
        )
        raise ValueError(f"line {mark.line + 1 if mark else 1}: {reason}") from error


def _check_plain(text: bytes, max_depth: int) -> None:
    """Raise ValueError or yaml's own error; takes memory for one event at a time."""
    open_parts: list[tuple[set[str], list[bool]] | None] = []  # of a mapping: its keys, and is a key next?
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        line = f"line {event.start_mark.line + 1 if event.start_mark else 1}: "
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise ValueError(f"{line}anchors and aliases are not allowed: write the values out")
        if isinstance(event, yaml.CollectionEndEvent):
            open_parts.pop()
        if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) and open_parts and open_parts[-1]:
            keys, key_next = open_parts[-1]
            if key_next[0] and isinstance(event, yaml.ScalarEvent):
                if event.value in keys:
                    raise ValueError(f"{line}the key {event.value[:MOST_LETTERS]!r} is given twice")
                keys.add(event.value)
            key_next[0] = not key_next[0]
        if isinstance(event, yaml.CollectionStartEvent):
            open_parts.append((set(), [True]) if isinstance(event, yaml.MappingStartEvent) else None)
        if len(open_parts) > max_depth:
            raise ValueError(f"{line}the document is nested too deeply")


def line_of(node: Node | None, place: Sequence[str | int]) -> int | None:
    """The line, from 1, of the innermost part that `place` leads to, leaving out steps that are not there;
    None of an empty document.
    """
    if node is None:
        return None
    for step in place:
        inside: Node | None = None
        if isinstance(node, MappingNode):
            inside = next((value for key, value in node.value if key.value == step), None)
        elif isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
            inside = node.value[step]
        if inside is None:
            continue
        node = inside
    line: int = node.start_mark.line + 1
    return line
