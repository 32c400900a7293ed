"""A paper's claims beside what gradwire measures of them: the commands to run, and the figure they come to.

A paper is a file of `tools/papers`: its claims, and what of it a network laboratory cannot say.  A claim's
figure is computed from what its commands print with `--json`, so that a reader can do the same by hand.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gradwire.traces.complaints import complaint

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
NO_ROOT = ("plan",)  # of the commands that claims may run
NEED_ROOT = ("bench", "replay")
MAX_SEEDS = 25
_TERM = re.compile(r"([a-z][a-z0-9_]*)((?:\.[A-Za-z_]+)+)|(\d+(?:\.\d+)?)")
ClaimVerdict = Literal["holds", "differs", "not valid", "not run"]


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Trial(_Value):
    """A command without `gradwire` and `--json`; `before` are the commands that make its files.

    With more than one of `seeds` all are run with 0, 1, … in place of `{seed}`, and figures are the means.
    """

    command: Annotated[str, Field(pattern=f"^({'|'.join((*NO_ROOT, *NEED_ROOT))}) ")]
    before: tuple[Annotated[str, Field(pattern="^make ")], ...] = ()
    seeds: Annotated[int, Field(ge=1, le=MAX_SEEDS)] = 1

    @property
    def needs_root(self) -> bool:
        return self.command.split()[0] in NEED_ROOT

    @property
    def rounds(self) -> tuple[tuple[str, ...], ...]:
        """For each seed what is run; the last command is the one that prints the figures."""
        each = (*self.before, self.command)
        seeds = map(str, range(self.seeds))
        return tuple(tuple(command.replace("{seed}", seed) for command in each) for seed in seeds)

    @model_validator(mode="after")
    def _check(self) -> "Trial":
        if (self.seeds > 1) != any("{seed}" in command for command in (*self.before, self.command)):
            raise ValueError(f"{self.command!r}: name {{seed}} where there are several seeds, and only there")
        return self


class Claim(_Value):
    """`figure` is a product and quotient of fields of what the trials print, such as `a.bound_s / b.bound_s`.

    It is expected within `expected`, by the closed form or the paper that `because` names.
    """

    says: str
    source: str
    figure: str
    ours: str
    expected: tuple[float, float]
    because: str
    trials: dict[Name, Trial]

    @model_validator(mode="after")
    def _check(self) -> "Claim":
        for term in terms(self.figure):
            if term.trial and term.trial not in self.trials:
                raise ValueError(
                    f"figure {self.figure!r} names {term.trial!r}, which is not one of its trials"
                )
        if not self.expected[0] <= self.expected[1]:
            raise ValueError(f"expected {self.expected}: the first must not be above the second")
        return self

    @property
    def needs_root(self) -> bool:
        return any(trial.needs_root for trial in self.trials.values())


class Paper(_Value):
    """`cannot` are the paper's claims that a network laboratory cannot check, each with the reason."""

    title: str
    reference: str
    about: str
    claims: tuple[Claim, ...]
    cannot: tuple[str, ...]


def read_paper(text: str) -> Paper:
    """Raise ValueError, in one line, for a file that is not a paper's."""
    try:
        return Paper.model_validate(yaml.safe_load(text))
    except ValidationError as error:
        raise ValueError(f"not a paper's file: {complaint(error)}") from error
    except yaml.MarkedYAMLError as error:
        where = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ValueError(f"not valid YAML: {where}{error.problem}") from error


@dataclass(frozen=True, slots=True)
class Term:
    """A number, or the field `path` of what a trial prints; it divides with `divides`."""

    divides: bool
    number: float = 1.0
    trial: str = ""
    path: tuple[str, ...] = ()


def terms(figure: str) -> list[Term]:
    """Raise ValueError for what is not a product and quotient of fields and numbers."""
    words = figure.split()
    if len(words) % 2 == 0 or any(word not in ("*", "/") for word in words[1::2]):
        raise ValueError(f"figure {figure!r}: write fields and numbers with * or / between them")
    found = []
    for operator, word in zip(["*", *words[1::2]], words[::2], strict=True):
        match = _TERM.fullmatch(word)
        if match is None:
            raise ValueError(f"figure {figure!r}: {word!r} is neither TRIAL.FIELD nor a number")
        trial, path, number = match.groups()
        found.append(
            Term(
                operator == "/",
                number=float(number or 1),
                trial=trial or "",
                path=tuple(path[1:].split(".")) if path else (),
            )
        )
    return found


Printed = Mapping[str, Sequence[Mapping[str, Any]]]
"""What the commands of each trial printed, parsed: an object for each."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one claim; `figure` is None where it was not run, or could not be computed: `reasons` say why."""

    claim: Claim
    verdict: ClaimVerdict
    figure: float | None
    reasons: tuple[str, ...] = ()

    @property
    def chip(self) -> str:
        """Its class on the page."""
        return {"holds": "valid", "not run": "refused"}.get(self.verdict, "not-valid")

    def to_json(self) -> dict[str, Any]:
        """As docs/schemas.md, "reproduce --json", says."""
        return {
            **self.claim.model_dump(mode="json"),
            "verdict": self.verdict,
            "value": self.figure,
            "reasons": list(self.reasons),
        }


def judged(claim: Claim, printed: Printed) -> Outcome:
    """The claim's figure, and whether it is as expected."""
    try:
        figure = _figure(claim.figure, printed)
    except ValueError as error:
        return Outcome(claim, "not valid", None, (str(error),))
    if reasons := tuple(dict.fromkeys(_not_valid(printed))):
        return Outcome(claim, "not valid", figure, reasons)
    low, high = claim.expected
    return Outcome(claim, "holds" if low <= figure <= high else "differs", figure)


def not_run(claim: Claim, reason: str) -> Outcome:
    return Outcome(claim, "not run", None, (reason,))


def _figure(figure: str, printed: Printed) -> float:
    value = 1.0
    for term in terms(figure):
        each = mean(_field(one, term) for one in printed[term.trial]) if term.trial else term.number
        if term.divides and not each:
            raise ValueError(f"{term.trial}.{'.'.join(term.path)} is 0")
        value = value / each if term.divides else value * each
    return value


def _field(printed: Mapping[str, Any], term: Term) -> float:
    found: Any = printed
    for key in term.path:
        found = found.get(key) if isinstance(found, Mapping) else None
    if not isinstance(found, int | float) or not math.isfinite(found):
        raise ValueError(f"{term.trial} prints no {'.'.join(term.path)}")
    return float(found)


def _not_valid(printed: Printed) -> list[str]:
    return [
        f"{name}: {reason}"
        for name, results in printed.items()
        for result in results
        if result.get("verdict", "valid") != "valid"
        for reason in result.get("reasons", ())
    ]
