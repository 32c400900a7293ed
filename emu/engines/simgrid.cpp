// A plan in SimGrid (S4U, 3.32 or later): reads what simgrid.py writes on stdin, carries it out, and writes when
// each send ended and each gate opened, as doubles, on stdout.
//
// SimGrid shares the links; what waits for what is the plan's (progress.h).  Links have no latency: SimGrid
// weights shares by the latency of paths, and with none at all they are max-min fair.
#include "progress.h"
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/s4u.hpp>
#include <simgrid/version.h>
#include <string>

namespace s4u = simgrid::s4u;
#if SIMGRID_VERSION_MAJOR < 4
using Completed = s4u::Activity; // 3.32 signals all kinds of activities alike
#else
using Completed = s4u::Comm;
#endif

int main(int argc, char **argv)
{
	s4u::Engine engine(&argc, argv);
	for (const char *setting : {"network/model:CM02", "network/crosstraffic:0", "network/weight-S:0",
		     "network/TCP-gamma:0", "network/latency-factor:1", "network/bandwidth-factor:1",
		     "maxmin/precision:1e-9", "surf/precision:1e-9"})
		s4u::Engine::set_config(setting);

	const Ints sizes = read_ints(6, 0, MOST); // of ranks and links; of flows, sends, gates and parts
	const size_t n_ranks = sizes[0], n_links = sizes[1], n_flows = sizes[2];
	const Floats capacity = read_floats(n_links);
	const Ints flow_src = read_ints(n_flows, 0, n_ranks - 1), flow_dst = read_ints(n_flows, 0, n_ranks - 1);
	const Lists paths(n_flows, n_links);
	Progress progress({sizes.begin() + 2, sizes.end()});

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

	std::vector<std::deque<size_t>> queue(n_flows); // a connection sends one after the other
	std::vector<s4u::CommPtr> live(progress.nbytes.size());
	std::deque<size_t> over; // whose activities nobody needs any more
	std::function<void(size_t)> begin, end;

	begin = [&](size_t send) {
		if (progress.nbytes[send] <= 0) {
			progress.at_once([&end, send] { end(send); });
			return;
		}
		auto comm = s4u::Comm::sendto_init();
		live[send] = comm;
		comm->set_name(std::to_string(send));
		comm->set_payload_size(static_cast<uint64_t>(progress.nbytes[send] + 0.5));
		comm->set_source(hosts[flow_src[progress.flow_of[send]]]);
		comm->set_destination(hosts[flow_dst[progress.flow_of[send]]]); // which starts it
	};
	end = [&](size_t send) {
		auto &waiting = queue[progress.flow_of[send]];
		waiting.pop_front();
		if (!waiting.empty())
			begin(waiting.front());
		progress.carried(progress.nbytes[send]);
		progress.end(send);
	};
	progress.now_s = [] { return s4u::Engine::get_clock(); };
	progress.set_timer = [](double delay_s, std::function<void()> what) {
		simgrid::kernel::timer::Timer::set(s4u::Engine::get_clock() + delay_s, std::move(what));
	};
	progress.leave = [&](size_t send) {
		queue[progress.flow_of[send]].push_back(send);
		if (queue[progress.flow_of[send]].size() == 1)
			begin(send);
	};
	Completed::on_completion_cb([&](Completed const &activity) {
		size_t send = strtoull(activity.get_cname(), nullptr, 10);
		while (over.size() > 1) { // not the one that is completing
			live[over.front()] = nullptr;
			over.pop_front();
		}
		over.push_back(send);
		end(send);
		progress.drain();
	});
	progress.start();
	engine.run();
	progress.write();
	return 0;
}
