/* Carries out one rank's side of a repeat on its connections: as Loop in loop.py, one thread, one epoll. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "rank.h"

enum { N_EVENTS = 64, N_PARTS = 34 };

static const int64_t MAX_LENGTH = 1LL << 40;
static const uint64_t N_COLLECTIVES = 11;

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void touch(struct rank *rank, int32_t peer)
{
	if (rank->peers[peer].is_touched)
		return;
	rank->peers[peer].is_touched = 1;
	rank->touched[(rank->first_touched + rank->n_touched++) % rank->n_peers] = peer;
}

static struct message *queued(struct rank *rank, const struct transfer *transfer, enum opcode opcode)
{
	struct lane *lane = &rank->lanes[transfer->lane];
	struct peer *peer = &rank->peers[lane->peer];
	struct message *message = &peer->out[(peer->out_head + peer->n_out++) % peer->out_room];

	*message = (struct message){
		.preamble = {PREAMBLE_NBYTES, opcode, lane->slot, 0, (uint64_t)transfer->nbytes, 0},
		.send = -1,
	};
	peer->framing_nbytes += PREAMBLE_NBYTES;
	touch(rank, lane->peer);
	return message;
}

static void log_access(struct rank *rank, int32_t op, int32_t is_over)
{
	if (rank->ops[op].is_logged)
		rank->accesses[rank->n_accesses++] = (struct access){op, is_over};
}

static void queue_data(struct rank *rank, int32_t number)
{
	struct transfer *send = &rank->transfers[number];

	log_access(rank, send->op, 0);
	struct message *message = queued(rank, send, DATA);

	message->preamble[0] += (uint64_t)send->nbytes;
	message->bytes = send->bytes;
	message->nbytes = send->nbytes;
	message->send = number;
}

/* Queue the sends of a lane that may leave, now or after their delay. */
static void leave(struct rank *rank, struct lane *lane)
{
	while (lane->next < lane->end && lane->credit) {
		int32_t number = rank->in_order[lane->next];
		struct transfer *send = &rank->transfers[number];

		if (!send->is_ready)
			return;
		lane->next++;
		lane->credit--;
		rank->n_under_way++;
		send->queued_ns = now_ns();
		if (rank->delay_ns)
			heap_push(&rank->delayed, send->queued_ns + rank->delay_ns, number);
		else
			queue_data(rank, number);
	}
}

/* Announce the receives of a lane that may be announced, many at a time. */
static void answer(struct rank *rank, struct lane *lane)
{
	if (lane->next_announced - lane->next > lane->announced_ahead / 2)
		return;
	while (lane->next_announced < lane->end && lane->next_announced - lane->next < lane->announced_ahead &&
		(lane->asked || !lane->has_rendezvous)) {
		struct transfer *receive = &rank->transfers[rank->in_order[lane->next_announced]];

		if (!receive->is_ready)
			return;
		lane->next_announced++;
		lane->asked -= lane->has_rendezvous;
		queued(rank, receive, RECV_READY);
	}
}

/* Operation by operation, and of each the receives first, as gloo posts them; nearly in that order already. */
static void sort_possible(struct rank *rank)
{
	for (int32_t at = 1; at < rank->n_possible; at++) {
		int32_t number = rank->possible[at], to = at;
		const struct transfer *one = &rank->transfers[number];

		for (; to; to--) {
			const struct transfer *other = &rank->transfers[rank->possible[to - 1]];

			if (other->op < one->op || (other->op == one->op && other->is_send <= one->is_send))
				break;
			rank->possible[to] = rank->possible[to - 1];
		}
		rank->possible[to] = number;
	}
}

/* Announce receives, and send what may leave. */
static void do_possible(struct rank *rank)
{
	sort_possible(rank);
	for (int32_t at = 0; at < rank->n_possible; at++) {
		struct transfer *transfer = &rank->transfers[rank->possible[at]];

		transfer->is_ready = 1;
		if (transfer->is_send) {
			queued(rank, transfer, SEND_READY);
			leave(rank, &rank->lanes[transfer->lane]);
		} else {
			answer(rank, &rank->lanes[transfer->lane]);
		}
	}
	rank->n_possible = 0;
}

/* Compute, since `since_ns`, or from now on; what comes in turn only when nothing has to be offered to the kernel. */
static void compute(struct rank *rank, int64_t since_ns)
{
	int32_t n_left = 0;

	for (int32_t at = 0; at < rank->n_gaps; at++) {
		struct operation *op = &rank->ops[rank->gaps[at]];
		int64_t begin_ns;

		if (op->is_in_turn && rank->n_touched) {
			rank->gaps[n_left++] = rank->gaps[at];
			continue;
		}
		begin_ns = since_ns ? since_ns : now_ns();
		if (op->computes)
			op->computing_ns = begin_ns;
		heap_push(&rank->computing, begin_ns + op->gap_ns, rank->gaps[at]);
	}
	rank->n_gaps = n_left;
}

static enum failure failed(struct rank *rank, int32_t peer, enum failure failure, int64_t detail)
{
	rank->failed_peer = peer;
	rank->peers[peer].detail = detail;
	return failure;
}

/* By no peer's fault. */
static enum failure failed_here(struct rank *rank)
{
	rank->error_number = errno;
	return LOCAL;
}

static void received(struct rank *rank, int32_t number)
{
	log_access(rank, rank->transfers[number].op, 1);
	rank_finished(rank, number);
}

/* The last byte of a send is the kernel's; what the other half of a swap brought may be added now. */
static void handed(struct rank *rank, int32_t number)
{
	struct transfer *send = &rank->transfers[number];

	send->handed_ns = now_ns();
	rank->n_under_way--;
	log_access(rank, send->op, 1);
	rank_finished(rank, number);
	if (rank->held[number]) {
		struct transfer *receive = &rank->transfers[send->other_half];

		add_up(receive->bytes + receive->added, rank->held[number], receive->nbytes - receive->added,
			receive->adding);
		free(rank->held[number]);
		rank->held[number] = NULL;
		received(rank, send->other_half);
	}
}

/* The messages that leave by the next call, in parts. */
static size_t parts_of(const struct peer *peer, uint32_t n_messages, struct iovec *parts)
{
	size_t n = 0;

	for (uint32_t at = 0; at < n_messages && n + 2 <= N_PARTS; at++) {
		struct message *message = &peer->out[(peer->out_head + at) % peer->out_room];
		int64_t of_head = message->taken < PREAMBLE_NBYTES ? message->taken : PREAMBLE_NBYTES;
		int64_t of_body = message->taken - of_head;

		if (of_head < PREAMBLE_NBYTES)
			parts[n++] = (struct iovec){(uint8_t *)message->preamble + of_head, (size_t)(PREAMBLE_NBYTES - of_head)};
		if (of_body < message->nbytes)
			parts[n++] = (struct iovec){(uint8_t *)message->bytes + of_body, (size_t)(message->nbytes - of_body)};
	}
	return n;
}

/* Hand the kernel what it takes now. */
static enum failure flush(struct rank *rank, int32_t number)
{
	struct peer *peer = &rank->peers[number];

	while (peer->n_out) {
		struct iovec parts[N_PARTS];
		uint32_t n_messages = rank->is_joining ? peer->n_out : 1;
		struct msghdr header = {.msg_iov = parts, .msg_iovlen = parts_of(peer, n_messages, parts)};
		ssize_t taken = sendmsg(peer->fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (taken < 0 && errno == EINTR)
			continue;
		if (taken < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			break;
		if (taken < 0)
			return failed(rank, number, BROKEN, errno);
		while (peer->n_out) {
			struct message *message = &peer->out[peer->out_head];
			int64_t left = PREAMBLE_NBYTES + message->nbytes - message->taken, of_it = taken < left ? taken : left;

			message->taken += of_it;
			taken -= of_it;
			if (of_it < left)
				break;
			peer->out_head = (peer->out_head + 1) % peer->out_room;
			peer->n_out--;
			if (message->send >= 0)
				handed(rank, message->send);
		}
	}
	return NONE;
}

/* Wake up for room to send where something waits for it, and only there. */
static enum failure watch(struct rank *rank, int32_t number)
{
	struct peer *peer = &rank->peers[number];
	uint8_t wanted = peer->n_out > 0;
	struct epoll_event event = {
		.events = EPOLLIN | (wanted ? EPOLLOUT : 0), .data.u32 = (uint32_t)number};

	if (wanted == peer->is_writing)
		return NONE;
	peer->is_writing = wanted;
	return epoll_ctl(rank->epoll, EPOLL_CTL_MOD, peer->fd, &event) ? failed(rank, number, BROKEN, errno)
								       : NONE;
}

static enum failure flush_next(struct rank *rank)
{
	int32_t peer = rank->touched[rank->first_touched];
	enum failure failure;

	rank->first_touched = (rank->first_touched + 1) % rank->n_peers;
	rank->n_touched--;
	rank->peers[peer].is_touched = 0;
	failure = flush(rank, peer);
	return failure ? failure : watch(rank, peer);
}

/* Until nothing more follows from what has happened. */
static enum failure settle(struct rank *rank, int64_t since_ns)
{
	enum failure failure = NONE;

	while (!failure && (rank->n_possible || rank->n_gaps || rank->n_touched)) {
		do_possible(rank);
		compute(rank, since_ns);
		since_ns = 0;
		if (rank->n_touched)
			failure = flush_next(rank);
	}
	return failure;
}

static struct lane *lane_of(struct rank *rank, const struct peer *peer, int of_sends, uint64_t slot)
{
	int32_t low = peer->first_lane[of_sends], high = low + peer->n_lanes[of_sends];

	while (low < high) {
		int32_t middle = low + (high - low) / 2;

		if (rank->lanes[middle].slot < slot)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == peer->first_lane[of_sends] + peer->n_lanes[of_sends] || rank->lanes[low].slot != slot)
		return NULL;
	return &rank->lanes[low];
}

/* Add what has come as far as nobody else still reads what it is added to: then little is left when all is there.
 * A centre's numbers change at once or not at all, as its log has them.
 */
static void add_what_came(struct rank *rank, const struct peer *peer)
{
	struct transfer *receive = &rank->transfers[peer->receiving];
	const struct message *first = &peer->out[peer->out_head];
	int64_t limit = peer->body_got;

	if (!receive->adding || (rank->ops[receive->op].is_logged && limit < receive->nbytes))
		return;
	if (receive->other_half >= 0 && !rank->transfers[receive->other_half].is_over) {
		int64_t read = peer->n_out && first->send == receive->other_half ? first->taken - PREAMBLE_NBYTES : 0;

		limit = read < limit ? read : limit;
	}
	if (limit < receive->nbytes)
		limit -= limit % 4;
	if (limit <= receive->added)
		return;
	add_up(receive->bytes + receive->added, peer->scratch + receive->added, limit - receive->added,
		receive->adding);
	receive->added = limit;
}

/* All bytes of a receive are there. */
static enum failure arrived(struct rank *rank, int32_t from)
{
	struct peer *peer = &rank->peers[from];
	int32_t number = peer->receiving;
	struct transfer *receive = &rank->transfers[number];

	peer->receiving = -1;
	rank->n_under_way--;
	receive->arrived_ns = rank->read_ns;
	if (receive->adding && receive->added < receive->nbytes) {
		/* our half of the swap still reads what this adds to */
		size_t left = (size_t)(receive->nbytes - receive->added);
		uint8_t *held = malloc(left);

		if (!held)
			return failed(rank, from, BROKEN, ENOMEM);
		rank->held[receive->other_half] = memcpy(held, peer->scratch + receive->added, left);
		return NONE;
	}
	received(rank, number);
	return NONE;
}

static int is_gloos(const uint64_t *preamble)
{
	uint64_t payload = preamble[1] == SEND_BUFFER || preamble[1] == DATA ? preamble[4] : 0;
	uint64_t most = preamble[1] == SEND_BUFFER ? MAX_LENGTH : 0;

	return preamble[1] <= RECV_READY && preamble[4] <= MAX_LENGTH && preamble[2] >> 56 <= N_COLLECTIVES &&
	       preamble[0] == PREAMBLE_NBYTES + payload && preamble[3] <= most && preamble[5] <= most;
}

/* A preamble is complete: do what it asks for. */
static enum failure take_preamble(struct rank *rank, int32_t number)
{
	struct peer *peer = &rank->peers[number];
	uint64_t preamble[6];
	struct lane *lane;

	memcpy(preamble, peer->head, sizeof(preamble));
	peer->head_got = 0;
	if (!is_gloos(preamble))
		return failed(rank, number, NOT_GLOO, 0);
	lane = lane_of(rank, peer, preamble[1] == RECV_READY, preamble[2]);
	if (preamble[1] == DATA) {
		int32_t next = lane && lane->next < lane->end ? rank->in_order[lane->next] : -1;

		if (next < 0 || (uint64_t)rank->transfers[next].nbytes != preamble[4]) {
			peer->slot = preamble[2];
			return failed(rank, number, UNPLANNED, (int64_t)preamble[4]);
		}
		lane->next++;
		answer(rank, lane);
		rank->n_under_way++;
		peer->receiving = next;
		peer->body = rank->transfers[next].adding ? peer->scratch : rank->transfers[next].bytes;
		peer->body_got = 0;
		if (!preamble[4])
			return arrived(rank, number);
	} else if (lane && preamble[1] == RECV_READY && lane->credit < lane->end - lane->next) {
		lane->credit++;
		leave(rank, lane);
	} else if (lane && preamble[1] == SEND_READY) {
		if (lane->asked < lane->end - lane->next_announced) {
			lane->asked++;
			answer(rank, lane);
		}
		if (lane->next_asked < lane->end)
			rank_asked(rank, rank->in_order[lane->next_asked++]);
	}
	return NONE;
}

/* Everything that has come from a peer: the rest of a payload and the next preamble by one call.
 * It was there before that, and what is computed then begins then: a captured job copied and added it, too, in the
 * time that it computed by its packets.
 */
static enum failure receive(struct rank *rank, int32_t number)
{
	struct peer *peer = &rank->peers[number];

	for (;;) {
		int64_t left = peer->receiving >= 0 ? rank->transfers[peer->receiving].nbytes - peer->body_got : 0;
		struct iovec parts[2] = {
			{peer->body + peer->body_got, (size_t)left},
			{peer->head + peer->head_got, (size_t)(PREAMBLE_NBYTES - peer->head_got)},
		};
		struct msghdr header = {.msg_iov = left ? parts : parts + 1, .msg_iovlen = left ? 2 : 1};
		int64_t room = left + PREAMBLE_NBYTES - peer->head_got;
		ssize_t got;
		enum failure failure = NONE;

		rank->read_ns = now_ns();
		got = recvmsg(peer->fd, &header, MSG_DONTWAIT);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return NONE;
		if (got < 0)
			return failed(rank, number, BROKEN, errno);
		if (!got)
			return failed(rank, number, CLOSED, 0);
		peer->body_got += got < left ? got : left;
		peer->head_got += got > left ? (int32_t)(got - left) : 0;
		if (left)
			add_what_came(rank, peer);
		if (left && got >= left)
			failure = arrived(rank, number);
		if (!failure && peer->head_got == PREAMBLE_NBYTES)
			failure = take_preamble(rank, number);
		if (!failure)
			failure = settle(rank, rank->read_ns);
		if (failure || got < room) /* epoll is level-triggered: no need to ask until the kernel says "no more" */
			return failure;
	}
}

static enum failure end_gaps(struct rank *rank)
{
	enum failure failure = NONE;

	while (!failure && rank->computing.n && rank->computing.at[0].due_ns <= now_ns()) {
		int64_t due_ns = rank->computing.at[0].due_ns, late_ns = now_ns() - due_ns;
		int32_t op = heap_pop(&rank->computing);

		if (late_ns > rank->late_gap_ns)
			rank->late_gap_ns = late_ns;
		if (rank->ops[op].computes)
			rank->ops[op].computed_ns = due_ns + late_ns;
		rank_opened(rank, op);
		failure = settle(rank, due_ns);
	}
	return failure;
}

static enum failure end_delays(struct rank *rank)
{
	enum failure failure = NONE;

	while (!failure && rank->delayed.n && rank->delayed.at[0].due_ns <= now_ns()) {
		queue_data(rank, heap_pop(&rank->delayed));
		failure = settle(rank, 0);
	}
	return failure;
}

static int64_t until_ns(const struct rank *rank)
{
	int64_t due_ns = rank->heard_ns + rank->stall_ns;

	if (rank->computing.n || rank->delayed.n) {
		due_ns = rank->computing.n ? rank->computing.at[0].due_ns : INT64_MAX;
		if (rank->delayed.n && rank->delayed.at[0].due_ns < due_ns)
			due_ns = rank->delayed.at[0].due_ns;
	}
	return due_ns;
}

static void show(const struct rank *rank)
{
	if (!rank->place)
		return;
	rank->place[0] = rank->n_done;
	rank->place[2] = rank->n_under_way;
	rank->place[3] = rank->n_transfers - rank->n_unfinished;
}

/* How long this thread ran, and how long it was ready to run and did not (Documentation/scheduler/sched-stats.rst). */
static enum failure read_scheduled(int64_t *ran_ns, int64_t *waited_ns)
{
	char said[64] = "";
	int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		return NO_SCHEDSTAT;
	got = read(fd, said, sizeof(said) - 1);
	close(fd);
	return got > 0 && sscanf(said, "%" SCNd64 " %" SCNd64, ran_ns, waited_ns) == 2 ? NONE : NO_SCHEDSTAT;
}

static enum failure prepare(struct rank *rank)
{
	prctl(PR_SET_TIMERSLACK, 1UL); /* else what is computed takes 50 us longer */
	rank->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (rank->epoll < 0)
		return failed_here(rank);
	for (int32_t number = 0; number < rank->n_peers; number++) {
		struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)number};

		if (epoll_ctl(rank->epoll, EPOLL_CTL_ADD, rank->peers[number].fd, &event))
			return failed(rank, number, BROKEN, errno);
	}
	return read_scheduled(&rank->ran_before_ns, &rank->waited_before_ns);
}

/* No spinning: the other ranks share these processors. */
static enum failure begin(struct rank *rank)
{
	struct timespec start = {rank->start_ns / 1000000000, rank->start_ns % 1000000000};

	if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &start, NULL) == EINTR)
		return INTERRUPTED;
	rank->began_ns = rank->heard_ns = now_ns();
	rank_begin(rank);
	return settle(rank, 0);
}

static enum failure loop(struct rank *rank)
{
	enum failure failure = NONE;

	while (!failure && (rank->n_unfinished || rank->n_uncomputed)) {
		struct epoll_event events[N_EVENTS];
		int64_t left_ns = until_ns(rank) - now_ns();
		struct timespec left = {0};
		int n;

		if (left_ns > 0)
			left = (struct timespec){left_ns / 1000000000, left_ns % 1000000000};
		show(rank);
		n = epoll_pwait2(rank->epoll, events, N_EVENTS, &left, NULL);
		if (n < 0)
			return errno == EINTR ? INTERRUPTED : failed_here(rank);
		if (n || rank->computing.n || rank->delayed.n)
			rank->heard_ns = now_ns();
		else if (now_ns() - rank->heard_ns >= rank->stall_ns)
			return STALLED;
		for (int at = 0; at < n && !failure; at++) {
			int32_t peer = (int32_t)events[at].data.u32;

			if (events[at].events & ~EPOLLOUT)
				failure = receive(rank, peer);
			if (!failure && events[at].events & EPOLLOUT) {
				touch(rank, peer);
				failure = settle(rank, 0);
			}
		}
		if (!failure)
			failure = end_gaps(rank);
		if (!failure)
			failure = end_delays(rank);
	}
	show(rank);
	return failure;
}

/* What Python does at a rank's end would keep those that are not done from their processors: board.py. */
static enum failure end(struct rank *rank)
{
	enum failure failure = read_scheduled(&rank->cpu_ns, &rank->run_delay_ns);

	rank->done_ns = now_ns();
	rank->cpu_ns -= rank->ran_before_ns;
	rank->run_delay_ns -= rank->waited_before_ns;
	if (!failure && rank->line) {
		int32_t n_came;

		*rank->is_there = 1;
		n_came = __atomic_add_fetch(rank->line, 1, __ATOMIC_SEQ_CST);
		rank->n_for_all = (n_came + rank->n_here - 1) / rank->n_here * rank->n_here;
		if (n_came == rank->n_for_all)
			syscall(SYS_futex, rank->line, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	}
	return failure;
}

static enum failure wait_for_all(struct rank *rank)
{
	int32_t n_came;

	while ((n_came = __atomic_load_n(rank->line, __ATOMIC_SEQ_CST)) < rank->n_for_all)
		if (syscall(SYS_futex, rank->line, FUTEX_WAIT, n_came, NULL, NULL, 0) && errno != EAGAIN)
			return errno == EINTR ? INTERRUPTED : failed_here(rank);
	*rank->is_there = 0;
	return NONE;
}

/* The size of each structure that Python must lay out as C does, by its place here; 0 beyond the last. */
__attribute__((visibility("default"))) int64_t rank_layout(uint32_t place)
{
	static const int64_t sizes[] = {
		sizeof(struct rank), sizeof(struct peer), sizeof(struct transfer), sizeof(struct operation),
		sizeof(struct lane), sizeof(struct access), sizeof(struct due), sizeof(struct message),
	};

	return place < sizeof(sizes) / sizeof(*sizes) ? sizes[place] : 0;
}

/* All of a repeat.  After INTERRUPTED it is to be called again and goes on: what is over shows in `epoll`, `began_ns`
 * and `done_ns`.
 */
__attribute__((visibility("default"))) enum failure rank_run(struct rank *rank)
{
	enum failure failure = rank->epoll < 0 ? prepare(rank) : NONE;

	if (!failure && !rank->began_ns)
		failure = begin(rank);
	if (!failure)
		failure = loop(rank);
	if (!failure && !rank->done_ns)
		failure = end(rank);
	if (!failure && rank->line)
		failure = wait_for_all(rank);
	if (failure != INTERRUPTED && rank->epoll >= 0)
		close(rank->epoll);
	return failure;
}
