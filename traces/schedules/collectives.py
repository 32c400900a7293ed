"""Algorithms by collective and name: one table of the built-in ones, and those of installed packages.

docs/collectives.md shows how to write one.
"""

from gradwire.traces.schedules.algorithm import Algorithm, NotServedError
from gradwire.traces.schedules.allreduces import ALLREDUCES
from gradwire.traces.schedules.kinds import OpKind
from gradwire.traces.schedules.names import algorithm_names, of_packages


def algorithm(name: str, collective: OpKind = "allreduce") -> Algorithm:
    """The algorithm of this name for this collective.

    Raise NotServedError for one that does another collective, ValueError for a name that neither gradwire nor
    an installed package offers, or where a package offers something else.
    """
    if (collective, name) in BUILT_IN:
        return BUILT_IN[collective, name]
    does = [kind for kind, known in BUILT_IN if known == name]
    packages = of_packages()
    if not does and name in packages:
        loaded = packages[name].load()
        if not isinstance(loaded, Algorithm):
            raise ValueError(
                f"algorithm {name!r}: its package must offer an Algorithm, and {packages[name].value} is a "
                f"{type(loaded).__name__}"
            )
        if loaded.collective == collective:
            return loaded
        does = [loaded.collective]
    choices = ", ".join(algorithm_names(collective))
    if does:
        raise NotServedError(f"{name} does {' and '.join(does)}, not {collective}; choose from {choices}")
    raise ValueError(f"there is no algorithm {name!r}; choose from {choices}")


BUILT_IN: dict[tuple[OpKind, str], Algorithm] = {
    (each.collective, each.name): each for each in (*ALLREDUCES,)
}
