"""What making another job of a captured one gives."""

from typing import NamedTuple

from gradwire.traces.workload import Workload


class Other(NamedTuple):
    """A job, and in words what was taken for granted to make it, or why it is still the same."""

    workload: Workload
    notes: tuple[str, ...] = ()
