"""How a lab file calls the choices that options make: by the options' names.

Apart from tools/labs/schema.py, as the models there take a while to make.
"""

from typing import Any, get_args

OF_COMMAND = (
    "out",
    "html",
    "parquet",
    "as_json",
    "verbose",
    "watch",
)  # what is written where, and how it is shown


def key_of(choice: Any) -> str:
    """The key of a field of choices: its option without the dashes."""
    _, option = get_args(choice.type)
    declared = (option.default, *(option.param_decls or ()))
    long = [text for text in declared if isinstance(text, str) and text.startswith("--")]
    return long[0].partition("/")[0].removeprefix("--") if long else str(choice.name).replace("_", "-")


def is_name_or_file(metavar: str | None) -> bool:
    """Whether an option takes a name or a file, as `resnet50|FILE` does."""
    return metavar is not None and "|FILE" in metavar
