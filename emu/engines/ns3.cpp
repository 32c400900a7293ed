// A plan in ns-3 (3.37), packet by packet: reads what ns3.py writes on stdin, carries it out, and writes when each
// send ended and each gate opened, and how many packets were dropped and sent again, as doubles, on stdout.
//
// TCP, IP, cables and time are ns-3's; what waits for what is the plan's (progress.h), and so is the way of each
// packet (packets.h).  All connections are opened before the plan's time begins.
#include "packets.h"
#include "progress.h"
#include <map>
#include <ns3/point-to-point-channel.h>
#include <ns3/traffic-control-module.h>

constexpr int64_t ACKS_NBYTES = 256 << 10; // AUTO_QUEUE_MIN_NBYTES of emu/network/shaping.py
constexpr int64_t PAUSE_MS = 1; // after the last connection is open

// A plan's fabric, flows and settings, as read and checked.
struct Problem {
	const Ints sizes; // of hosts, nodes, cables and settings; of flows, sends, gates and parts
	const size_t n_hosts, n_nodes, n_cables, n_flows;
	const Ints settings;
	const int64_t segment_nbytes, kernel_segment_nbytes;
	const Ints addresses;
	const Ints end_nodes; // of cable c: ends 2c and 2c + 1
	const Ints rates_bps, delays_ns, queues_nbytes, sports, dports, reverses, calls;
	const Lists paths; // the ends that a flow leaves through
	std::vector<Tuple> tuples;
	std::vector<size_t> from, to; // hosts

	Problem()
	    : sizes(read_ints(8, 0, MOST)), n_hosts(sizes[0]), n_nodes(sizes[1]), n_cables(sizes[2]), n_flows(sizes[4]),
	      settings(settings_of(sizes[3])), segment_nbytes(settings[0]), kernel_segment_nbytes(settings[7]),
	      addresses(read_ints(n_hosts, 1, UINT32_MAX)), end_nodes(read_ints(2 * n_cables, 0, n_nodes - 1)),
	      rates_bps(read_ints(n_cables, 1, int64_t(1) << 50)), delays_ns(read_ints(n_cables, 0, int64_t(1) << 50)),
	      queues_nbytes(read_ints(2 * n_cables, 0, UINT32_MAX)), sports(read_ints(n_flows, 1, UINT16_MAX)),
	      dports(read_ints(n_flows, 1, UINT16_MAX)), reverses(read_ints(n_flows, 0, n_flows - 1)),
	      calls(read_ints(n_flows, 0, 1)), paths(n_flows, 2 * n_cables)
	{
		if (n_hosts > n_nodes)
			fail("a plan has more hosts than nodes");
		for (size_t flow = 0; flow < n_flows; flow++)
			check_path(flow);
		for (size_t flow = 0; flow < n_flows; flow++) {
			size_t back = reverses[flow];
			if (size_t(reverses[back]) != flow || calls[flow] == calls[back] || from[back] != to[flow] ||
				sports[back] != dports[flow] || dports[back] != sports[flow])
				fail("a flow of the plan has no other direction");
		}
	}

private:
	static Ints settings_of(size_t n)
	{
		if (n != 8)
			fail("the driver is of another version: run setup --ns3 again");
		return read_ints(n, 1, MOST);
	}

	void check_path(size_t flow)
	{
		int64_t first = paths.at[flow], after = paths.at[flow + 1];
		if (first == after)
			fail("a flow of the plan has no path");
		for (int64_t at = first; at < after; at++) {
			size_t node = end_nodes[paths.values[at]];
			if ((node < n_hosts) != (at == first) || (at > first && end_nodes[paths.values[at - 1] ^ 1] != int64_t(node)))
				fail("a path of the plan does not lead from a host over switches");
		}
		from.push_back(end_nodes[paths.values[first]]);
		to.push_back(end_nodes[paths.values[after - 1] ^ 1]);
		if (to.back() >= n_hosts)
			fail("a path of the plan does not lead to a host");
		tuples.push_back(tuple_of(addresses[from.back()], addresses[to.back()], sports[flow], dports[flow]));
	}
};

// Hosts, switches, and the devices at both ends of each cable.
class Network
{
public:
	std::vector<Ptr<Node>> nodes;
	std::vector<Ptr<EthernetDevice>> devices;

	explicit Network(const Problem &problem) : switches(problem.n_nodes - problem.n_hosts)
	{
		for (size_t n = 0; n < problem.n_nodes; n++) {
			nodes.push_back(CreateObject<Node>());
			if (n < problem.n_hosts)
				make_host(nodes[n]);
		}
		for (size_t end = 0; end < 2 * problem.n_cables; end++)
			connect(problem, end);
		for (size_t flow = 0; flow < problem.n_flows; flow++)
			for (int64_t at = problem.paths.at[flow] + 1; at < problem.paths.at[flow + 1]; at++) {
				size_t end = problem.paths.values[at];
				auto &ports = switches[problem.end_nodes[end] - problem.n_hosts].ports;
				if (!ports.emplace(problem.tuples[flow], devices[end]).second)
					fail("a switch of the plan has two ways for the same addresses and ports");
			}
	}

private:
	std::vector<Switch> switches;
	Ptr<PointToPointChannel> channel;

	static void make_host(Ptr<Node> node)
	{
		node->AggregateObject(CreateObject<TrafficControlLayer>());
		auto ipv4 = CreateObject<Ipv4L3Protocol>();
		node->AggregateObject(ipv4);
		ipv4->SetRoutingProtocol(CreateObject<Ipv4StaticRouting>());
		node->AggregateObject(CreateObject<TcpL4Protocol>());
	}

	void connect(const Problem &problem, size_t end)
	{
		size_t cable = end / 2, n = problem.end_nodes[end];
		if (end % 2 == 0) {
			channel = CreateObject<PointToPointChannel>();
			channel->SetAttribute("Delay", TimeValue(NanoSeconds(problem.delays_ns[cable])));
		}
		auto device = CreateObject<EthernetDevice>();
		device->SetAddress(Mac48Address::Allocate());
		device->SetDataRate(DataRate(problem.rates_bps[cable]));
		device->SetMtu(problem.settings[1]);
		device->SetQueue(Create<AcksFirst>(ACKS_NBYTES, problem.queues_nbytes[end]));
		nodes[n]->AddDevice(device);
		device->Attach(channel);
		devices.push_back(device);
		if (n >= problem.n_hosts) {
			device->SetReceiveCallback(MakeCallback(&Switch::forward, &switches[n - problem.n_hosts]));
			return;
		}
		auto ipv4 = nodes[n]->GetObject<Ipv4>();
		auto interface = ipv4->AddInterface(device);
		ipv4->AddAddress(interface, Ipv4InterfaceAddress(Ipv4Address(problem.addresses[n]), Ipv4Mask::GetOnes()));
		ipv4->SetUp(interface);
		// All go the same way; who is named there is never asked.
		DynamicCast<Ipv4StaticRouting>(ipv4->GetRoutingProtocol())->SetDefaultRoute("169.254.0.1", interface);
	}
};

// The connections, and the bytes that ranks hand to them.
class Streams
{
public:
	int64_t n_resent = 0; // segments

	Streams(const Problem &problem, const Network &network, Progress &progress)
	    : problem(problem), network(network), progress(progress), streams(problem.n_flows)
	{
		for (size_t flow = 0; flow < problem.n_flows; flow++) {
			numbers[problem.tuples[flow]] = flow;
			if (problem.calls[flow])
				callers.push_back(flow);
		}
		for (size_t end = 0; end < network.devices.size(); end++)
			if (size_t(problem.end_nodes[end]) < problem.n_hosts)
				network.devices[end]->TraceConnectWithoutContext("PhyTxBegin",
					Callback<void, Ptr<const Packet>>([this](Ptr<const Packet> frame) { leaves(frame); }));
		progress.now_s = [this] { return (Simulator::Now() - began).GetSeconds(); };
		progress.set_timer = [this](double delay_s, std::function<void()> what) {
			Simulator::Schedule(Seconds(delay_s), [this, what = std::move(what)] {
				what();
				look_for_end();
			});
		};
		progress.leave = [this](size_t send) { queue(send); };
		Simulator::ScheduleNow([this] { open_next(); });
	}

private:
	// One direction of a connection, in bytes since it was opened.
	struct Stream {
		Ptr<Socket> sender;
		int64_t queued = 0, written = 0, left = 0, arrived = 0; // by ranks, to TCP, onto the host's cable, there
		bool is_pumped = false;					 // at this instant, later
		std::deque<std::pair<int64_t, size_t>> ends;		 // of sends
	};

	const Problem &problem;
	const Network &network;
	Progress &progress;
	std::vector<Stream> streams;
	std::unordered_map<Tuple, size_t, TupleHash> numbers; // of flows
	std::vector<size_t> callers;			       // the flows whose source opens the connection
	std::map<std::pair<size_t, int64_t>, Ptr<Socket>> listening;
	size_t n_called = 0, n_open = 0;
	Time began;

	// One after the other, so that no queue overflows of them.
	void open_next()
	{
		if (n_called == callers.size()) {
			Simulator::Schedule(MilliSeconds(PAUSE_MS), [this] {
				began = Simulator::Now();
				AcksFirst::n_dropped = n_resent = 0;
				progress.start();
				look_for_end();
			});
			return;
		}
		size_t flow = callers[n_called++], host = problem.to[flow];
		auto port = problem.dports[flow];
		InetSocketAddress there(Ipv4Address(problem.addresses[host]), port);
		auto &listener = listening[{host, port}];
		if (!listener) {
			listener = Tcp::on(network.nodes[host]);
			if (listener->Bind(there) || listener->Listen())
				fail("nobody can listen at a port of the plan");
			listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address &>(),
				Callback<void, Ptr<Socket>, const Address &>([this](Ptr<Socket> socket, const Address &) {
					opened(problem.reverses[callers[n_called - 1]], socket);
				}));
		}
		auto socket = Tcp::on(network.nodes[problem.from[flow]]);
		socket->SetConnectCallback(Callback<void, Ptr<Socket>>([this, flow](Ptr<Socket> same) { opened(flow, same); }),
			Callback<void, Ptr<Socket>>([](Ptr<Socket>) { fail("a connection of the plan could not be opened"); }));
		if (socket->Bind(InetSocketAddress(Ipv4Address(problem.addresses[problem.from[flow]]), problem.sports[flow])) ||
			socket->Connect(there))
			fail("a port of the plan cannot be called from");
	}

	// `socket` sends the one flow, and receives the other.
	void opened(size_t flow, Ptr<Socket> socket)
	{
		size_t back = problem.reverses[flow];
		streams[flow].sender = socket;
		socket->SetRecvCallback(Callback<void, Ptr<Socket>>([this, back](Ptr<Socket> same) { receive(back, same); }));
		socket->SetSendCallback(Callback<void, Ptr<Socket>, uint32_t>([this, flow](Ptr<Socket>, uint32_t) { pump(flow); }));
		if (++n_open % 2 == 0)
			open_next();
	}

	void queue(size_t send)
	{
		size_t flow = progress.flow_of[send];
		auto &stream = streams[flow];
		stream.queued += int64_t(progress.nbytes[send]);
		if (stream.arrived == stream.queued) {
			progress.at_once([this, send] { progress.end(send); });
			return;
		}
		stream.ends.emplace_back(stream.queued, send);
		pump(flow);
	}

	// What waits in a host's queue is bounded as by Linux's TCP small queues: two of the kernel's segments of a
	// connection, and another when one has left.  ns-3's TCP alone would put its whole window there.
	void pump(size_t flow)
	{
		auto &stream = streams[flow];
		int64_t ahead = stream.written - stream.left, rest = stream.queued - stream.written;
		if (ahead > problem.kernel_segment_nbytes)
			return;
		int64_t room = std::min<int64_t>(stream.sender->GetTxAvailable(), 2 * problem.kernel_segment_nbytes - ahead);
		int64_t some = rest <= room ? rest : room - room % problem.segment_nbytes;
		if (some <= 0)
			return;
		stream.written += some;
		if (stream.sender->Send(Create<Packet>(some)) != some)
			fail("TCP did not take what it has room for");
	}

	void leaves(Ptr<const Packet> frame)
	{
		auto head = head_of(frame);
		auto nbytes = payload_nbytes(frame, head);
		if (!nbytes)
			return;
		size_t flow = numbers.at(head.tuple());
		auto &stream = streams[flow];
		int32_t more = head.sequence() + nbytes - 1 - uint32_t(stream.left); // the first byte has number 1
		if (more <= 0) {
			n_resent++;
			return;
		}
		stream.left += more;
		if (!stream.is_pumped && stream.queued > stream.written) {
			stream.is_pumped = true;
			Simulator::ScheduleNow([this, flow] { // not while TCP is sending
				streams[flow].is_pumped = false;
				pump(flow);
			});
		}
	}

	void receive(size_t flow, Ptr<Socket> socket)
	{
		auto &stream = streams[flow];
		int64_t before = stream.arrived;
		while (auto packet = socket->Recv())
			stream.arrived += packet->GetSize();
		progress.carried(stream.arrived - before);
		while (!stream.ends.empty() && stream.ends.front().first <= stream.arrived) {
			size_t send = stream.ends.front().second;
			stream.ends.pop_front();
			progress.end(send);
		}
		progress.drain();
		look_for_end();
	}

	void look_for_end()
	{
		if (progress.is_over())
			Simulator::Stop();
	}
};

int main()
{
	Time::SetResolution(Time::PS); // a frame at 100 Gb/s is 121 ns
	Problem problem;
	Progress progress({problem.sizes.begin() + 4, problem.sizes.end()});
	const Ints &settings = problem.settings;
	const std::pair<const char *, Ptr<AttributeValue>> defaults[] = {
		{"ns3::TcpSocket::SegmentSize", Create<UintegerValue>(problem.segment_nbytes)},
		{"ns3::TcpSocket::RcvBufSize", Create<UintegerValue>(settings[2])},
		{"ns3::TcpSocket::SndBufSize", Create<UintegerValue>(settings[3])},
		{"ns3::TcpSocket::InitialCwnd", Create<UintegerValue>(settings[4])},
		{"ns3::TcpSocket::DelAckCount", Create<UintegerValue>(2)},
		{"ns3::TcpSocket::DelAckTimeout", Create<TimeValue>(MilliSeconds(settings[5]))},
		{"ns3::TcpSocketBase::MinRto", Create<TimeValue>(MilliSeconds(settings[6]))},
	};
	for (auto &[name, value] : defaults)
		Config::SetDefault(name, *value);
	Network network(problem);
	Streams streams(problem, network, progress);
	Simulator::Run();
	progress.write();
	const double counts[] = {double(AcksFirst::n_dropped), double(streams.n_resent)};
	fwrite(counts, sizeof(double), 2, stdout);
	fflush(stdout);
	_Exit(0); // ns-3 takes long to take itself apart
}
