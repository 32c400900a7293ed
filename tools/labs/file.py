"""Reads a lab file: what to send, where, and what to expect of it; an error names its line.

Every scalar is read as the text that one would type after the option, whatever YAML would make of it: `on`
stays `on`, 0.50 stays 0.50.  Paths are relative to the file.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

from pydantic import ValidationError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from gradwire.planning.fabrics.fabric import Fabric
from gradwire.planning.fabrics.fabricfile import fabric_of_node
from gradwire.planning.fabrics.spec import is_file, parse_fabric
from gradwire.planning.jobs import STDIN
from gradwire.results.expectations import Expectation, parse_expectation, selection_of
from gradwire.results.studyplots import Plot, plot_of
from gradwire.tools.exits import is_for_people, line_for_people
from gradwire.tools.labs.optionkeys import is_name_or_file
from gradwire.tools.labs.schema import NO_JOB, LabFile, Part, fault_text, place_of
from gradwire.tools.stdin import DASH
from gradwire.traces.files import read_at_most
from gradwire.traces.plainyaml import compose, line_of

MAX_FILE_NBYTES = 1 << 20
MAX_DEPTH = 7  # the lab, its fabrics, a fabric, links, a line, its a
MAX_SAID = 1000  # letters of an error, which may quote what somebody wrote
LEAST_QUOTED = 3  # letters of a text, or of a part of one, that an error may be about
_QUOTED = re.compile("'([^']+)'")
_WORD = re.compile(r"[a-z][a-z-]+")
Choices = TypeVar("Choices")
Place = Sequence[str | int]
Job = Part | tuple[Path, ...]


class BadLab(ValueError):
    """A lab that cannot be run; the text is one line that begins with the file, and the line in it."""


@dataclass(frozen=True)
class Lab:
    """A lab file as it was read.

    `job` is what is sent: paths, or a part of tools.labs.schema.  `fabrics` are those that the file names,
    each after its text there, `given` the choices that it makes, by their names.  A study has `seeds`, as
    texts, what its page shows as `plots`, and perhaps several `jobs` by their names; then `job` is the one
    that is called `job_name`.
    """

    path: Path
    node: Node
    name: str
    mode: str | None
    job: Job
    fabrics: tuple[tuple[str, Fabric], ...]
    given: Mapping[str, Any]
    expect: tuple[Expectation, ...]
    draw: tuple[str, ...]
    seeds: tuple[str, ...] = ()
    plots: tuple[Plot, ...] = ()
    jobs: Mapping[str, Job] = field(default_factory=dict)
    job_name: str = ""

    def choices(self, defaults: Choices) -> Choices:
        """`defaults`, a dataclass of choices, with what the file says of its fields."""
        return chosen(defaults, self.given, self.path.parent)

    @property
    def job_keys(self) -> Any:
        """What is sent, as a lab file says it: paths, or a mapping of keys."""
        if isinstance(self.job, Part):
            keys = self.job.model_dump(by_alias=True, exclude_unset=True)
            return {key: placed(value, None, self.path.parent) for key, value in keys.items()}
        return list(self.job)

    @contextmanager
    def blamed(self, *place: str | int, or_quoted: bool = False) -> Iterator[None]:
        """Raise what is wrong in the block as BadLab, with the line of `place`; with `or_quoted` rather with
        that of a text in the file that the error quotes.
        """
        if self.job_name and place[:1] == ("job",):
            place = ("jobs", self.job_name, *place[1:])
        try:
            yield
        except BadLab:
            raise
        except Exception as error:
            if not is_for_people(error):
                raise
            said = line_for_people(error)
            quoted = _quoted(self.node, said) if or_quoted else ()
            raise _bad(self.path, self.node, quoted or place, said) from error


def chosen(defaults: Choices, given: Mapping[str, Any], folder: Path) -> Choices:
    """`defaults`, a dataclass of choices, with what is given of its fields; paths are below `folder`."""
    own = {
        each.name: placed(given[each.name], get_args(each.type)[1].metavar, folder)
        for each in fields(cast(Any, defaults))
        if each.name in given
    }
    return cast(Choices, replace(cast(Any, defaults), **own))


def placed(value: Any, metavar: str | None, folder: Path) -> Any:
    """A path as it is below the folder, also one that may be a name (`NAME|FILE`); anything else as it is."""
    if isinstance(value, list):
        return [placed(each, metavar, folder) for each in value]
    if isinstance(value, Path):
        return Path(os.path.normpath(folder / value))
    if is_name_or_file(metavar) and value not in str(metavar).split("|"):
        return os.path.normpath(folder / value)
    return value


def read_lab(path: Path) -> Lab:
    """Raise BadLab, or OSError for a file that cannot be read.

    What comes on standard input names files from the current folder, as it has none of its own.
    """
    octets = read_at_most(path, MAX_FILE_NBYTES)
    path = DASH if path == STDIN else path
    if len(octets) > MAX_FILE_NBYTES:
        raise BadLab(f"{path}: a lab file has at most {MAX_FILE_NBYTES >> 20} MiB")
    try:
        node = compose(octets, MAX_DEPTH)
        content = _texts(node)
    except ValueError as error:
        raise BadLab(f"{path}: {_with_advice(str(error))}") from error
    if node is None or not isinstance(content, dict):
        raise BadLab(f"{path}: not a lab; write job: and fabric:, as docs/labs.md shows")
    try:
        keys = LabFile.model_validate(content)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        raise _bad(path, node, place_of(fault), fault_text(fault)) from error
    return _lab(path, node, keys)


def _with_advice(said: str) -> str:
    """What YAML's reader says of text such as `time of {size: 1M} / time of {size: 2M}` helps nobody."""
    line, found, _ = said.partition("mapping values are not allowed")
    return f"{line}put text with ': ' in it in quotes" if found else said


def _lab(path: Path, node: Node, keys: Part) -> Lab:
    given = keys.given
    folder = path.parent
    jobs = {
        name: tuple(placed(job, None, folder)) if isinstance(job, list) else job
        for name, job in given.pop("jobs", {}).items()
    }
    if "job" in given and jobs:
        raise _bad(path, node, ("jobs",), "job has no effect beside jobs; leave one of them out")
    if "job" not in given and not jobs:
        raise _bad(path, node, ("job",), NO_JOB)
    job_name = next(iter(jobs), "")
    job = jobs[job_name] if jobs else given.pop("job")
    if isinstance(job, list):
        job = tuple(placed(job, None, folder))
    expect = given.pop("expect", [])
    return Lab(
        path,
        node,
        name=given.pop("name", path.stem),
        mode=given.pop("mode", None),
        job=job,
        fabrics=tuple(_fabrics(path, node, given.pop("fabric", []))),
        expect=tuple(_expectations(path, node, expect)),
        draw=tuple(given.pop("draw", ())),
        seeds=tuple(given.pop("seeds", ())),
        plots=tuple(_plots(path, node, given.pop("plot", []))),
        jobs=jobs,
        job_name=job_name,
        given=given,
    )


def _fabrics(path: Path, node: Node, texts: Sequence[str | dict[str, Any]]) -> Iterator[tuple[str, Fabric]]:
    parts = _items(node, "fabric")
    for number, (text, part) in enumerate(zip(texts, parts, strict=True)):
        try:
            if isinstance(text, dict):
                fabric = fabric_of_node(part, f"{path.stem}-{number + 1}")
                yield fabric.spec, fabric
            else:
                yield text, parse_fabric(os.path.normpath(path.parent / text) if is_file(text) else text)
        except (ValueError, OSError) as error:
            said = line_for_people(error)
            raise BadLab(
                f"{path}: {said}" if said.startswith("line ") else f"{path}: line {line_of(part, ())}: {said}"
            ) from error


def _items(node: Node, key: str) -> Sequence[Node]:
    """The items of a list in the file, or the one value in its place."""
    assert isinstance(node, MappingNode)
    for name, value in node.value:
        if name.value == key:
            return value.value if isinstance(value, SequenceNode) else [value]
    return []


def _expectations(path: Path, node: Node, items: Sequence[Any]) -> Iterator[Expectation]:
    for item, part in zip(items, _items(node, "expect"), strict=True):
        try:
            yield _expectation(item)
        except ValueError as error:
            raise BadLab(f"{path}: line {line_of(part, ())}: {error}") from error


def _expectation(item: Any) -> Expectation:
    if isinstance(item, str):
        return parse_expectation(item)
    given = item.given
    where = selection_of(given.pop("where").given) if "where" in given else {}
    if len(given) != 1:
        raise ValueError(
            "an expectation has exactly one of that:, bounded_by:, worst_link: and verdict:, beside where:"
        )
    ((key, text),) = given.items()
    return parse_expectation(text if key == "that" else f"{key} == {text}", where)


def _plots(path: Path, node: Node, items: Sequence[Part]) -> Iterator[Plot]:
    for item, part in zip(items, _items(node, "plot"), strict=True):
        keys = item.given
        try:
            where = selection_of(keys["where"].given) if "where" in keys else {}
            log, title = keys.get("log", False), keys.get("title", "")
            yield plot_of(keys["y"], keys["x"], keys.get("series", ()), where, log=log, title=title)
        except ValueError as error:
            raise BadLab(f"{path}: line {line_of(part, ())}: {error}") from error


def _texts(node: Node | None) -> Any:
    """The document with every scalar as it is written.  Raise ValueError with the line."""
    if isinstance(node, ScalarNode):
        if node.tag == "tag:yaml.org,2002:null":
            raise ValueError(f"line {line_of(node, ())}: there is no value; leave the key out, or write one")
        return node.value
    if isinstance(node, SequenceNode):
        return [_texts(each) for each in node.value]
    if isinstance(node, MappingNode):
        for key, _ in node.value:
            if not isinstance(key, ScalarNode):
                raise ValueError(f"line {line_of(key, ())}: a key must be text; put text with {{ in quotes")
        return {key.value: _texts(value) for key, value in node.value}
    return None


def _quoted(node: Node, said: str) -> Place:
    """Where in the file the text, or else the key, is that an error names; nowhere if it names none."""
    quoted, words = _QUOTED.findall(said), _WORD.findall(said)

    def likeness(place: Place, text: str) -> tuple[int, int]:
        if text in quoted:
            return 4, len(text)
        if len(text) >= LEAST_QUOTED and text in said:
            return 3, len(text)
        parts = [len(word) for word in quoted if len(word) >= LEAST_QUOTED and word in text]
        if parts:
            return 2, max(parts)
        return int(place[0] in words), 0

    found = ((likeness(place, text), place) for place, text in _leaves(node, ()))
    best, place = max(found, key=lambda each: each[0])
    return place if best[0] else ()


def _leaves(node: Node, place: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(node, ScalarNode):
        yield place, node.value
    elif isinstance(node, SequenceNode):
        for number, each in enumerate(node.value):
            yield from _leaves(each, (*place, number))
    elif isinstance(node, MappingNode):
        for key, each in node.value:
            yield from _leaves(each, (*place, key.value))


def _bad(path: Path, node: Node, place: Place, said: str) -> BadLab:
    where = f"line {line_of(node, place)}: " if place else ""
    return BadLab(f"{path}: {where}{said if len(said) <= MAX_SAID else said[:MAX_SAID] + '…'}")
