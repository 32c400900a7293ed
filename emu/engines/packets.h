// What a fabric of ours has and ns-3 has not: frames of Ethernet's length on point-to-point links, queues that let
// pure ACKs pass, and switches that send each flow where its plan says.
#pragma once
#include "progress.h"
#include <ns3/core-module.h>
#include <ns3/internet-module.h>
#include <ns3/network-module.h>
#include <ns3/point-to-point-net-device.h>
#include <unordered_map>

using namespace ns3;

constexpr uint32_t ETHERNET_NBYTES = 14, PPP_NBYTES = 2, IPV4_NBYTES = 20, TCP_LEAST_NBYTES = 20, TCP_MOST_NBYTES = 60;

inline uint32_t number_at(const uint8_t *octets)
{
	return uint32_t(octets[0]) << 24 | octets[1] << 16 | octets[2] << 8 | octets[3];
}

// The addresses of a flow, and its ports.
using Tuple = std::pair<uint64_t, uint32_t>;
struct TupleHash {
	size_t operator()(const Tuple &tuple) const
	{
		return std::hash<uint64_t>()((tuple.first ^ tuple.second) * 0x9E3779B97F4A7C15);
	}
};
inline Tuple tuple_of(uint32_t from, uint32_t to, uint32_t sport, uint32_t dport)
{
	return {uint64_t(from) << 32 | to, sport << 16 | dport};
}

// The first bytes of an IPv4 packet without options, and of TCP in it.
struct Head {
	uint8_t octets[IPV4_NBYTES + TCP_LEAST_NBYTES];
	Tuple tuple() const
	{
		return {uint64_t(number_at(octets + 12)) << 32 | number_at(octets + 16), number_at(octets + IPV4_NBYTES)};
	}
	uint32_t sequence() const
	{
		return number_at(octets + IPV4_NBYTES + 4);
	}
	uint32_t headers_nbytes() const
	{
		return IPV4_NBYTES + 4 * (octets[IPV4_NBYTES + 12] >> 4);
	}
};

// Of a frame that waits or leaves: PPP's header comes before IP's.
inline Head head_of(Ptr<const Packet> frame)
{
	uint8_t octets[PPP_NBYTES + sizeof(Head)] = {};
	frame->CopyData(octets, sizeof octets);
	Head head;
	memcpy(head.octets, octets + PPP_NBYTES, sizeof head.octets);
	return head;
}

inline uint32_t payload_nbytes(Ptr<const Packet> frame, const Head &head)
{
	return frame->GetSize() - ETHERNET_NBYTES - head.headers_nbytes();
}

// Frames take what Ethernet's do: ns-3's PPP header is shorter.  IP cuts the padding off, as it does Ethernet's.
class EthernetDevice : public PointToPointNetDevice
{
public:
	bool Send(Ptr<Packet> packet, const Address &to, uint16_t protocol) override
	{
		packet->AddPaddingAtEnd(ETHERNET_NBYTES - PPP_NBYTES);
		return PointToPointNetDevice::Send(packet, to, protocol);
	}

	bool pass_on(Ptr<Packet> padded, uint16_t protocol)
	{
		return PointToPointNetDevice::Send(padded, GetBroadcast(), protocol);
	}
};

// A port's queue, as emu/network/shaping.py makes it: segments without payload have a limit of their own, and pass.
class AcksFirst : public Queue<Packet>
{
public:
	static int64_t n_dropped; // by all of them

	AcksFirst(int64_t ack_nbytes, int64_t data_nbytes) : room{data_nbytes, ack_nbytes}
	{
		SetMaxSize(QueueSize(QueueSizeUnit::BYTES, UINT32_MAX));
	}

	bool Enqueue(Ptr<Packet> frame) override
	{
		bool acks = frame->GetSize() <= ETHERNET_NBYTES + IPV4_NBYTES + TCP_MOST_NBYTES &&
			!payload_nbytes(frame, head_of(frame));
		auto place = acks ? std::next(GetContainer().begin(), n_acks) : GetContainer().end();
		if (room[acks] < frame->GetSize() || !DoEnqueue(place, frame)) {
			n_dropped++;
			return false;
		}
		room[acks] -= frame->GetSize();
		n_acks += acks;
		return true;
	}

	Ptr<Packet> Dequeue() override
	{
		auto frame = DoDequeue(GetContainer().begin());
		if (frame) {
			room[n_acks > 0] += frame->GetSize();
			n_acks -= n_acks > 0;
		}
		return frame;
	}

	Ptr<Packet> Remove() override
	{
		return Dequeue();
	}

	Ptr<const Packet> Peek() const override
	{
		return DoPeek(GetContainer().begin());
	}

private:
	int64_t room[2];
	size_t n_acks = 0;
};
int64_t AcksFirst::n_dropped = 0;

// No router: a frame leaves as it came.
class Switch
{
public:
	std::unordered_map<Tuple, Ptr<EthernetDevice>, TupleHash> ports;

	bool forward(Ptr<NetDevice>, Ptr<const Packet> packet, uint16_t protocol, const Address &)
	{
		Head head{};
		packet->CopyData(head.octets, sizeof head.octets);
		auto found = ports.find(head.tuple());
		if (found == ports.end())
			fail("a packet of no flow came to a switch");
		return found->second->pass_on(packet->Copy(), protocol);
	}
};

// ns-3's TCP ignores a segment whose ACK number is older than another, and its payload with it; RFC 9293 (3.10.7.4)
// takes the payload.  Where ACKs pass data, that is what both ends of a connection that send get all the time.
class Tcp : public TcpSocketBase
{
public:
	static Ptr<Tcp> on(Ptr<Node> node)
	{
		auto tcp = node->GetObject<TcpL4Protocol>();
		auto socket = CreateObject<Tcp>();
		socket->SetNode(node);
		socket->SetTcp(tcp);
		socket->SetRtt(CreateObject<RttMeanDeviation>());
		socket->SetCongestionControlAlgorithm(CreateObject<TcpNewReno>());
		socket->SetRecoveryAlgorithm(CreateObject<TcpPrrRecovery>());
		tcp->AddSocket(socket);
		return socket;
	}

protected:
	Ptr<TcpSocketBase> Fork() override
	{
		return CopyObject<Tcp>(this);
	}

	void DoForwardUp(Ptr<Packet> packet, const Address &from, const Address &to) override
	{
		uint8_t head[12] = {};
		packet->CopyData(head, sizeof head);
		if (m_state == ESTABLISHED && SequenceNumber32(number_at(head + 8)) < m_txBuffer->HeadSequence()) {
			TcpHeader header;
			packet->RemoveHeader(header);
			header.SetAckNumber(m_txBuffer->HeadSequence());
			packet->AddHeader(header);
		}
		TcpSocketBase::DoForwardUp(packet, from, to);
	}
};
