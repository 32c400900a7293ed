"""The keys of a lab file: the options of `plan`, `replay`, `bench` and `make`, by their names.

The classes that make those options (tools/options/choices.py, tools/options/bench.py, tools/options/make.py)
are read here: a new option is a new key, and its help is what an editor shows of it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    Tag,
    WithJsonSchema,
    create_model,
)
from pydantic_core import CoreSchema, ErrorDetails, core_schema

from gradwire.results.expectations import SELECTORS
from gradwire.results.quantities import QUANTITIES
from gradwire.results.studyplots import FIGURES, NAMES, NUMBERS
from gradwire.tools.labs.optionkeys import OF_COMMAND, key_of
from gradwire.tools.options.bench import COLLECTIVES, BenchChoices
from gradwire.tools.options.choices import MatrixChoices, NetworkChoices, RunChoices, TrafficChoices
from gradwire.tools.options.make import KINDS, SizeChoices
from gradwire.traces.complaints import words_for
from gradwire.traces.units import MOST_LETTERS, no_key, not_one_of

MAX_ITEMS = 1000
DRAWINGS = ("html", "svg", "csv")
JOBS = "a path, a list of paths, {sample: NAME}, {make: KIND, …} or {bench: COLLECTIVE, …}"


class OrOne:
    """Of a list: a single value stands for a list of it."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Pydantic asks for it."""
        return core_schema.no_info_before_validator_function(
            lambda value: value if isinstance(value, list) else [value], handler(source)
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Pydantic asks for it."""
        several = handler(schema)
        return {"anyOf": [several["items"], several]}


Text = Annotated[str, WithJsonSchema({"type": ["string", "number"]})]
_Fabric = Annotated[str | dict[str, Any], WithJsonSchema({"type": ["string", "object"]})]


def _several(kind: Any) -> Any:
    """A list of it, or one in its place."""
    return Annotated[list[kind], Field(min_length=1, max_length=MAX_ITEMS), OrOne()]


Texts = _several(Text)
Paths = _several(Path)
_KINDS: dict[Any, Any] = {
    str: Text,
    str | None: Text,
    int | None: int,
    Path | None: Path,
    list[str]: Texts,
    list[Path]: Paths,
}
"""What a key takes, by the type of its option."""


class Part(BaseModel):
    """A mapping in a lab file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @property
    def given(self) -> dict[str, Any]:
        """What the file says, by the names of the choices."""
        return {
            name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set
        }


def _keys(*classes: Any) -> dict[str, Any]:
    """A field of a model for each field of these classes of choices."""
    return {each.name: _key(each) for one in classes for each in fields(one) if each.name not in OF_COMMAND}


def _key(choice: Any) -> tuple[Any, Any]:
    kind, option = get_args(choice.type)
    limits = {name: limit for name, limit in (("ge", option.min), ("le", option.max)) if limit is not None}
    text = " ".join(option.help.split("\n"))
    return _KINDS.get(kind, kind), Field(None, alias=key_of(choice), description=text, **limits)


def _either(kinds: dict[str, Any], kind_of: Callable[[object], str | None]) -> Any:
    """The one of several types whose name `kind_of` says."""
    first, *others = (Annotated[kind, Tag(tag)] for tag, kind in kinds.items())
    union: Any = first
    for each in others:
        union |= each
    return Annotated[union, Discriminator(kind_of)]


def _part(name: str, means: str, keys: Mapping[str, Any]) -> type[Part]:
    """A mapping with these keys: of each its type, and a field of pydantic's."""
    made: type[Part] = create_model(name, __base__=Part, __doc__=means, **cast(Any, keys))
    return made


def _said(kind: Any, text: str, **more: Any) -> tuple[Any, Any]:
    """A key that need not be there."""
    return kind, Field(None, description=text, **more)


Sample = _part(
    "Sample",
    "A capture that gradwire ships.",
    {"sample": (Text, Field(description="Its name in traces/samples."))},
)
Bench = _part(
    "Bench",
    "A collective over a range of sizes, as `bench` has it.",
    {"bench": (Literal[COLLECTIVES], Field(description="The collective.")), **_keys(BenchChoices)},
)
MAKES = {
    f"(make {kind})": _part(
        f"Make_{kind}",
        f"The job that `make {kind}` writes.",
        {
            "make": (Literal[kind], Field(description="The kind of job.")),
            **_keys(SizeChoices, choices),
        },
    )
    for kind, choices in KINDS.items()
}


def _kind_of_job(value: object) -> str | None:
    if not isinstance(value, dict):
        return "(paths)"
    if "make" in value:
        return f"(make {value['make']})"
    return next((f"({kind})" for kind in ("sample", "bench") if kind in value), None)


Job: Any = _either({"(paths)": Paths, "(sample)": Sample, "(bench)": Bench, **MAKES}, _kind_of_job)
Where = _part(
    "Where",
    "The cells that an expectation is about; * matches anything.",
    {key: (Texts, Field(None)) for key in SELECTORS},
)
Expected = _part(
    "Expectation",
    "An expectation of some cells, or of a name.",
    {
        "that": _said(Text, "An expectation, such as `ratio <= 1.1`."),
        "where": (Where, Field(None)),
        **{
            name: _said(Text, f"{quantity.means}.")
            for name, quantity in QUANTITIES.items()
            if quantity.unit == "name"
        },
    },
)
Drawn = _part(
    "Plot",
    "A chart on the page of a study.",
    {
        "y": (Texts, Field(description=f"Quantities of one unit: {', '.join(FIGURES)}.")),
        "x": (Text, Field(description=f"A choice: {', '.join((*NUMBERS, *NAMES))}.")),
        "series": _said(Texts, "Choices that name a line or a bar; unless given, those that are needed."),
        "where": (Where, Field(None)),
        "log": _said(bool, "Whether the axis of y is logarithmic."),
        "title": _said(Text, "What is written above it."),
    },
)
_EXPECTATION: Any = _either(
    {"(text)": Text, "(mapping)": Expected},
    lambda value: "(mapping)" if isinstance(value, dict) else "(text)",
)
Name = Annotated[str, Field(pattern=r"^[\w.-]+( [\w.-]+)*$", max_length=60)]
LabFile = _part(
    "LabFile",
    "A lab of gradwire: a job, where it runs, and what is expected of it (docs/labs.md).",
    {
        "name": _said(Name, "What it is called; unless given, as its file."),
        "job": (Job, Field(None, description=f"What is sent: {JOBS}.")),
        "jobs": (
            dict[Name, Job],
            Field(
                None,
                min_length=1,
                max_length=MAX_ITEMS,
                description="For `sweep`, in place of job: several by names, each as job has it.",
            ),
        ),
        "mode": _said(
            Literal["plan", "replay", "bench"],
            "plan: plan the cells and send nothing. replay: send a job's traffic. bench: measure a "
            "collective. Unless given, bench or replay, whichever the job is for.",
        ),
        **_keys(MatrixChoices, NetworkChoices, TrafficChoices, RunChoices),
        "seeds": _said(
            Texts,
            "For `sweep`: plan every cell with each of these seeds. Numbers, and ranges such as 0..9.",
        ),
        "fabric": _said(
            _several(_Fabric),
            "Fabrics: specs, names of YAML files, or what such a file holds (docs/schemas.md).",
        ),
        "expect": _said(_several(_EXPECTATION), "What must hold; else the exit code is 4."),
        "plot": _said(
            _several(Drawn),
            "For `sweep`: charts on its page, such as `{y: time, x: size}`, a line or a bar for each series.",
        ),
        "draw": _said(
            _several(Literal[DRAWINGS]),
            "Files in the folder of the results. html: the report page; svg: a drawing for each cell, its "
            "links coloured by load; csv: a table of all cells.",
        ),
    },
)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a lab file, for editors."""
    made = LabFile.model_json_schema(by_alias=True)
    made["oneOf"] = [{"required": ["job"]}, {"required": ["jobs"]}]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_without_nulls(made)}


def _without_nulls(value: Any) -> Any:
    """Without the default null of keys that need not be there."""
    if isinstance(value, dict):
        return {
            key: _without_nulls(each)
            for key, each in value.items()
            if not (key == "default" and each is None)
        }
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


_PARTS: dict[str, type[Part]] = {
    "(sample)": Sample,
    "(bench)": Bench,
    **MAKES,
    "(mapping)": Expected,
    "where": Where,
    "plot": Drawn,
}
"""By the tags and keys that lead to them; the file itself is a LabFile."""


_ELSEWHERE = {
    "html": "write draw: html",
    "parquet": "gradwire report RUN --parquet writes the tables of results",
}


def place_of(fault: ErrorDetails) -> list[str | int]:
    """The keys and numbers that lead to what is wrong in the file."""
    return [step for step in fault["loc"] if not str(step).startswith("(")]


NO_JOB = f"job is missing: it is {JOBS}"


def fault_text(fault: ErrorDetails) -> str:
    """What is wrong, in words for a person."""
    place = place_of(fault)
    key = str(place[-1]) if place else ""
    match fault["type"], place:
        case "extra_forbidden", _:
            return _unknown(key, fault["loc"])
        case (("union_tag_not_found" | "missing"), ["job", *_] | ["jobs", _, *_]):
            return f"{'.'.join(map(str, place))} is not {JOBS}"
        case "union_tag_invalid", ["job"] | ["jobs", _]:
            return not_one_of("kind of job", str(fault["input"]["make"]), KINDS)
        case "greater_than_equal", _:
            return f"{key} must be {fault['ctx']['ge']} or more, not {fault['input']}"
        case "less_than_equal", _:
            return f"{key} must be at most {fault['ctx']['le']}, not {fault['input']}"
        case "too_short", _:
            return f"{key} is empty; leave it out, or write a value"
        case "too_long", _:
            return f"{key} has more than {MAX_ITEMS} values"
        case (("string_pattern_mismatch" | "string_too_long"), ["name"] | ["jobs", *_]):
            what = "name" if place == ["name"] else "the name of a job,"
            said = f"{what} {fault['input'][:MOST_LETTERS]!r}"
            return f"{said} can have letters, digits, '.', '-', '_' and single spaces only, at most 60"
        case "literal_error", _:
            return f"{'.'.join(map(str, place))} is {fault['input']!r}: it can be {fault['ctx']['expected']}"
    words = words_for(fault["type"])
    return f"{'.'.join(map(str, place))} {words}" if words else f"{key}: {fault['msg']}"


def _unknown(key: str, loc: Sequence[str | int]) -> str:
    part: type[Part] = LabFile
    for step in loc[:-1]:
        part = _PARTS.get(str(step), part)
    if key in [key_of(each) for each in fields(RunChoices) if each.name in OF_COMMAND]:
        return f"{key} is not a key of a lab: {_ELSEWHERE.get(key, f'write gradwire run --{key}')}"
    if "{" in key:
        return "put it in quotes, as it has ': ' in it"
    names = [field.alias or name for name, field in part.model_fields.items()]
    return no_key(key, names)
