"""What made a set of results: the command, when, and by which gradwire."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class About:
    """`command` has the words as they were typed, `began` the time in UTC, like 2026-07-04T10:15:00Z; both
    are empty in files from before they were noted.  `title` and `introduction` are what a report begins with.
    """

    command: tuple[str, ...] = ()
    began: str = ""
    version: str = ""
    title: str = ""
    introduction: tuple[str, ...] = ()
