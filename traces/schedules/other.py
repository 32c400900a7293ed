"""A job that was made of a captured one, with notes on what was assumed."""

from typing import NamedTuple

from gradwire.traces.workload import Workload


class Other(NamedTuple):
    """A job, and in words what was taken for granted to make it, or why it is still the same."""

    workload: Workload
    notes: tuple[str, ...] = ()
