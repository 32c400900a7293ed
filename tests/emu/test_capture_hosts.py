"""What a captured program learns of where it runs."""

from pathlib import Path

from gradwire.emu.capturing import hosts
from gradwire.planning.fabrics.spec import parse_fabric

FABRIC = parse_fabric("star:hosts=3,rate=10G")
FOLDER = Path("/captures/one")


def test_a_rank_finds_its_master_its_name_and_its_interface() -> None:
    environment = hosts.rank_environment(FABRIC, FABRIC.hosts, 2, FOLDER, {"HOME": "/root"})
    assert environment["HOME"] == "/root"
    assert (environment["RANK"], environment["WORLD_SIZE"], environment["LOCAL_RANK"]) == ("2", "3", "0")
    assert environment["MASTER_ADDR"] == FABRIC.ip("h0")
    assert environment["GRADWIRE_ADDRESS"] == FABRIC.ip("h2")
    assert environment["GLOO_SOCKET_IFNAME"] == "h2-eth0"
    assert environment["GRADWIRE_HOSTS"] == "h0,h1,h2"
    assert environment["GRADWIRE_LOG"] == "/captures/one/log.r2.json"


def test_a_program_keeps_the_users_own_python_path() -> None:
    environment = hosts.rank_environment(FABRIC, FABRIC.hosts, 0, FOLDER, {"PYTHONPATH": "/mine:lib"})
    assert environment["PYTHONPATH"] == "/mine:lib"
    assert "PYTHONPATH" not in hosts.rank_environment(FABRIC, FABRIC.hosts, 0, FOLDER, {})


def test_every_host_has_a_name_also_for_a_socket_that_speaks_both_families() -> None:
    lines = hosts.names_text(FABRIC, "machine").splitlines()
    for host in FABRIC.hosts:
        assert f"{FABRIC.ip(host)} {host}" in lines
        assert f"::ffff:{FABRIC.ip(host)} {host}" in lines
    assert "127.0.0.1 localhost" in lines


def test_a_program_runs_under_its_hosts_name_with_its_words_unchanged() -> None:
    command = hosts.on_host("h1", 42, ("echo", "a b", "$HOME"))
    assert command[:2] == ["nsenter", "--net=/proc/42/ns/net"]
    assert command[-4:] == ["h1", "echo", "a b", "$HOME"]
