"""Which options of a command are on the command line, and the errors for those that would be ignored."""

from collections.abc import Collection, Mapping, Sequence

import typer


def is_given(context: typer.Context, name: str) -> bool:
    """Whether the option of the parameter `name` is on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def option_of(context: typer.Context, name: str) -> str:
    """The option of the parameter `name`, as it is typed: `--per-layer` if `packed` is off."""
    parameter = next(each for each in context.command.params if each.name == name)
    is_off = parameter.secondary_opts and context.params.get(name) is False
    names = parameter.secondary_opts if is_off else parameter.opts
    return next((name for name in names if name.startswith("--")), names[0])


def refuse_foreign(context: typer.Context, kind: str, belongs: Mapping[str, Collection[str]]) -> None:
    """Raise ValueError for an option that `kind` would ignore; `belongs` has the kinds of each parameter."""
    for name, kinds in belongs.items():
        if kind not in kinds and is_given(context, name):
            raise ValueError(
                f"{option_of(context, name)} does not apply to {kind}, only to {' and '.join(sorted(kinds))}"
            )


def refuse_given(context: typer.Context, names: Sequence[str], why: str) -> None:
    """Raise ValueError for any of these options, by their parameters' names, on the command line."""
    for name in names:
        if is_given(context, name):
            raise ValueError(f"{option_of(context, name)}: {why}; leave it out")
