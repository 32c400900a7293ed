"""Error messages about a file's content, each in plain words and on one line."""

import re

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gradwire.traces.units import MOST_LETTERS

_WORDS = (  # the beginning of pydantic's name for a fault, and ours
    ("missing", "is missing"),
    ("unexpected_keyword", "is not known"),
    ("extra_forbidden", "is not known"),
    ("int_", "is not a whole number"),
    ("float_", "is not a number"),
    ("finite_number", "is not a finite number"),
    ("string_type", "is not text"),
    ("bool_", "is neither true nor false"),
    ("list_type", "is not a list"),
    ("tuple_type", "is not a list"),
    ("dict_type", "is not an object"),
    ("dataclass_", "is not an object"),
    ("model_", "is not an object"),
    ("greater_than", "is out of range"),
    ("less_than", "is out of range"),
)


def complaint(error: ValidationError) -> str:
    """The first fault, as in `flows.0.src is not a whole number`; of the whole content `it is not a list`."""
    first, *others = error.errors()
    where = _where(first)
    if first["type"] == "json_invalid":
        place = re.search(r"line (\d+) column (\d+)", first["msg"])
        return f"{where} is not valid JSON" + (f": line {place[1]}, column {place[2]}" if place else "")
    if words := words_for(first["type"]):
        return f"{where} {words}"
    if first["type"] == "literal_error":
        alike = (one for one in (first, *others) if one["type"] == first["type"] and _where(one) == where)
        choices = ", ".join(one["ctx"]["expected"].replace(" or ", ", ") for one in alike)
        return f"{where} is not {' or '.join(choices.rsplit(', ', maxsplit=1))}"
    message = first["msg"].removeprefix("Value error, ").splitlines()[0]
    return f"{where}: {message}" if first["loc"] else message


def words_for(kind: str) -> str:
    """Of a fault by pydantic's name for it, as in `is not a number`; empty where that needs more words."""
    return next((words for begin, words in _WORDS if kind.startswith(begin)), "")


def _where(fault: ErrorDetails) -> str:
    """The field; of one that has several types, without the type that was tried."""
    parts = (" ".join(str(part).split())[:MOST_LETTERS] for part in fault["loc"])
    return ".".join(part for part in parts if not part.startswith("literal[")) or "it"


def other_version(found: object, wanted: str, again: str) -> str:
    """Why a file with the schema `found` cannot be read: it is of the same kind as `wanted` and of another
    version, and `again` says how it is made.  Empty if it is no such file.
    """
    kind, _, number = wanted.rpartition("/")
    match = re.fullmatch(rf"{re.escape(kind)}/(\d{{1,9}})", found) if isinstance(found, str) else None
    if match is None or match[1] == number:
        return ""
    if int(match[1]) > int(number):
        return f"it is {match[0]}, which a newer gradwire wrote; this one reads {wanted}: use the newer one"
    return f"it is {match[0]}, which an older gradwire wrote; this one reads {wanted}: {again}"
