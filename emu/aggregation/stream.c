/* The stream of chunks of one group in one epoch: which chunk is what, what it carries, what its result says.
 *
 * Chunk 0 is the sync chunk: its result's peak is minus the position at which all begin.  Each sum follows as
 * a prime chunk, whose peak is the exponent of the first n_slots blocks, and its blocks as data chunks: the
 * one of block j brings the exponent of block j + n_slots, which is the next block in the same slot.
 */
#include <endian.h>
#include <stdlib.h>

#include "numbers.h"
#include "worker.h"

struct packet *packet_of(const struct worker *w, const struct slot *slot)
{
	return (struct packet *)(w->packets + (uint64_t)w->packet_nbytes * (slot - w->slots));
}

static void write_header(struct worker *w, struct slot *slot, uint32_t count, int32_t peak)
{
	packet_of(w, slot)->header = (struct header){
		.version = VERSION,
		.kind = CONTRIBUTION,
		.job = htobe16(w->job),
		.epoch = htobe16(w->epoch),
		.count = htobe16(count),
		.chunk = htobe32(slot->chunk),
		.peak = htobe32((uint32_t)peak),
	};
}

/* The exponent of our elements [at, at + n), as far as there are so many. */
static int32_t own_exponent(struct worker *w, const struct sum *sum, uint64_t at, uint64_t n)
{
	uint64_t left = at < sum->n_elements ? sum->n_elements - at : 0;
	uint32_t most;

	if (!sum->data || !left)
		return NO_PEAK;
	n = n < left ? n : left;
	most = largest(sum->data + at, n);
	if (most < FLOAT_INFINITY)
		return exponent(most);
	while (magnitude(sum->data + at) < FLOAT_INFINITY)
		at++;
	w->told.position = w->first + (sum - w->sums);
	w->told.element = at;
	fail(w, NOT_FINITE);
	return NO_PEAK;
}

static uint32_t block_elements(const struct worker *w, const struct sum *sum, uint64_t block)
{
	uint64_t left = sum->n_elements - block * w->elements;

	return left < w->elements ? left : w->elements;
}

static void write_data(struct worker *w, struct slot *slot, const struct sum *sum, uint64_t block)
{
	uint64_t next = (block + w->n_slots) * w->elements;
	uint32_t n = sum->data ? block_elements(w, sum, block) : 0;
	uint32_t *elements = packet_of(w, slot)->elements;
	int32_t agreed = sum->exponents[block];

	write_header(w, slot, n, own_exponent(w, sum, next, w->elements));
	if (agreed == NO_PEAK)
		memset(elements, 0, n * sizeof(*elements));
	else if (n)
		to_ints(elements, sum->data + block * w->elements, n,
			SUM_BITS - (int)w->givers_log2 - agreed);
}

/* Get the slot's next chunk ready, if it may be sent. */
void fill(struct worker *w, struct slot *slot)
{
	struct sum *sum;

	if (slot->is_flying || w->failure)
		return;
	if (!w->is_synced) {
		if (slot->chunk || w->end == 0)
			return;
		write_header(w, slot, 0, (int32_t)-w->unfinished);
	} else {
		if (slot->position < w->first)
			slot->position = w->first;
		while (slot->position < w->end &&
		       slot->chunk > sum_at(w, slot->position)->prime + sum_at(w, slot->position)->n_data)
			slot->position++;
		if (slot->position == w->end)
			return;
		sum = sum_at(w, slot->position);
		if (slot->chunk == sum->prime)
			write_header(w, slot, 0, own_exponent(w, sum, 0, (uint64_t)w->n_slots * w->elements));
		else if (sum->is_primed)
			write_data(w, slot, sum, slot->chunk - sum->prime - 1);
		else
			return;
	}
	if (!w->n_flying++)
		w->progress_ns = w->heard_ns = w->now_ns;
	slot->is_flying = true;
	slot->n_sent = slot->n_timeouts = 0;
	w->n_data_flying += is_data(w, slot);
	queue(w, slot);
}

void fill_all(struct worker *w)
{
	for (uint32_t i = 0; i < w->n_slots; i++)
		fill(w, &w->slots[i]);
}

/* Of a chunk under way. */
bool is_data(const struct worker *w, const struct slot *slot)
{
	return slot->chunk && slot->chunk != sum_at(w, slot->position)->prime;
}

/* How many elements the result of a chunk under way has. */
uint32_t due_count(const struct worker *w, const struct slot *slot)
{
	const struct sum *sum;

	if (!is_data(w, slot))
		return 0;
	sum = sum_at(w, slot->position);
	return sum->into ? block_elements(w, sum, slot->chunk - sum->prime - 1) : 0;
}

/* Give a sum its place in the stream. */
static void place(struct worker *w, struct sum *sum)
{
	sum->prime = w->stream_end;
	sum->left = 1 + sum->n_data;
	sum->is_primed = false;
	w->stream_end += sum->left;
	if (w->stream_end > 1ull << 32)
		fail(w, NO_CHUNKS);
}

static void take_sync(struct worker *w, int64_t start)
{
	if (start < w->first) {
		fail(w, FORGOTTEN);
		return;
	}
	w->is_synced = true;
	w->stream_end = 1;
	for (uint32_t i = 0; i < w->n_slots; i++)
		w->slots[i].position = start;
	for (int64_t position = w->first; position < w->end; position++) {
		sum_at(w, position)->left = 0;
		if (position >= start)
			place(w, sum_at(w, position));
	}
}

static void finish(struct worker *w, struct sum *sum)
{
	if (sum->is_finished) /* in an earlier epoch: who has it already has helped the others */
		return;
	sum->is_finished = true;
	w->told.finished[w->told.n_finished++] = w->first + (sum - w->sums);
	while (w->unfinished < w->end && sum_at(w, w->unfinished)->is_finished)
		w->unfinished++;
}

static void take_prime(struct worker *w, struct sum *sum, int32_t peak)
{
	for (uint64_t block = 0; block < w->n_slots && block < sum->n_data; block++)
		sum->exponents[block] = peak;
	sum->is_primed = true;
}

static void take_data(struct worker *w, const struct sum *sum, uint64_t block, const struct packet *packet)
{
	int32_t agreed = sum->exponents[block], k = SUM_BITS - (int)w->givers_log2 - agreed;

	/* A finished sum is the caller's again. */
	if (sum->into && !sum->is_finished)
		to_floats(sum->into + block * w->elements, packet->elements, block_elements(w, sum, block),
			  agreed == NO_PEAK ? 0 : power_of_two(-k));
	if (block + w->n_slots < sum->n_data)
		sum->exponents[block + w->n_slots] = (int32_t)be32toh(packet->header.peak);
}

/* The result of a chunk under way; with due_count elements.  One that cannot be is ignored. */
void take_result(struct worker *w, struct slot *slot, const struct packet *packet)
{
	int32_t peak = be32toh(packet->header.peak), ours = be32toh(packet_of(w, slot)->header.peak);
	struct sum *sum = slot->chunk ? sum_at(w, slot->position) : NULL;
	bool is_prime = sum && slot->chunk == sum->prime;

	/* The largest of all: scaled by less, our own numbers would not fit. */
	if (peak < ours || (sum ? !is_exponent(peak) : peak > 0))
		return;
	w->told.received++;
	w->progress_ns = w->now_ns;
	w->n_flying--;
	w->n_data_flying -= sum && !is_prime;
	slot->is_flying = false;
	if (!sum)
		take_sync(w, -(int64_t)peak);
	else if (is_prime)
		take_prime(w, sum, peak);
	else
		take_data(w, sum, slot->chunk - sum->prime - 1, packet);
	if (sum && !--sum->left)
		finish(w, sum);
	slot->chunk += w->n_slots;
	if (!sum || is_prime)
		fill_all(w);
	else
		fill(w, slot);
}

/* The tree was built anew: none of what is under way counts any more. */
void restart(struct worker *w, uint16_t epoch)
{
	w->told.moves++;
	w->told.epoch = w->epoch = epoch;
	w->told.has_status = 0;
	w->is_synced = false;
	w->n_flying = w->n_data_flying = w->n_queued = 0;
	w->timed_chunk = UINT64_MAX;
	for (uint32_t i = 0; i < w->n_slots; i++)
		w->slots[i] = (struct slot){.chunk = i, .position = w->first};
	fill_all(w);
}

/* Room for one more sum, or NULL. */
static struct sum *append(struct worker *w)
{
	if (w->end - w->first == (int64_t)w->room) {
		uint64_t room = w->room ? 2 * w->room : 16;
		struct sum *sums = reallocarray(w->sums, room, sizeof(*sums));

		if (!sums)
			return NULL;
		w->sums = sums;
		w->room = room;
	}
	return &w->sums[w->end - w->first];
}

/* Queue the group's next sum; returns its position, or -1 if there is no memory. */
EXPORTED int64_t worker_begin(struct worker *w, const float *data, float *into, int32_t *exponents,
			      uint64_t n_elements)
{
	struct sum *sum = append(w);

	if (!sum)
		return -1;
	*sum = (struct sum){
		.data = data,
		.into = into,
		.exponents = exponents,
		.n_elements = n_elements,
		.n_data = (n_elements + w->elements - 1) / w->elements,
	};
	w->end++;
	if (w->is_synced)
		place(w, sum);
	w->told.due_ns = 0;
	return w->end - 1;
}

/* Keep none of the leading sums that are over: all ranks have them.  Returns the first position kept.
 *
 * One that is being helped with in a new epoch stays until its last result is here.
 */
EXPORTED int64_t worker_forget(struct worker *w)
{
	int64_t first = w->first;

	while (w->is_synced && first < w->unfinished && !sum_at(w, first)->left)
		first++;
	if (first > w->first)
		memmove(w->sums, sum_at(w, first), (w->end - first) * sizeof(*w->sums));
	w->first = first;
	if (first == w->end && !w->n_flying)
		w->told.due_ns = NEVER; /* no more probes */
	return first;
}
