"""The commands that Open vSwitch gets for a fabric; that it obeys is shown in tests/real/test_switch.py."""

from pathlib import Path

import pytest

from gradwire.emu.switch.ovs import OvsError, bridges, running_ovs
from gradwire.planning.fabrics.fabric import interface
from gradwire.planning.fabrics.spec import parse_fabric


def test_every_bridge_has_its_dpid_and_every_port_its_number() -> None:
    fabric = parse_fabric("fat-tree:k=4")
    commands = " ".join(bridges(fabric, "netdev", 6653)).split(" -- ")
    for switch in fabric.switches:
        (settings,) = [c for c in commands if c.startswith(f"set bridge {switch} ")]
        assert f"other-config:datapath-id={fabric.dpid(switch):016x}" in settings
        assert "protocols=OpenFlow13 fail_mode=secure" in settings
        assert f"set-controller {switch} tcp:127.0.0.1:6653" in commands
        for port in fabric.ports[switch]:
            name = interface(switch, port)
            assert f"add-port {switch} {name}" in commands
            assert f"set interface {name} ofport_request={port}" in commands


def test_a_folder_whose_name_is_too_long_for_a_socket_is_refused(tmp_path: Path) -> None:
    fabric = parse_fabric("star:hosts=2")
    with (
        pytest.raises(OvsError, match="too long for a socket"),
        running_ovs(fabric, tmp_path / ("x" * 99), 1),
    ):
        pass
