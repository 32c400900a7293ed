/* The stream of chunks of one tree in one epoch: which chunk is what, and what its result sets off.
 *
 * Chunk 0 is the sync chunk: its result's peak is minus the place at which all go on; nobody lacks a result
 * from before it.  Each sum is a prime chunk, whose peak is the exponent of the first n_slots blocks, and its
 * blocks as data chunks: the one of block j brings the exponent of block j + n_slots, which is the next block
 * in the same slot.  So who has the results of all blocks before block j knows the exponents of n_slots from
 * j on, and a new epoch can begin there, in mid-sum.  What the sums give and take is in sums.c.
 */
#include <endian.h>

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

static void write_data(struct worker *w, struct slot *slot, const struct sum *sum, uint64_t block)
{
	uint64_t next = (block + w->n_slots) * w->elements;
	uint32_t n = give_block(w, sum, block, packet_of(w, slot)->elements);

	write_header(w, slot, n, own_exponent(w, sum, next, w->elements));
}

/* Get the slot's next chunk ready, if it may be sent. */
void fill(struct worker *w, struct slot *slot)
{
	struct sum *sum;
	uint64_t place;

	if (slot->is_flying || w->failure)
		return;
	if (!w->is_synced) {
		if (slot->chunk || w->end == 0)
			return;
		write_header(w, slot, 0, -(int32_t)w->reached);
	} else {
		if (slot->position < w->first)
			slot->position = w->first;
		place = place_of(w, slot);
		while (slot->position < w->end &&
		       place > sum_at(w, slot->position)->place + sum_at(w, slot->position)->n_data)
			slot->position++;
		if (slot->position == w->end)
			return;
		sum = sum_at(w, slot->position);
		if (place == sum->place)
			write_header(w, slot, 0, own_exponent(w, sum, 0, (uint64_t)w->n_slots * w->elements));
		else if (sum->is_primed)
			write_data(w, slot, sum, place - sum->place - 1);
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
	return slot->chunk && place_of(w, slot) != sum_at(w, slot->position)->place;
}

/* How many elements the result of a chunk under way has. */
uint32_t due_count(const struct worker *w, const struct slot *slot)
{
	const struct sum *sum;

	if (!is_data(w, slot))
		return 0;
	sum = sum_at(w, slot->position);
	return sum->into ? block_elements(w, sum, place_of(w, slot) - sum->place - 1) : 0;
}

static void take_sync(struct worker *w, uint64_t start)
{
	if (start < sum_at(w, w->first)->place) {
		fail(w, FORGOTTEN);
		return;
	}
	w->is_synced = true;
	begin_at(w, start);
}

/* The result of a chunk under way; with due_count elements.  One that cannot be is ignored. */
void take_result(struct worker *w, struct slot *slot, const struct packet *packet)
{
	int32_t peak = be32toh(packet->header.peak), ours = be32toh(packet_of(w, slot)->header.peak);
	struct sum *sum = slot->chunk ? sum_at(w, slot->position) : NULL;
	bool is_prime = sum && !is_data(w, slot);

	/* The largest of all: scaled by less, our own numbers would not fit. */
	if (peak < ours || (sum ? !is_exponent(peak) : peak > 0))
		return;
	w->report.received++;
	w->progress_ns = w->now_ns;
	w->n_flying--;
	w->n_data_flying -= sum && !is_prime;
	slot->is_flying = false;
	if (!sum)
		take_sync(w, -(int64_t)peak);
	else if (is_prime)
		take_prime(w, sum, peak);
	else
		take_block(w, sum, place_of(w, slot) - sum->place - 1, packet);
	if (sum && !--sum->left)
		finish(w, sum);
	slot->chunk += w->n_slots;
	if (!sum || is_prime)
		fill_all(w);
	else
		fill(w, slot);
}

/* Each slot has the results of all its chunks before the one under way, or the next.  What an earlier epoch
 * reached may be more: this one began where somebody else lacked a result.
 */
static void note_reached(struct worker *w)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t i = 0; i < w->n_slots; i++)
		if (place_of(w, &w->slots[i]) < least)
			least = place_of(w, &w->slots[i]);
	if (least > w->reached)
		w->reached = least;
}

/* The tree was built again: nothing that is under way counts any more. */
void restart(struct worker *w, uint16_t epoch)
{
	if (w->is_synced)
		note_reached(w);
	w->report.moves++;
	w->report.epoch = w->epoch = epoch;
	w->report.has_status = 0;
	w->is_synced = false;
	w->n_flying = w->n_data_flying = w->n_queued = 0;
	w->timed_chunk = UINT64_MAX;
	for (uint32_t i = 0; i < w->n_slots; i++)
		w->slots[i] = (struct slot){.chunk = i, .position = w->first};
	fill_all(w);
}
