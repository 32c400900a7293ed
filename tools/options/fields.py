"""Makes a command's options of dataclasses of choices: each field of a parameter's default is one."""

import copy
import functools
import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, get_args, get_origin


def takes_choices(command: Callable[..., None]) -> Callable[..., None]:
    """`command` as Typer reads it: each parameter whose default has choices gives way to the choices' fields.

    The options' defaults are the values there.  A parameter whose default is a dict of choices gets the same
    names with the choices that were made.
    """
    own = inspect.signature(command)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for name, parameter in own.parameters.items():
        if isinstance(parameter.default, dict):
            groups[name] = parameter.default
            parameters += [option for each in parameter.default.values() for option in _options(each)]
        elif is_dataclass(parameter.default):
            groups[name] = parameter.default
            parameters += _options(parameter.default)
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def call(**given: Any) -> None:
        def chosen(default: Any) -> Any:
            return type(default)(**{each.name: given.pop(each.name) for each in fields(default)})

        for name, group in groups.items():
            several = isinstance(group, dict)
            given[name] = {key: chosen(each) for key, each in group.items()} if several else chosen(group)
        command(**given)

    call.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    return call


def defaults_of(command: Callable[..., None]) -> dict[type, Any]:
    """The choices that a command takes, each class with the defaults that they have there."""
    own = inspect.signature(inspect.unwrap(command), follow_wrapped=False)
    defaults = [each.default for each in own.parameters.values()]
    return {type(default): default for default in defaults if is_dataclass(default)}


def _options(choices: Any) -> list[inspect.Parameter]:
    """A parameter for each field, with the value there as default."""
    options = []
    for each in fields(choices):
        annotation, default = each.type, getattr(choices, each.name)
        if isinstance(default, list):
            annotation = _annotation_of_list(each.type, default)
        options.append(
            inspect.Parameter(
                each.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
            )
        )
    return options


def _annotation_of_list(annotation: Any, default: list[Any]) -> Any:
    """With the words that it may be repeated."""
    assert get_origin(annotation) is Annotated
    kind, option = get_args(annotation)
    option = copy.copy(option)
    if not default:
        option.show_default = False
    does, *lines = option.help.split("\n")
    option.help = "\n".join([f"{does} Repeatable.", *lines])
    return Annotated[kind, option]
