// Decides when each send and each computation of a plan may begin.  It reads what waits for what from stdin, as
// problem.py writes it, and follows the rules of planning/model/loops.py.  The engine has the clock, the timers
// and the network.
#pragma once
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <vector>

constexpr int64_t MOST = 1 << 30; // rows of a column

using Ints = std::vector<int64_t>;
using Floats = std::vector<double>;

[[noreturn]] inline void fail(const char *what)
{
	fprintf(stderr, "%s\n", what);
	exit(1);
}

template <class T> std::vector<T> read(size_t n)
{
	if (n > MOST)
		fail("the plan is too long");
	std::vector<T> column(n);
	if (fread(column.data(), sizeof(T), n, stdin) != n)
		fail("the plan ends too early");
	return column;
}

inline Ints within(Ints column, int64_t least, int64_t most)
{
	for (int64_t value : column)
		if (value < least || value > most)
			fail("a number of the plan is out of range");
	return column;
}

// `n` numbers from `least` to `most`.
inline Ints read_ints(size_t n, int64_t least, int64_t most)
{
	return within(read<int64_t>(n), least, most);
}

// `n` numbers that are not negative.
inline Floats read_floats(size_t n)
{
	Floats column = read<double>(n);
	for (double value : column)
		if (!std::isfinite(value) || value < 0)
			fail("a number of the plan is out of range");
	return column;
}

// `n` lists of numbers below `limit`: list i is values[at[i]] to values[at[i + 1]].
struct Lists {
	Ints at, values;
	Lists(size_t n, int64_t limit) : at(read_ints(n + 1, 0, MOST))
	{
		for (size_t i = 0; i < n; i++)
			if (at[i] > at[i + 1])
				fail("a list of the plan ends before it begins");
		values = read_ints(at.back(), 0, limit - 1);
	}
};

class Progress
{
public:
	const Ints flow_of;
	const Floats nbytes;

	// What the engine has to bring: the seconds since the start, a timer, and what begins to send a send.
	std::function<double()> now_s;
	std::function<void(double delay_s, std::function<void()>)> set_timer;
	std::function<void(size_t send)> leave;

	// `sizes` are the numbers of flows, sends, gates and parts.
	explicit Progress(const Ints &sizes)
	    : flow_of(read_ints(sizes[1], 0, sizes[0] - 1)), nbytes(read_floats(sizes[1])), latency_s(read_floats(1)),
	      waits(read_ints(sizes[1], 0, MOST)), releases(sizes[1], sizes[1]), src_part(read_ints(sizes[1], -1, sizes[3] - 1)),
	      dst_part(read_ints(sizes[1], -1, sizes[3] - 1)), gate_part(read_ints(sizes[2], -1, sizes[3] - 1)),
	      gap_s(read_floats(sizes[2])), gate_waits(read_ints(sizes[2], 0, MOST)), holds(sizes[2], sizes[1]),
	      left(read_ints(sizes[3], 0, MOST)), opens(sizes[3], sizes[2]), ends_s(sizes[1], -1), opened_s(sizes[2], -1)
	{
		for (double each : nbytes)
			total_nbytes += each;
	}

	// What waits for nothing begins.
	void start()
	{
		std::vector<size_t> first;
		for (size_t send = 0; send < waits.size(); send++)
			if (!waits[send])
				first.push_back(send);
		for (size_t gate = 0; gate < gate_waits.size(); gate++)
			if (!gate_waits[gate])
				after(gap_s[gate], [this, gate] { open(gate); });
		for (size_t send : first)
			after(latency_s[0], [this, send] { leave(send); });
		drain();
	}

	// The send's last byte has arrived.
	void end(size_t send)
	{
		ends_s[send] = now_s();
		n_ended++;
		for (int64_t at = releases.at[send]; at < releases.at[send + 1]; at++)
			release(releases.values[at]);
		finish(src_part[send]);
		finish(dst_part[send]);
	}

	// Does `what` after all that is possible at this instant, and all of it before it returns to the engine:
	// a list, as chains of what takes no time may be long.
	void at_once(std::function<void()> what)
	{
		now.push_back(std::move(what));
	}

	void drain()
	{
		if (draining)
			return;
		for (draining = true; !now.empty();) {
			auto what = std::move(now.front());
			now.pop_front();
			what();
		}
		draining = false;
	}

	// So many bytes more have arrived.  On stderr, four times a second: `carried 0.123`, the share of all.
	void carried(double more_nbytes)
	{
		carried_nbytes += more_nbytes;
		auto at = std::chrono::steady_clock::now();
		if (total_nbytes <= 0 || at - reported < std::chrono::milliseconds(250))
			return;
		reported = at;
		fprintf(stderr, "carried %.4f\n", carried_nbytes / total_nbytes);
		fflush(stderr);
	}

	bool is_over() const
	{
		return n_ended == ends_s.size() + opened_s.size();
	}

	// When each send ended and each gate opened, in seconds from the start; -1 for what never happened.
	void write() const
	{
		fwrite(ends_s.data(), sizeof(double), ends_s.size(), stdout);
		fwrite(opened_s.data(), sizeof(double), opened_s.size(), stdout);
	}

private:
	const Floats latency_s;
	Ints waits;
	const Lists releases;
	const Ints src_part, dst_part, gate_part;
	const Floats gap_s;
	Ints gate_waits;
	const Lists holds;
	Ints left;
	const Lists opens;
	Floats ends_s, opened_s;
	size_t n_ended = 0;
	double total_nbytes = 0, carried_nbytes = 0;
	std::chrono::steady_clock::time_point reported = std::chrono::steady_clock::now();
	std::deque<std::function<void()>> now;
	bool draining = false;

	void after(double delay_s, std::function<void()> what)
	{
		if (delay_s > 0)
			set_timer(delay_s, [this, what] {
				now.push_back(what);
				drain();
			});
		else
			now.push_back(std::move(what));
	}

	void release(size_t send)
	{
		if (!--waits[send])
			after(latency_s[0], [this, send] { leave(send); });
	}

	void finish(int64_t part)
	{
		if (part < 0 || --left[part])
			return;
		for (int64_t at = opens.at[part]; at < opens.at[part + 1]; at++) {
			size_t gate = opens.values[at];
			if (!--gate_waits[gate])
				after(gap_s[gate], [this, gate] { open(gate); });
		}
	}

	void open(size_t gate)
	{
		opened_s[gate] = now_s();
		n_ended++;
		for (int64_t at = holds.at[gate]; at < holds.at[gate + 1]; at++)
			release(holds.values[at]);
		finish(gate_part[gate]);
	}
};
