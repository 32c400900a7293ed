"""What is wrong with a file's content, in plain words and one line."""

from pydantic import ValidationError

_WORDS = (  # the beginning of pydantic's name for a fault, and ours
    ("json_invalid", "is not valid JSON"),
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
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"])) or "it"
    for kind, words in _WORDS:
        if first["type"].startswith(kind):
            return f"{where} {words}"
    if first["type"] == "literal_error":
        return f"{where} is not {first['ctx']['expected']}"
    told = first["msg"].removeprefix("Value error, ").splitlines()[0]
    return f"{where}: {told}" if first["loc"] else told
