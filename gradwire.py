"""gradwire in Python: read captures, inspect them, plan, read runs.  docs/api.md shows how.

In a checkout this file is the package `gradwire`, and the folders beside it are its subpackages; a wheel has
it as `gradwire/__init__.py`, with the same folders beside it (pyproject.toml).
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradwire.planning.fabrics.fabric import Fabric
    from gradwire.planning.fabrics.spec import parse_fabric
    from gradwire.planning.model.expected import foreseen
    from gradwire.planning.plan import BadPlan, Plan
    from gradwire.planning.refused import Refused
    from gradwire.planning.runfiles import BadRun
    from gradwire.results.api import (
        Inspection,
        compare,
        extract,
        flows,
        inspect,
        link_loads,
        load_plan,
        load_workload,
        plan,
        read_packets,
        read_results,
        read_run,
        runs,
        save_plan,
        save_workload,
    )
    from gradwire.results.runtables import Results, Run
    from gradwire.traces.packets.packets import BadCapture
    from gradwire.traces.recognition.ranks import BadTrace
    from gradwire.traces.workload import BadWorkload, Workload

__path__ = [str(Path(__file__).parent)]
__version__ = "0.1.0"
__all__ = [
    "BadCapture",
    "BadPlan",
    "BadRun",
    "BadTrace",
    "BadWorkload",
    "Fabric",
    "Inspection",
    "Plan",
    "Refused",
    "Results",
    "Run",
    "Workload",
    "compare",
    "extract",
    "flows",
    "foreseen",
    "inspect",
    "link_loads",
    "load_plan",
    "load_workload",
    "parse_fabric",
    "plan",
    "read_packets",
    "read_results",
    "read_run",
    "runs",
    "save_plan",
    "save_workload",
]

_PLACES = {  # of those that are not in results/api.py
    "BadCapture": "traces.packets.packets",
    "BadPlan": "planning.plan",
    "BadRun": "planning.runfiles",
    "BadTrace": "traces.recognition.ranks",
    "BadWorkload": "traces.workload",
    "Fabric": "planning.fabrics.fabric",
    "Plan": "planning.plan",
    "Refused": "planning.refused",
    "Results": "results.runtables",
    "Run": "results.runtables",
    "Workload": "traces.workload",
    "foreseen": "planning.model.expected",
    "parse_fabric": "planning.fabrics.spec",
}
COMMAND = "./gradwire" if Path(__file__).name == "gradwire.py" else "gradwire"  # in a checkout; installed


def __getattr__(name: str) -> Any:
    """Of `__all__`, imported when it is first asked for: the command line needs little of it."""
    if name not in __all__:
        raise AttributeError(f"module 'gradwire' has no attribute {name!r}")
    return getattr(import_module(f"gradwire.{_PLACES.get(name, 'results.api')}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]


if __name__ == "__main__":  # python -m gradwire in a checkout
    import_module("gradwire.tools.__main__").run()
