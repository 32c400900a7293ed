"""Options are the fields of the classes of choices: no list of their names is kept anywhere else."""

import inspect
import re
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, get_args

import pytest
import typer
from typer.testing import CliRunner

from gradwire.planning.experiment import Experiment
from gradwire.tools.cli import application, load
from gradwire.tools.options.choices import (
    MatrixChoices,
    NetworkChoices,
    RunChoices,
    TrafficChoices,
    refuse_planned,
)
from gradwire.tools.options.fields import takes_choices
from gradwire.traces.making.collectives import made_allreduce

PLANNED = (MatrixChoices, NetworkChoices, TrafficChoices)
OF = {"plan": PLANNED, "replay": (*PLANNED, RunChoices), "bench": (MatrixChoices, NetworkChoices, RunChoices)}


class Given:
    """A context of Typer's with one parameter of `replay` on the command line."""

    command = typer.main.get_command(application("replay")).commands["replay"]  # type: ignore[attr-defined]
    params: ClassVar[dict[str, Any]] = {}

    def __init__(self, name: str) -> None:
        self._name = name

    def get_parameter_source(self, name: str) -> Any:
        return SimpleNamespace(name="COMMANDLINE" if name == self._name else "DEFAULT")


@pytest.mark.parametrize("command", OF)
def test_a_command_has_the_fields_of_its_choices_as_options(command: str) -> None:
    parameters = inspect.signature(load(command)).parameters
    wanted = {each.name for choices in OF[command] for each in fields(choices)}
    assert wanted <= set(parameters)
    assert not {"matrix", "network", "traffic", "run"} & set(parameters)


@pytest.mark.parametrize("name", [each.name for choices in PLANNED for each in fields(choices)])
def test_what_a_plan_file_has_decided_is_refused_beside_it(name: str) -> None:
    with pytest.raises(ValueError, match=f"--{name.replace('_', '-')} is fixed in a.json"):
        refuse_planned(Given(name), Path("a.json"))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [each.name for each in fields(RunChoices)])
def test_how_a_plan_is_carried_out_can_be_chosen_beside_it(name: str) -> None:
    refuse_planned(Given(name), Path("a.json"))  # type: ignore[arg-type]


def test_what_happens_on_the_network_becomes_part_of_the_experiment() -> None:
    experiment = Experiment(made_allreduce(4, 4000), "test")
    chosen = NetworkChoices(seed=7, fail=["leaf0-spine1@0.5"], switch_slots=64)
    assert chosen.on(experiment) == replace(experiment, seed=7, fail=("leaf0-spine1@0.5",), switch_slots=64)
    assert NetworkChoices().on(experiment) == experiment


def test_the_named_tensors_become_the_keys_of_the_experiment(tmp_path: Path) -> None:
    experiment = Experiment(made_allreduce(4, 400), "test")
    (tmp_path / "keys").write_text("weight 60\nbias 40\n")
    assert NetworkChoices(keys=str(tmp_path / "keys")).on(experiment) == replace(experiment, keys=(60, 40))
    assert len(NetworkChoices(keys="resnet50").on(experiment).keys) == 161


def test_plan_takes_as_many_of_what_makes_a_matrix_as_replay() -> None:
    in_plan, in_replay = (inspect.signature(load(name)).parameters for name in ("plan", "replay"))
    for name in ("fabric", "algorithm", "placement", "routes"):
        kind, option = get_args(in_plan[name].annotation)
        assert (kind, option.help.split("\n")[0].endswith(" Repeatable.")) == (list[str], True)
        assert in_plan[name].default == in_replay[name].default


def test_a_pace_and_a_delay_are_checked_when_they_become_part_of_the_experiment() -> None:
    experiment = Experiment(made_allreduce(4, 4000), "test")
    chosen = NetworkChoices(pace="step", send_delay="0.5ms").on(experiment)
    assert chosen == replace(experiment, pace="step", send_delay_ns=500_000)
    assert NetworkChoices(send_delay="10s").on(experiment).send_delay_ns == 10**10
    for choices, reason in (
        (NetworkChoices(pace="late"), "there is no pace 'late'; choose from early, step"),
        (NetworkChoices(send_delay="10.1s"), "a send's delay can be at most 10s, got 10100ms"),
        (NetworkChoices(send_delay="50"), "'50' is not a time: write it like 10us or 1ms"),
        (NetworkChoices(send_delay="-1ms"), "'-1ms' is not a time"),
    ):
        with pytest.raises(ValueError, match=re.escape(reason)):
            choices.on(experiment)


@dataclass(frozen=True)
class Dummy:
    dummy: str = "nothing"


def test_a_new_field_is_a_new_option() -> None:
    """The dummy option of CONTRIBUTING: one field, and the command has it."""
    app = typer.Typer()

    @app.command()
    @takes_choices
    def show(word: str, choices: Dummy = Dummy()) -> None:
        print(word, choices.dummy)

    assert CliRunner().invoke(app, ["a"]).stdout == "a nothing\n"
    assert CliRunner().invoke(app, ["a", "--dummy", "b"]).stdout == "a b\n"


def test_choices_that_a_dict_names_are_handed_over_by_their_names() -> None:
    """As `make` has its kinds."""
    app = typer.Typer()

    @app.command()
    @takes_choices
    def show(named: dict[str, Dummy] = {"a": Dummy("other")}) -> None:  # noqa: B006
        print({name: choices.dummy for name, choices in named.items()})

    assert CliRunner().invoke(app, []).stdout == "{'a': 'other'}\n"
    assert CliRunner().invoke(app, ["--dummy", "b"]).stdout == "{'a': 'b'}\n"


def test_a_job_with_other_ranks_or_buckets_is_not_the_captured_one() -> None:
    assert not TrafficChoices(iteration=["2"]).changes_job
    assert TrafficChoices(scale_ranks=8).changes_job
    assert TrafficChoices(bucket_size="25MiB").changes_job
    chosen = TrafficChoices(scale_ranks=8).experiment(made_allreduce(4, 4000), [Path("a")], NetworkChoices())
    assert chosen.workload.n_ranks == chosen.n_ranks == 8
    assert len(chosen.assumptions) == 1


@pytest.mark.parametrize(
    ("ina", "algorithms"),
    [("off", ["ring"]), ("on", ["ina"]), ("off,on", ["ring", "ina"]), ("leaf, on", ["ina:leaf", "ina"])],
)
def test_ina_adds_to_the_algorithms_or_takes_their_place(ina: str, algorithms: list[str]) -> None:
    assert MatrixChoices(algorithm=["ring"], ina=ina).algorithms() == algorithms


def test_another_word_for_ina_is_refused() -> None:
    with pytest.raises(ValueError, match="'of' is not off, on or leaf"):
        MatrixChoices(ina="of").algorithms()
