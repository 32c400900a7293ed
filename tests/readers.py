"""Has os-ken read messages as it does for the controller's app, within one test."""

import pytest

from gradwire.controller.experimenter import use_whole_parts
from gradwire.controller.readback import FlowStats
from gradwire.controller.ryu_api import parser


def read_statistics_as_the_app(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parser.OFPFlowStatsReply, "cls_stats_body_cls", FlowStats)
    reply = parser.OFPExperimenterStatsReply  # so that they are what they were afterwards
    monkeypatch.setattr(reply, "cls_stats_body_cls", reply.cls_stats_body_cls)
    monkeypatch.setattr(reply, "cls_body_single_struct", reply.cls_body_single_struct)
    use_whole_parts()
