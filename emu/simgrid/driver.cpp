// A plan in SimGrid (S4U, 3.32 or later): reads what engine.py writes on stdin, carries it out, and writes when
// each send ended and each gate opened, as doubles, on stdout.
//
// SimGrid shares the links; what waits for what is the plan's, as in planning/model/loops.py. Links have no
// latency: SimGrid weights shares by the latency of paths, and with none at all they are max-min fair.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/s4u.hpp>
#include <simgrid/version.h>
#include <string>
#include <vector>

namespace s4u = simgrid::s4u;
#if SIMGRID_VERSION_MAJOR < 4
using Completed = s4u::Activity; // 3.32 signals all kinds of activities alike
#else
using Completed = s4u::Comm;
#endif

template <class T> std::vector<T> read(size_t n)
{
	std::vector<T> column(n);
	if (fread(column.data(), sizeof(T), n, stdin) != n) {
		fputs("the plan ends too early\n", stderr);
		exit(1);
	}
	return column;
}

using Ints = std::vector<int64_t>;
using Floats = std::vector<double>;

struct Lists {
	Ints at, values;
	explicit Lists(size_t n) : at(read<int64_t>(n + 1)), values(read<int64_t>(at.back())) {}
};

int main(int argc, char **argv)
{
	s4u::Engine engine(&argc, argv);
	for (const char *setting : {"network/model:CM02", "network/crosstraffic:0", "network/weight-S:0",
		     "network/TCP-gamma:0", "network/latency-factor:1", "network/bandwidth-factor:1",
		     "maxmin/precision:1e-9", "surf/precision:1e-9"})
		s4u::Engine::set_config(setting);

	const Ints sizes = read<int64_t>(6);
	const size_t n_ranks = sizes[0], n_links = sizes[1], n_flows = sizes[2], n_sends = sizes[3], n_gates = sizes[4],
		     n_parts = sizes[5];
	const Floats capacity = read<double>(n_links), latency_s = read<double>(1);
	const Ints flow_src = read<int64_t>(n_flows), flow_dst = read<int64_t>(n_flows);
	const Lists paths(n_flows);
	const Ints flow_of = read<int64_t>(n_sends);
	const Floats nbytes = read<double>(n_sends);
	Ints waits = read<int64_t>(n_sends);
	const Lists releases(n_sends);
	const Ints src_part = read<int64_t>(n_sends), dst_part = read<int64_t>(n_sends), gate_part = read<int64_t>(n_gates);
	const Floats gap_s = read<double>(n_gates);
	Ints gate_waits = read<int64_t>(n_gates);
	const Lists holds(n_gates);
	Ints left = read<int64_t>(n_parts);
	const Lists opens(n_parts);

	auto *zone = s4u::create_full_zone("fabric");
	std::vector<s4u::Host *> hosts;
	for (size_t rank = 0; rank < n_ranks; rank++)
		hosts.push_back(zone->create_host("r" + std::to_string(rank), 1e9)->seal());
	std::vector<const s4u::Link *> links;
	for (size_t link = 0; link < n_links; link++)
		links.push_back(zone->create_link("l" + std::to_string(link), capacity[link])->set_latency(0)->seal());
	for (size_t flow = 0; flow < n_flows; flow++) {
		std::vector<s4u::LinkInRoute> route;
		for (int64_t at = paths.at[flow]; at < paths.at[flow + 1]; at++)
			route.emplace_back(links[paths.values[at]]);
		zone->add_route(hosts[flow_src[flow]]->get_netpoint(), hosts[flow_dst[flow]]->get_netpoint(), nullptr, nullptr,
			route, false);
	}
	zone->seal();

	Floats ends_s(n_sends, -1), opened_s(n_gates, -1);
	std::vector<std::deque<size_t>> queue(n_flows); // a connection sends one after the other
	std::vector<s4u::CommPtr> live(n_sends);
	std::deque<size_t> over; // whose activities nobody needs any more
	std::function<void(size_t)> begin, end, leave, open;

	std::deque<std::function<void()>> now; // what costs no time: a list, as chains of it may be long
	bool draining = false;
	auto drain = [&] {
		if (draining)
			return;
		for (draining = true; !now.empty();) {
			auto what = std::move(now.front());
			now.pop_front();
			what();
		}
		draining = false;
	};
	auto after = [&](double delay_s, std::function<void()> what) {
		if (delay_s > 0)
			simgrid::kernel::timer::Timer::set(s4u::Engine::get_clock() + delay_s,
				[&now, &drain, what] {
					now.push_back(what);
					drain();
				});
		else
			now.push_back(std::move(what));
	};
	auto finish = [&](int64_t part) {
		if (part < 0 || --left[part])
			return;
		for (int64_t at = opens.at[part]; at < opens.at[part + 1]; at++) {
			size_t gate = opens.values[at];
			if (!--gate_waits[gate])
				after(gap_s[gate], [&open, gate] { open(gate); });
		}
	};
	auto release = [&](size_t send) {
		if (!--waits[send])
			after(latency_s[0], [&leave, send] { leave(send); });
	};
	open = [&](size_t gate) {
		opened_s[gate] = s4u::Engine::get_clock();
		for (int64_t at = holds.at[gate]; at < holds.at[gate + 1]; at++)
			release(holds.values[at]);
		finish(gate_part[gate]);
	};
	begin = [&](size_t send) {
		if (nbytes[send] <= 0) {
			now.push_back([&end, send] { end(send); });
			return;
		}
		auto comm = s4u::Comm::sendto_init();
		live[send] = comm;
		comm->set_name(std::to_string(send));
		comm->set_payload_size(static_cast<uint64_t>(nbytes[send] + 0.5));
		comm->set_source(hosts[flow_src[flow_of[send]]]);
		comm->set_destination(hosts[flow_dst[flow_of[send]]]); // which starts it
	};
	leave = [&](size_t send) {
		queue[flow_of[send]].push_back(send);
		if (queue[flow_of[send]].size() == 1)
			begin(send);
	};
	end = [&](size_t send) {
		auto &waiting = queue[flow_of[send]];
		ends_s[send] = s4u::Engine::get_clock();
		waiting.pop_front();
		if (!waiting.empty())
			begin(waiting.front());
		for (int64_t at = releases.at[send]; at < releases.at[send + 1]; at++)
			release(releases.values[at]);
		finish(src_part[send]);
		finish(dst_part[send]);
	};
	Completed::on_completion_cb([&](Completed const &activity) {
		size_t send = strtoull(activity.get_cname(), nullptr, 10);
		while (over.size() > 1) { // not the one that is completing
			live[over.front()] = nullptr;
			over.pop_front();
		}
		over.push_back(send);
		end(send);
		drain();
	});
	std::vector<size_t> first;
	for (size_t send = 0; send < n_sends; send++)
		if (!waits[send])
			first.push_back(send);
	for (size_t gate = 0; gate < n_gates; gate++)
		if (!gate_waits[gate])
			after(gap_s[gate], [&open, gate] { open(gate); });
	for (size_t send : first)
		after(latency_s[0], [&leave, send] { leave(send); });
	drain();
	engine.run();
	fwrite(ends_s.data(), sizeof(double), n_sends, stdout);
	fwrite(opened_s.data(), sizeof(double), n_gates, stdout);
	return 0;
}
