/* One rank's side of one aggregation tree: what comes in is judged here, and what is due is set off.
 *
 * Nothing here blocks or reads a clock: worker_step is called with the time when the socket is ready or when
 * report.due_ns has come, by worker.py or by waiting.c.  stream.c knows what the chunks mean, sums.c what they
 * carry, sending.c sends them.  Read worker.h, then those, then this.
 */
#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "worker.h"

enum { ROUNDS = 8 }; /* batches that one step receives: the caller has other sockets too */

static const int64_t PROBE_NS = 500 * 1000 * 1000;
static const int64_t MOST_PAUSE_NS = 4 * 1000 * 1000;

void fail(struct worker *w, enum failure failure)
{
	if (!w->failure)
		w->failure = failure;
}

void fail_with(struct worker *w, int error_number)
{
	w->report.error_number = error_number;
	fail(w, BROKEN);
}

/* Receiving. */

static void take_status(struct worker *w, const struct slot *slot, const struct header *header)
{
	w->report.statuses++;
	if (!is_data(w, slot))
		return;
	w->report.has_status = true;
	w->report.levels = be16toh(header->count);
	w->report.seen = be64toh(header->seen);
}

/* Nothing is to be done, but others may need again what this rank has given. */
static bool is_idle(const struct worker *w)
{
	return !w->n_flying && w->first < w->end && w->unfinished == w->end;
}

/* Whatever is not an answer that is due is ignored. */
static void take(struct worker *w, const struct packet *packet, uint32_t nbytes)
{
	const struct header *header = &packet->header;
	uint32_t chunk, n_elements;
	struct slot *slot;
	bool is_due;

	if (nbytes < sizeof(*header) || header->version != VERSION || be16toh(header->job) != w->job)
		return;
	chunk = be32toh(header->chunk);
	slot = &w->slots[chunk % w->n_slots];
	is_due = slot->is_flying && slot->n_sent && slot->chunk == chunk;
	n_elements = (nbytes - sizeof(*header)) / sizeof(*packet->elements);
	if (nbytes != sizeof(*header) + n_elements * sizeof(*packet->elements))
		return;
	if (header->kind == EPOCH) {
		if (!n_elements && be16toh(header->epoch) > w->epoch && (is_due || is_idle(w)))
			restart(w, be16toh(header->epoch));
		return;
	}
	if (be16toh(header->epoch) != w->epoch)
		return;
	if (header->kind == RESULT && be16toh(header->count) == n_elements) {
		if (is_due && n_elements == due_count(w, slot)) {
			note_answer(w, slot);
			take_result(w, slot, packet);
		} else if (chunk < slot->chunk)
			w->report.duplicates++;
		w->heard_ns = w->now_ns;
	} else if (header->kind == STATUS && !n_elements && is_due) {
		w->heard_ns = w->now_ns;
		take_status(w, slot, header);
	}
}

/* Returns how many packets came, at most BATCH. */
static uint32_t receive(struct worker *w)
{
	struct mmsghdr messages[BATCH] = {0};
	struct iovec pieces[BATCH];
	uint32_t room = w->packet_nbytes + sizeof(uint64_t); /* more than any packet may have */
	int n;

	for (uint32_t i = 0; i < BATCH; i++) {
		pieces[i] = (struct iovec){w->inbox + (uint64_t)i * room, room};
		messages[i].msg_hdr = (struct msghdr){.msg_iov = &pieces[i], .msg_iovlen = 1};
	}
	n = recvmmsg(w->fd, messages, BATCH, MSG_DONTWAIT, NULL);
	if (n < 0 && errno != EAGAIN && errno != EINTR && !is_loss(errno))
		fail_with(w, errno);
	for (int i = 0; i < n && !w->failure; i++)
		take(w, (const struct packet *)pieces[i].iov_base, messages[i].msg_len);
	return n < 0 ? 0 : n;
}

/* Steps. */

static void send_again(struct worker *w)
{
	for (uint32_t i = 0; i < w->n_slots; i++) {
		struct slot *slot = &w->slots[i];

		if (slot->is_flying && slot->n_sent && (slot->due_ns <= w->now_ns || is_overtaken(w, slot)))
			queue(w, slot);
	}
}

/* As long as ranks may not have begun, a status is answer enough; nobody waits for one that is done. */
static void check_patience(struct worker *w)
{
	if (!w->n_flying || w->unfinished == w->end)
		return;
	if (w->now_ns - w->heard_ns > w->patience_ns)
		fail(w, NO_ANSWER);
	else if (w->n_data_flying && w->now_ns - w->progress_ns > w->patience_ns)
		fail(w, INCOMPLETE);
}

/* While the window is full a quarter of it may gather: to be woken by every packet costs more than it. */
static void report_times(struct worker *w)
{
	int64_t pause = w->round_trip_ns / 4;
	bool is_full = w->n_data_flying >= w->n_slots - w->n_slots / 4 && !w->n_queued;

	w->report.pause_ns = !is_full ? 0 : pause < MOST_PAUSE_NS ? pause : MOST_PAUSE_NS;
	w->report.due_ns = is_idle(w) ? w->probe_ns : NEVER;
	for (uint32_t i = 0; i < w->n_slots; i++) {
		const struct slot *slot = &w->slots[i];

		if (slot->is_flying && !slot->is_queued && slot->due_ns < w->report.due_ns)
			w->report.due_ns = slot->due_ns;
	}
}

/* Receive, send what may be sent.  Returns an enum failure, which stays. */
EXPORTED int worker_step(struct worker *w, int64_t now_ns)
{
	bool was_idle = is_idle(w);
	uint32_t n = BATCH;

	w->now_ns = now_ns;
	w->report.n_finished = 0;
	fill_all(w);
	for (int i = 0; i < ROUNDS && n == BATCH && w->report.n_finished <= FINISHED - BATCH && !w->failure; i++) {
		n = receive(w);
		flush(w);
	}
	send_again(w);
	flush(w);
	check_patience(w);
	if (is_idle(w) && !was_idle)
		w->probe_ns = now_ns + PROBE_NS;
	else if (is_idle(w) && w->probe_ns <= now_ns) {
		send_probe(w);
		w->probe_ns = now_ns + PROBE_NS;
	}
	report_times(w);
	return w->failure;
}

EXPORTED struct report *worker_report(struct worker *w)
{
	return &w->report;
}

EXPORTED void worker_free(struct worker *w)
{
	if (!w)
		return;
	free(w->sums);
	free(w->slots);
	free(w->packets);
	free(w->queue);
	free(w->inbox);
	free(w);
}

/* `segments` packets at most go to the kernel as one.  Returns NULL if there is no memory. */
EXPORTED struct worker *worker_new(int fd, uint16_t job, uint16_t epoch, uint32_t n_slots, uint32_t elements,
				   uint32_t givers_log2, uint32_t segments, int64_t round_trip_ns,
				   int64_t patience_ns)
{
	struct worker *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	*w = (struct worker){
		.report = {.due_ns = NEVER, .epoch = epoch},
		.fd = fd,
		.job = job,
		.epoch = epoch,
		.n_slots = n_slots,
		.elements = elements,
		.givers_log2 = givers_log2,
		.segments = segments,
		.patience_ns = patience_ns,
		.round_trip_ns = round_trip_ns,
		.variation_ns = round_trip_ns / 2,
		.timed_chunk = UINT64_MAX,
		.packet_nbytes = (sizeof(struct packet) + elements * sizeof(uint32_t) + 7) & ~7u,
		.slots = calloc(n_slots, sizeof(*w->slots)),
		.queue = calloc(n_slots, sizeof(*w->queue)),
	};
	w->packets = calloc(n_slots, w->packet_nbytes);
	w->inbox = calloc(BATCH, w->packet_nbytes + sizeof(uint64_t));
	if (!w->slots || !w->queue || !w->packets || !w->inbox) {
		worker_free(w);
		return NULL;
	}
	for (uint32_t i = 0; i < n_slots; i++)
		w->slots[i].chunk = i;
	return w;
}
