"""A learning switch as in os-ken's and Ryu's manuals (simple_switch_13), and the two lines that start it."""

import os
import signal
from typing import Any

from os_ken import cfg
from os_ken.base.app_manager import AppManager, OSKenApp
from os_ken.controller import ofp_event
from os_ken.controller.handler import CONFIG_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from os_ken.lib import hub
from os_ken.lib.packet import ethernet, packet
from os_ken.ofproto import ofproto_v1_3


class LearningSwitch(OSKenApp):  # type: ignore[misc]
    """Learns where each address is, floods what it does not know."""

    OFP_VERSIONS = (ofproto_v1_3.OFP_VERSION,)

    def __init__(self, *arguments: Any, **contexts: Any) -> None:
        super().__init__(*arguments, **contexts)
        self.port_of: dict[int, dict[str, int]] = {}

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)  # type: ignore[untyped-decorator]
    def on_features(self, event: Any) -> None:
        datapath = event.msg.datapath
        ofp, parser = datapath.ofproto, datapath.ofproto_parser
        to_us = [parser.OFPActionOutput(ofp.OFPP_CONTROLLER, ofp.OFPCML_NO_BUFFER)]
        self.add(datapath, 0, parser.OFPMatch(), to_us)

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)  # type: ignore[untyped-decorator]
    def on_packet(self, event: Any) -> None:
        message = event.msg
        datapath = message.datapath
        ofp, parser = datapath.ofproto, datapath.ofproto_parser
        in_port = message.match["in_port"]
        frame = packet.Packet(message.data).get_protocols(ethernet.ethernet)[0]
        known = self.port_of.setdefault(datapath.id, {})
        known[frame.src] = in_port
        out_port = known.get(frame.dst, ofp.OFPP_FLOOD)
        actions = [parser.OFPActionOutput(out_port)]
        if out_port != ofp.OFPP_FLOOD:
            match = parser.OFPMatch(in_port=in_port, eth_dst=frame.dst, eth_src=frame.src)
            self.add(datapath, 1, match, actions)
        datapath.send_msg(
            parser.OFPPacketOut(
                datapath=datapath,
                buffer_id=ofp.OFP_NO_BUFFER,
                in_port=in_port,
                actions=actions,
                data=message.data,
            )
        )

    def add(self, datapath: Any, priority: int, match: Any, actions: list[Any]) -> None:
        parser = datapath.ofproto_parser
        apply = parser.OFPInstructionActions(datapath.ofproto.OFPIT_APPLY_ACTIONS, actions)
        datapath.send_msg(
            parser.OFPFlowMod(datapath=datapath, priority=priority, match=match, instructions=[apply])
        )


def main() -> None:
    cfg.CONF(args=[], project="os_ken", default_config_files=[])
    cfg.CONF.set_override("ofp_listen_host", "127.0.0.1")
    cfg.CONF.set_override("ofp_tcp_listen_port", 6653)
    manager = AppManager.get_instance()
    manager.load_apps(["os_ken.controller.ofp_handler"])
    manager.instantiate(LearningSwitch).start()
    hub.joinall(manager.instantiate_apps())


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # os-ken's threads never end
    main()
