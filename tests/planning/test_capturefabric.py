"""The rates of a capture's fabric come from the manifest of `capture`, and from nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest

from gradwire.emu.capturing import manifest
from gradwire.planning.capturefabric import SCHEMA, capture_fabric, had_company, rates_of
from gradwire.traces.analysis.linerate import FabricRates


def test_the_schema_is_the_one_that_capture_writes() -> None:
    assert SCHEMA == manifest.SCHEMA


def fabric_rates(paths: list[Path]) -> FabricRates | None:
    fabric = capture_fabric(paths)
    return None if fabric is None else rates_of(fabric)


def write(folder: Path, **values: Any) -> Path:
    made = {"schema": "gradwire.capture/1", "fabric": "star:hosts=4,rate=60M", **values}
    (folder / "manifest.json").write_text(json.dumps(made))
    return folder


def test_the_hosts_links_and_all_links_are_known(tmp_path: Path) -> None:
    spec = "leaf-spine:leaves=2,spines=1,hosts=2,rate=80M,uplink_rate=30M"
    folder = write(tmp_path, fabric=spec)
    known = FabricRates(4, 80_000_000, (30_000_000, 80_000_000))
    assert fabric_rates([folder]) == known
    assert fabric_rates([folder / "h0.pcap", folder / "h1.pcap"]) == known


def test_other_manifests_none_and_several_folders_say_nothing(tmp_path: Path) -> None:
    assert fabric_rates([tmp_path]) is None
    assert fabric_rates([write(tmp_path, schema="gradwire.manifest/1")]) is None
    (tmp_path / "other").mkdir()
    write(tmp_path)
    assert fabric_rates([tmp_path]) is not None
    assert fabric_rates([tmp_path, tmp_path / "other"]) is None


@pytest.mark.parametrize("fabric", ["star:hosts=0", "nonsense", None, 7, {"hosts": 1}, "/etc/fabric.yaml"])
def test_a_fabric_that_is_none_is_refused_by_name(tmp_path: Path, fabric: object) -> None:
    with pytest.raises(ValueError, match=r"manifest\.json: its fabric cannot be used: "):
        fabric_rates([write(tmp_path, fabric=fabric)])


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "\udcff"])
def test_what_is_not_json_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ValueError, match=r"manifest\.json: not valid JSON"):
        fabric_rates([tmp_path])


def test_jobs_beside_the_captured_one_are_known_from_the_manifest(tmp_path: Path) -> None:
    assert not had_company([tmp_path])
    assert not had_company([write(tmp_path, beside=[])])
    assert had_company([write(tmp_path, beside=["ddp-mlp"])])
