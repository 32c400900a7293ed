"""The rank of each address, as a person wrote it: `trace.yaml` beside the captures, or a file like it.

An edge module: it reads files.
"""

from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gradwire.traces.files import read_at_most
from gradwire.traces.recognition.ranks import BadTrace

SETTINGS = "trace.yaml"
MAX_SETTINGS_NBYTES = 1 << 20


class Settings(BaseModel):
    """What `trace.yaml` may say."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    ranks: dict[IPv4Address | IPv6Address, Annotated[int, Field(ge=0)]] = {}


def read_settings(path: Path) -> dict[str, int]:
    """The ranks that a file like trace.yaml gives, by address."""
    import yaml  # slow to import, and few captures have such a file

    octets = read_at_most(path, MAX_SETTINGS_NBYTES)
    if len(octets) > MAX_SETTINGS_NBYTES:
        raise BadTrace(
            f"{path}: it is larger than the {MAX_SETTINGS_NBYTES >> 20} MiB that a rank map may have"
        )
    try:
        settings = Settings.model_validate(yaml.safe_load(octets) or {})
    except (yaml.YAMLError, ValidationError) as error:
        raise BadTrace(f"{path}: not a rank map: write `ranks: {{10.0.0.1: 0, 10.0.0.2: 1}}`") from error
    return {str(address): rank for address, rank in settings.ranks.items()}
