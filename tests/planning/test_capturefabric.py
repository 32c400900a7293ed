"""The rates of a capture's fabric come from the manifest of `capture`, and from nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest

from gradwire.emu.capturing import manifest
from gradwire.emu.disturbance import MAX_CPU_BESIDE, MAX_CPU_STOLEN
from gradwire.planning.capturefabric import (
    MAX_CPU_SHARE,
    SCHEMA,
    capture_fabric,
    had_company,
    manifest_notes,
    rates_of,
    stale_manifest,
)
from gradwire.traces.analysis.linerate import FabricRates
from gradwire.traces.trace import CaptureFile


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


def of_a_file(first_s: float, last_s: float) -> CaptureFile:
    times_ns = int(first_s * 1e9), int(last_s * 1e9)
    return CaptureFile(
        Path("h0.pcap"), "h0", 10, 1000, *times_ns, truncated=False, snaplen=0, snapped=0, dropped=0
    )


def test_a_manifest_is_of_other_captures_if_no_file_has_a_packet_from_its_time(tmp_path: Path) -> None:
    folder = write(tmp_path, started_ns=1000 * 10**9, seconds=20.0)
    theirs, others = of_a_file(1005, 1015), of_a_file(1030, 1040)
    assert stale_manifest([folder], [theirs, others]) == ""
    assert capture_fabric([folder], [theirs, others]) is not None  # one clock may be off
    assert "manifest.json is of another capture" in stale_manifest([folder], [others, of_a_file(900, 999)])
    assert capture_fabric([folder], [others]) is None
    assert stale_manifest([write(tmp_path)], [others]) == ""  # it does not say when


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"cpu_beside": 0.8}, "other programs used 80% of the processors"),
        ({"cpu_stolen": 0.3}, "other guests of the machine's host used 30% of the processors"),
        ({"cut_short": "interrupted"}, "the job was cut short"),
        ({"check_times": {"agrees": False}}, "not those of the job's logs"),
        ({"check": {"agrees": False}}, "not what the job logged"),
        ({"check_trimmed": {"agrees": False}}, "not read as the whole packets were"),
    ],
)
def test_what_capture_found_wrong_with_its_times_is_said(
    tmp_path: Path, found: dict[str, object], said: str
) -> None:
    (doubt,) = manifest_notes([write(tmp_path, **found)], [])
    assert said in doubt


def test_a_good_capture_and_values_that_are_none_raise_no_doubt(tmp_path: Path) -> None:
    good = {"cpu_beside": 0.02, "cpu_stolen": 0.0, "cut_short": None, "check_times": {"agrees": True}}
    assert manifest_notes([write(tmp_path, **good)], []) == ()
    assert manifest_notes([write(tmp_path, check_times=7, check=[], check_trimmed=None)], []) == ()


@pytest.mark.parametrize("value", ["much", [], True, -1, 10**400, float("nan"), float("inf")])
@pytest.mark.parametrize("key", ["cpu_beside", "cpu_stolen", "started_ns", "seconds"])
def test_numbers_that_cannot_be_say_nothing(tmp_path: Path, key: str, value: object) -> None:
    whole: dict[str, object] = {"started_ns": 10**18, "seconds": 20.0}
    folder = write(tmp_path, **{**whole, key: value})
    files = [of_a_file(10**9 + 1, 10**9 + 2)]
    assert manifest_notes([folder], files) == ()
    assert capture_fabric([folder], files) is not None


def test_shares_of_the_processors_are_doubted_from_where_capture_does() -> None:
    assert MAX_CPU_SHARE == MAX_CPU_STOLEN == MAX_CPU_BESIDE


def test_jobs_beside_the_captured_one_are_known_from_the_manifest(tmp_path: Path) -> None:
    assert not had_company([tmp_path])
    assert not had_company([write(tmp_path, beside=[])])
    assert had_company([write(tmp_path, beside=["ddp-mlp"])])
