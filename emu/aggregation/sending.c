/* The queue of what may be sent, how it goes to the kernel, and when it goes again. */
#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "worker.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103 /* linux/udp.h; Debian 12's netinet/udp.h lacks it */
#endif

static const int64_t GRANULARITY_NS = 10 * 1000 * 1000;
static const int64_t MOST_TIMEOUT_NS = 500 * 1000 * 1000;

void queue(struct worker *w, struct slot *slot)
{
	if (slot->is_queued)
		return;
	slot->is_queued = true;
	w->queue[(w->queue_head + w->n_queued++) % w->n_slots] = slot - w->slots;
}

/* RFC 6298, with a granularity that is what a busy machine may keep a process waiting, and a round trip more:
 * where a stall once makes a whole window go twice, the true round trip becomes that of two windows, and a
 * timeout between the two would keep it so.  Doubled for each time that the chunk waited for it in vain.
 */
static int64_t timeout_ns(const struct worker *w, uint32_t n_timeouts)
{
	int64_t margin = 4 * w->variation_ns;
	int64_t timeout = 2 * w->round_trip_ns + (margin > GRANULARITY_NS ? margin : GRANULARITY_NS);

	for (uint32_t n = w->n_backoffs + n_timeouts; n && timeout < MOST_TIMEOUT_NS; n--)
		timeout *= 2;
	return timeout < MOST_TIMEOUT_NS ? timeout : MOST_TIMEOUT_NS;
}

/* One data chunk at a time is timed, as RFC 6298 means it: its gains are for one sample a round trip.
 * Not the others: their results wait for ranks that still compute.  If it has to go again, the
 * answer may be for either; after a timeout all wait longer, or one that is too short would
 * never be found out (Karn, Partridge, 1987).
 */
static void start_timing(struct worker *w, const struct slot *slot, bool is_timeout)
{
	if (slot->chunk == w->timed_chunk) {
		w->timed_chunk = UINT64_MAX;
		w->n_backoffs += is_timeout;
	} else if (w->timed_chunk == UINT64_MAX && !slot->n_sent && is_data(w, slot)) {
		w->timed_chunk = slot->chunk;
	}
}

static void take_sample(struct worker *w, int64_t sample)
{
	w->variation_ns += (llabs(sample - w->round_trip_ns) - w->variation_ns) / 4;
	w->round_trip_ns += (sample - w->round_trip_ns) / 8;
	w->n_backoffs = 0;
}

/* A result has come for what was sent a while after this chunk.  All ranks send the same chunks in the same
 * order, and cables keep it, so somebody's packet of this one, or its result, is lost: as RFC 8985 (RACK)
 * finds out.  To wait for the timeout would make each loss cost several round trips of the slot.
 */
bool is_overtaken(const struct worker *w, const struct slot *slot)
{
	return is_data(w, slot) && slot->sent_ns + w->round_trip_ns / 4 < w->answered_ns;
}

/* The result of this chunk is here.  Of one that went twice it may be for the first. */
void note_answer(struct worker *w, const struct slot *slot)
{
	if (slot->n_sent == 1 && is_data(w, slot)) {
		if (slot->chunk == w->timed_chunk || w->n_backoffs)
			take_sample(w, w->now_ns - slot->sent_ns);
		if (slot->sent_ns > w->answered_ns)
			w->answered_ns = slot->sent_ns;
	}
	if (slot->chunk == w->timed_chunk)
		w->timed_chunk = UINT64_MAX;
}

static void was_sent(struct worker *w, struct slot *slot)
{
	bool is_timeout = slot->n_sent && slot->due_ns <= w->now_ns;

	start_timing(w, slot, is_timeout);
	if (slot->n_sent++)
		w->report.retransmitted++;
	else
		w->report.sent++;
	slot->n_timeouts = is_timeout ? slot->n_timeouts + 1 : 0; /* overtaken: the others do arrive */
	slot->sent_ns = w->now_ns;
	slot->due_ns = w->now_ns + timeout_ns(w, slot->n_timeouts);
	slot->is_queued = false;
}

static uint32_t packet_nbytes(const struct worker *w, const struct slot *slot)
{
	const struct packet *packet = packet_of(w, slot);

	return sizeof(*packet) + be16toh(packet->header.count) * sizeof(*packet->elements);
}

/* A batch of packets, as messages: one for each run of packets of equal length, which the kernel cuts apart. */
struct batch {
	uint32_t n_packets, n_messages;
	struct slot *slots[BATCH];
	struct iovec pieces[BATCH];
	struct mmsghdr messages[BATCH];
	_Alignas(struct cmsghdr) char controls[BATCH][CMSG_SPACE(sizeof(uint16_t))];
};

static void add_message(struct batch *batch)
{
	struct msghdr *message = &batch->messages[batch->n_messages++].msg_hdr;

	*message = (struct msghdr){.msg_iov = &batch->pieces[batch->n_packets]};
}

static void ask_for_segments(struct batch *batch, uint32_t number)
{
	struct msghdr *message = &batch->messages[number].msg_hdr;
	struct cmsghdr *control = (struct cmsghdr *)batch->controls[number];
	uint16_t nbytes = message->msg_iov->iov_len;

	if (message->msg_iovlen < 2)
		return;
	message->msg_control = control;
	message->msg_controllen = sizeof(batch->controls[number]);
	*control = (struct cmsghdr){CMSG_LEN(sizeof(nbytes)), IPPROTO_UDP, UDP_SEGMENT};
	memcpy(CMSG_DATA(control), &nbytes, sizeof(nbytes));
}

/* The head of the queue; it stays there until it is sent. */
static void gather(struct worker *w, struct batch *batch)
{
	struct msghdr *last = NULL;

	batch->n_packets = batch->n_messages = 0;
	for (uint32_t i = 0; i < w->n_queued && batch->n_packets < BATCH; i++) {
		struct slot *slot = &w->slots[w->queue[(w->queue_head + i) % w->n_slots]];
		uint32_t nbytes = packet_nbytes(w, slot);

		if (!last || last->msg_iovlen == w->segments || last->msg_iov->iov_len != nbytes) {
			add_message(batch);
			last = &batch->messages[batch->n_messages - 1].msg_hdr;
		}
		batch->slots[batch->n_packets] = slot;
		batch->pieces[batch->n_packets++] = (struct iovec){packet_of(w, slot), nbytes};
		last->msg_iovlen++;
	}
	for (uint32_t i = 0; i < batch->n_messages; i++)
		ask_for_segments(batch, i);
}

/* The first `n_messages` of the batch are gone. */
static void leave_queue(struct worker *w, const struct batch *batch, uint32_t n_messages)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < n_messages; i++)
		n += batch->messages[i].msg_hdr.msg_iovlen;
	for (uint32_t i = 0; i < n; i++)
		was_sent(w, batch->slots[i]);
	w->queue_head = (w->queue_head + n) % w->n_slots;
	w->n_queued -= n;
}

/* A network that is down for a while loses packets; that is what timeouts are for. */
bool is_loss(int error_number)
{
	return error_number == ENOBUFS || error_number == ECONNREFUSED || error_number == ENETDOWN ||
	       error_number == ENETUNREACH || error_number == EHOSTUNREACH;
}

/* Results that came while their chunk waited to be sent again have left holes in the queue. */
static void drop_finished(struct worker *w)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < w->n_queued; i++) {
		uint32_t number = w->queue[(w->queue_head + i) % w->n_slots];

		if (w->slots[number].is_flying)
			w->queue[(w->queue_head + kept++) % w->n_slots] = number;
		else
			w->slots[number].is_queued = false;
	}
	w->n_queued = kept;
}

void flush(struct worker *w)
{
	struct batch batch;

	drop_finished(w);
	w->report.wants_to_send = false;
	while (w->n_queued && !w->failure) {
		int n;

		gather(w, &batch);
		n = sendmmsg(w->fd, batch.messages, batch.n_messages, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n > 0)
			leave_queue(w, &batch, n);
		else if (errno == EAGAIN) {
			w->report.wants_to_send = true;
			return;
		} else if ((errno == EIO || errno == EINVAL) && w->segments > 1)
			w->segments = 1; /* the device computes no checksums, so it cannot cut either */
		else if (is_loss(errno))
			leave_queue(w, &batch, 1);
		else if (errno != EINTR)
			fail_with(w, errno);
	}
}

/* Of an epoch that the switch cannot be in: whatever it is, it answers with it, and touches no slot. */
void send_probe(struct worker *w)
{
	struct header header = {
		.version = VERSION,
		.kind = CONTRIBUTION,
		.job = htobe16(w->job),
		.epoch = htobe16(w->epoch - 1),
		.peak = htobe32(INT32_MIN),
	};

	if (send(w->fd, &header, sizeof(header), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(header))
		w->report.probes++;
}
