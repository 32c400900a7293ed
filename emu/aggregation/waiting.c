/* Steps in a row, for as long as the worker is the only one to be waited for: of a busy rank's turns nearly
 * all are of this kind, and to come back to Python for each costs more than the step.
 *
 * Only here does a worker wait and read the clock.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/epoll.h>
#include <time.h>

#include "worker.h"

enum { NS_PER_MS = 1000 * 1000, NS_PER_S = 1000 * NS_PER_MS };

static int64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * (int64_t)NS_PER_S + now.tv_nsec;
}

/* Returns false where a signal came: Python has to see to it. */
static bool pause_for(int64_t pause_ns)
{
	struct timespec length = {.tv_nsec = pause_ns};

	return pause_ns == 0 || nanosleep(&length, NULL) == 0;
}

/* Whole milliseconds, at least as long; at most a second, which is often enough to look again. */
static int timeout_ms(int64_t left_ns)
{
	if (left_ns <= 0)
		return 0;
	return left_ns < NS_PER_S ? (left_ns + NS_PER_MS - 1) / NS_PER_MS : 1000;
}

/* Wait and step until a sum is finished, the worker failed or waits for room in its socket or no longer does,
 * something else that `poll_fd` (an epoll of Python, whose data are file numbers; the worker's socket is in it)
 * knows is ready, a signal came, or until `until_ns`.  Returns an enum failure, as worker_step does.
 */
EXPORTED int worker_run(struct worker *w, int poll_fd, int64_t until_ns)
{
	uint32_t wanted_to_send = w->report.wants_to_send;
	struct epoll_event events[2];

	w->report.n_finished = 0;
	while (!w->failure && !w->report.n_finished && w->report.wants_to_send == wanted_to_send) {
		int64_t until = w->report.due_ns < until_ns ? w->report.due_ns : until_ns;
		int n;

		if (!pause_for(w->report.pause_ns))
			break;
		n = epoll_wait(poll_fd, events, 2, timeout_ms(until - clock_ns()));
		if (n < 0 && errno != EINTR)
			fail_with(w, errno);
		if (n < 0 || (n > 0 && (n > 1 || events[0].data.fd != w->fd)))
			break;
		if (clock_ns() >= until_ns)
			break;
		worker_step(w, clock_ns());
	}
	return w->failure;
}
