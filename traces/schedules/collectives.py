"""Algorithms by collective and name: one table of the built-in ones, and those of installed packages.

docs/collectives.md shows how to write one.
"""

from gradwire.traces import plugins
from gradwire.traces.schedules.algorithm import Algorithm, NotServedError, Servers
from gradwire.traces.schedules.allreduces import ALLREDUCES, FAMILIES
from gradwire.traces.schedules.alltoalls import ALLTOALLS
from gradwire.traces.schedules.halves import ALLGATHERS, REDUCESCATTERS
from gradwire.traces.schedules.kinds import CollectiveKind
from gradwire.traces.schedules.names import algorithm_names, family_of, of_packages
from gradwire.traces.schedules.rooted import BROADCASTS, REDUCES
from gradwire.traces.units import not_one_of


def algorithm(name: str, collective: CollectiveKind = "allreduce") -> Algorithm:
    """The algorithm of this name for this collective.

    Raise NotServedError for one that does another collective, ValueError for a name that neither gradwire nor
    an installed package offers, for values that an algorithm of a family cannot have, or where a package
    offers something else.
    """
    if (collective, name) in BUILT_IN:
        return BUILT_IN[collective, name]
    does = [kind for kind, known in BUILT_IN if known == name]
    if not does and (found := _of_family(name) or _of_package(name)):
        if found.collective == collective:
            return found
        does = [found.collective]
    choices = ", ".join(algorithm_names(collective))
    if does:
        known = " and ".join(filter(None, (", ".join(does[:-1]), does[-1])))
        raise NotServedError(f"{name} does {known}, not {collective}; choose from {choices}")
    raise ValueError(not_one_of("algorithm", name, algorithm_names(collective)))


def servers_of(name: str) -> Servers:
    """The further ranks that an algorithm has (`Algorithm.servers`); 0 for a name that nobody offers.

    Raise ValueError for values that an algorithm of a family cannot have.
    """
    found = _of_family(name) or _of_package(name)
    return found.servers if found else 0


def _of_family(name: str) -> Algorithm | None:
    found = family_of(name)
    return FAMILIES[found[0]](found[1]) if found else None


def _of_package(name: str) -> Algorithm | None:
    packages = of_packages()
    if name not in packages:
        return None
    loaded = plugins.loaded(packages[name])
    if not isinstance(loaded, Algorithm):
        raise ValueError(
            f"algorithm {name!r}: its package must offer an Algorithm, and {packages[name].value} is a "
            f"{type(loaded).__name__}"
        )
    return loaded


BUILT_IN: dict[tuple[CollectiveKind, str], Algorithm] = {
    (each.collective, each.name): each
    for each in (*ALLREDUCES, *REDUCESCATTERS, *ALLGATHERS, *BROADCASTS, *REDUCES, *ALLTOALLS)
}
