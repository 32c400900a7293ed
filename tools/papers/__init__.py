"""The papers whose claims `gradwire reproduce` checks: a YAML file each, beside this one."""

from pathlib import Path

FOLDER = Path(__file__).parent
PAPERS = tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))
