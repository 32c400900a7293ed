"""The switch's OpenFlow constants are those that os-ken has."""

from os_ken.ofproto import ofproto_v1_3

from gradwire.emu.switch.wire import constants


def test_every_constant_is_as_in_os_ken() -> None:
    ours = {name: value for name, value in vars(constants).items() if name.isupper()}
    assert len(ours) > 200
    assert ours == {name: getattr(ofproto_v1_3, name) for name in ours}
