"""An aggregation job of three hosts at one switch, sent to the switch agent by OpenFlow."""

import json
import subprocess
import sys
from typing import Any

import pytest
from os_ken.ofproto import ofproto_v1_3 as ofp
from os_ken.ofproto import ofproto_v1_3_parser as parser

from gradwire.emu.switch.running import ports_file
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.planning.losses import Loss
from gradwire.planning.openflow.entries import Aggregate
from gradwire.planning.openflow.extension import COUNTS_TYPE, EXPERIMENTER, action, read_job_counts
from gradwire.planning.openflow.pool import Event
from tests.made_rules import DATAPATH, serialized
from tests.real import lab
from tests.real.inside import inside
from tests.real.speaker import Speaker
from tests.real.test_switch import scratch
from tests.real.timely import PATIENCE_S

pytestmark = [pytest.mark.real, pytest.mark.untimed]

FABRIC = parse_fabric("star:hosts=3,rate=100M")
UDP_PORT, JOB, EPOCH = 0xBEE7, 9, 4
N_CHUNKS, N_ELEMENTS = 20, 256
PORTS = (1, 2, 3)
# Chunk by chunk, each after the result of the one before.
HOST = """
import json, socket, struct, sys
from gradwire.traces.framing.aggregation import Header, PacketKind, decode, encode, HEADER_NBYTES
weight, udp_port, job, epoch, n_chunks, n, patience_s = json.loads(sys.argv[1])
link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
link.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
link.bind(("10.0.255.255", udp_port))
link.connect(("10.0.255.254", udp_port))
link.settimeout(patience_s)
sums = []
print("ready", flush=True)
sys.stdin.readline()
for chunk in range(n_chunks):
    header = encode(Header(PacketKind.CONTRIBUTION, job, epoch, n, chunk, peak=weight))
    values = struct.pack(f"!{n}i", *(weight * (chunk - 7) * (i + 1) for i in range(n)))
    for _ in range(60):
        link.send(header + values)
        try:
            while True:
                octets = link.recv(9000)
                said = decode(octets)
                if said.kind == PacketKind.RESULT and said.chunk == chunk:
                    break
        except TimeoutError:
            continue
        sums.append([said.peak, struct.unpack(f"!{said.count}i", octets[HEADER_NBYTES:])])
        break
    else:
        break
print(json.dumps(sums), flush=True)
"""


def statistics(speaker: Speaker, job: int = JOB) -> list[tuple[int, int]]:
    """The rules of the three children; the errors (type, code) in answer."""
    for child, port in enumerate(PORTS):
        rule = Aggregate(job, EPOCH, child, 4, N_ELEMENTS, None, PORTS, gives=0b111, takes=0b111)
        adds = parser.OFPActionExperimenterUnknown(EXPERIMENTER, action(rule)[8:])
        match = parser.OFPMatch(in_port=port, eth_type=0x0800, ip_proto=17, udp_dst=UDP_PORT)
        instructions = [parser.OFPInstructionActions(ofp.OFPIT_APPLY_ACTIONS, [adds])]
        speaker.send(
            serialized(parser.OFPFlowMod(DATAPATH, priority=400, match=match, instructions=instructions), 1)
        )
    return [(error.type, error.code) for error in speaker.barrier()]


def counted(speaker: Speaker) -> list[dict[Event, int]]:
    request = parser.OFPExperimenterStatsRequest(DATAPATH, 0, EXPERIMENTER, COUNTS_TYPE, b"")
    (body,) = speaker.ask(request)
    return [{**job.counts} for job in read_job_counts(body.data)]


def sums(patience_s: float, n_chunks: int) -> list[Any]:
    """What each host has got, (peak, elements) per chunk."""
    hosts = []
    for weight, host in enumerate(FABRIC.hosts, start=1):
        lab.run(*lab.on(host, "ip", "neigh", "replace", "10.0.255.254", "lladdr", "02:00:0a:00:ff:fe", "dev",
                        f"{host}-eth0"))  # fmt: skip
        given = [weight, UDP_PORT, JOB, EPOCH, n_chunks, N_ELEMENTS, patience_s]
        command = lab.on(host, sys.executable, "-c", HOST, json.dumps(given))
        hosts.append(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        )
    for process in hosts:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    for process in hosts:
        assert process.stdin
        process.stdin.write("go\n")
    return [json.loads(process.communicate(timeout=2 * PATIENCE_S)[0]) for process in hosts]


def added_up(ratio: float, patience_s: float) -> dict[str, Any]:
    """`ratio` of the packets of the first host's cable are lost, each way."""
    found: dict[str, Any] = {}
    host = FABRIC.hosts[0]
    with scratch() as folder:
        lab.cable_up(FABRIC)
        end = next(end for end in FABRIC.peers if end.node == host)
        lossy = [Loss(each, ratio) for each in (end, FABRIC.peers[end]) if ratio]
        (folder / "ports.json").write_text(json.dumps(ports_file(FABRIC, lossy, loss_seed=1)))
        speaker = Speaker(lab.OPENFLOW_PORT)
        with lab.running(lab.agent_command(folder, "--slots", "4"), folder / "agent.log") as agent:
            agent.await_line("attached")
            speaker.accept()
            found["refused"] = [statistics(speaker), statistics(speaker, JOB + 1)]
            found["sums"] = sums(patience_s, N_CHUNKS)
            found["counted"] = counted(speaker)
            request = parser.OFPPortStatsRequest(DATAPATH, 0, ofp.OFPP_ANY)
            found["dropped"] = {p.port_no: [p.rx_dropped, p.tx_dropped] for p in speaker.ask(request)}
            speaker.send(
                serialized(
                    parser.OFPFlowMod(
                        DATAPATH, command=ofp.OFPFC_DELETE, out_port=ofp.OFPP_ANY, out_group=ofp.OFPG_ANY
                    ),
                    2,
                )
            )
            speaker.barrier()
            found["counted afterwards"] = counted(speaker)
            assert statistics(speaker) == []
            found["counted again"] = [set(counts.values()) == {0} for counts in counted(speaker)]
            speaker.close()
    return found


def expected() -> list[Any]:
    """Weights 1, 2, 3: six times the element; the largest peak is 3."""
    chunks = [[3, [6 * (chunk - 7) * (i + 1) for i in range(N_ELEMENTS)]] for chunk in range(N_CHUNKS)]
    return [chunks] * 3


def test_a_switch_adds_up_what_its_controller_tells_it_to() -> None:
    found = inside(added_up, 0, PATIENCE_S)
    no_room = [ofp.OFPET_FLOW_MOD_FAILED, ofp.OFPFMFC_TABLE_FULL]
    assert found["refused"] == [[], [no_room] * 3]
    assert found["sums"] == expected()
    (counts,) = found["counted"]
    n = 3 * N_CHUNKS
    assert (counts["contributions"], counts["added"]) == (n, n)
    assert (counts["completed"], counts["results"]) == (N_CHUNKS, n)
    assert sum(counts.values()) == 3 * n + N_CHUNKS  # and nothing else
    assert found["dropped"] == {"1": [0, 0], "2": [0, 0], "3": [0, 0]}
    assert found["counted afterwards"] == []
    assert found["counted again"] == [True]


def test_what_a_cable_loses_is_sent_again_and_the_sums_are_right() -> None:
    found = inside(added_up, 0.3, 0.05)
    assert found["sums"] == expected()
    (counts,) = found["counted"]
    assert (counts["added"], counts["completed"]) == (3 * N_CHUNKS, N_CHUNKS)
    assert counts["duplicates"] > 0
    lost_in, lost_out = found["dropped"]["1"]
    assert lost_in > 0
    assert lost_out > 0
    assert found["dropped"]["2"] == found["dropped"]["3"] == [0, 0]
