"""What a folder of results holds: a matrix of runs, a single run, or what `trust` found."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gradwire.planning.runfiles import BadRun
from gradwire.results import trustresult
from gradwire.results.matrixfile import RESULT, SCHEMA, Matrix, check_schema, matrix_of, read_result
from gradwire.results.trustresult import TrustMatrix


def load_results(folder: Path) -> Matrix | TrustMatrix:
    """Raise BadRun for a folder without results of ours, or with some of another version; OSError."""
    return results_of(folder, read_result(folder))


def results_of(folder: Path, value: dict[str, Any]) -> Matrix | TrustMatrix:
    """What `value`, the content of the folder's `result.json`, is.  Raise BadRun, or OSError."""
    if "schema" in value:
        check_schema(folder / RESULT, value, SCHEMA, trustresult.SCHEMA)
    if value.get("schema") == trustresult.SCHEMA:
        return trustresult.trust_of(folder / RESULT, value)
    return matrix_of(folder, value)


def load_several(folders: Sequence[Path]) -> list[Matrix]:
    """Those of runs.  Raise BadRun, also for a folder of `trust`; OSError."""
    several = []
    for folder in folders:
        results = load_results(folder)
        if isinstance(results, TrustMatrix):
            raise BadRun(folder, "these are results of trust", "give its folder alone")
        several.append(results)
    return several
