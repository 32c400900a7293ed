"""Reads a fabric from a YAML file; an error names its line."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ValidationError

from gradwire.planning.fabrics.cabling import BadCabling
from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.fabricdocument import FabricDocument, LinksLine, Tier, WireKeys, fabric_of
from gradwire.traces.files import read_at_most
from gradwire.traces.units import no_key

if TYPE_CHECKING:
    from yaml.nodes import Node

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


def read_fabric(path: Path) -> Fabric:
    """Called as the file unless it says otherwise.  Raise OSError, or ValueError with line and reason."""
    octets = read_at_most(path, MAX_FILE_NBYTES)
    if len(octets) > MAX_FILE_NBYTES:
        raise ValueError(f"the file is larger than {MAX_FILE_NBYTES >> 20} MiB")
    return fabric_of_yaml(octets, _UNPLAIN.sub("_", path.name)[-MAX_NAME:])


def fabric_of_yaml(text: bytes, name: str) -> Fabric:
    """Raise ValueError with line and reason."""
    from gradwire.traces.plainyaml import compose  # YAML is slow to import, and few fabrics are files

    return fabric_of_node(compose(text, MAX_DEPTH), name)


def fabric_of_node(node: "Node | None", name: str) -> Fabric:
    """The fabric that a part of a document describes.  Raise ValueError with line and reason."""
    from gradwire.traces.plainyaml import value_of

    try:
        return fabric_of(value_of(node), name)
    except ValidationError as error:
        first = error.errors()[0]
        place = first["loc"]
        raise ValueError(_line(node, place) + _complaint(first["type"], first["msg"], place)) from error
    except BadCabling as error:
        raise ValueError(_line(node, error.place) + str(error)) from error


def _line(node: "Node | None", place: Sequence[str | int]) -> str:
    from gradwire.traces.plainyaml import line_of

    line = line_of(node, place)
    return f"line {line}: " if line else ""


def _complaint(kind: str, text: str, place: Sequence[str | int]) -> str:
    """What pydantic found, in words for a person."""
    names = [str(step) for step in place]
    if kind == "extra_forbidden":
        part = _PARTS.get(names[0], FabricDocument) if len(names) > 1 else FabricDocument
        return no_key(names[-1], part.model_fields)
    if kind == "missing":
        return f"{'.'.join([*names[:-1], ''])}{names[-1]} is missing"
    if not names:
        return "the file is not a mapping; begin it with hosts:, switches:, links:"
    where = ".".join(names)
    if kind in _PLAIN_WORDS:
        return f"{where} {_PLAIN_WORDS[kind]}"
    return f"{where}: {text.removeprefix('Value error, ')}"
