"""Reads a fabric from a YAML file; an error names its line.

Only plain YAML: no aliases (a few lines of them can expand to billions of nodes), nothing nested deeper than
the document is, no key twice (YAML would quietly take the last).
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError
from yaml.nodes import MappingNode, Node, SequenceNode

from gradwire.planning.fabrics.cabling import BadCabling
from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.fabricdocument import FabricDocument, LinksLine, Tier, WireKeys, fabric_of
from gradwire.traces.files import read_at_most

SUFFIXES = (".yaml", ".yml")
MAX_FILE_NBYTES = 1 << 20
MAX_DEPTH = 5  # the document, links, a line, its a
MAX_NAME = 60

_UNPLAIN = re.compile(r"[^\w.-]")
_PLAIN_WORDS = {
    "model_type": "must be a mapping",
    "list_type": "must be a list",
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "too_short": "must not be empty",
    "too_long": "has too many entries",
    "string_too_long": "is too long",
    "string_pattern_mismatch": "may have letters, digits, '_', '.', '-' and single blanks",
}
_PARTS: dict[str, type[BaseModel]] = {"tiers": Tier, "links": LinksLine, "defaults": WireKeys}


def is_file(spec: str) -> bool:
    """Whether a fabric's spec is the name of a file."""
    return spec.lower().endswith(SUFFIXES)


def read_fabric(path: Path) -> Fabric:
    """Called as the file unless it says otherwise.  Raise OSError, or ValueError with line and reason."""
    octets = read_at_most(path, MAX_FILE_NBYTES)
    if len(octets) > MAX_FILE_NBYTES:
        raise ValueError(f"the file is larger than {MAX_FILE_NBYTES >> 20} MiB")
    return fabric_of_yaml(octets, _UNPLAIN.sub("_", path.name)[-MAX_NAME:])


def fabric_of_yaml(text: bytes, name: str) -> Fabric:
    """Raise ValueError with line and reason."""
    try:
        _check_plain(text)
        node = yaml.compose(text, Loader=yaml.CSafeLoader)
        value: Any = yaml.load(text, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}: " if mark else ""
        reason = ", ".join(filter(None, (error.context, error.problem)))
        raise ValueError(f"{where}{reason}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"not valid YAML: {str(error).splitlines()[0]}") from error
    try:
        return fabric_of(value, name)
    except ValidationError as error:
        first = error.errors()[0]
        place = first["loc"]
        raise ValueError(_line(node, place) + _complaint(first["type"], first["msg"], place)) from error
    except BadCabling as error:
        raise ValueError(_line(node, error.place) + str(error)) from error


def _check_plain(text: bytes) -> None:
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
                    raise ValueError(f"{line}the key {event.value[:40]!r} is given twice")
                keys.add(event.value)
            key_next[0] = not key_next[0]
        if isinstance(event, yaml.CollectionStartEvent):
            open_parts.append((set(), [True]) if isinstance(event, yaml.MappingStartEvent) else None)
        if len(open_parts) > MAX_DEPTH:
            raise ValueError(f"{line}the document is nested too deeply")


def _line(node: Node | None, place: Sequence[str | int]) -> str:
    """`line 7: ` of the innermost part that `place` leads to."""
    if node is None:
        return ""
    for step in place:
        inside: Node | None = None
        if isinstance(node, MappingNode):
            inside = next((value for key, value in node.value if key.value == step), None)
        elif isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
            inside = node.value[step]
        if inside is None:
            break
        node = inside
    return f"line {node.start_mark.line + 1}: "


def _complaint(kind: str, text: str, place: Sequence[str | int]) -> str:
    """What pydantic found, in words for a person."""
    names = [str(step) for step in place]
    if kind == "extra_forbidden":
        part = _PARTS.get(names[0], FabricDocument) if len(names) > 1 else FabricDocument
        return f"there is no key {names[-1][:40]!r}; the keys are {', '.join(part.model_fields)}"
    if kind == "missing":
        return f"{'.'.join([*names[:-1], ''])}{names[-1]} is missing"
    if not names:
        return "the file is not a mapping; begin it with hosts:, switches:, links:"
    where = ".".join(names)
    if kind in _PLAIN_WORDS:
        return f"{where} {_PLAIN_WORDS[kind]}"
    return f"{where}: {text.removeprefix('Value error, ')}"
