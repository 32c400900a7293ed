/* The sums of one tree: their places in the stream, what they give to a chunk, and what its result says. */
#include <endian.h>
#include <stdlib.h>

#include "numbers.h"
#include "worker.h"

/* The exponent of our elements [at, at + n), or of fewer where the sum ends before. */
int32_t own_exponent(struct worker *w, const struct sum *sum, uint64_t at, uint64_t n)
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
	w->report.position = w->first + (sum - w->sums);
	w->report.element = at;
	fail(w, NOT_FINITE);
	return NO_PEAK;
}

/* All but the last block are full. */
uint32_t block_elements(const struct worker *w, const struct sum *sum, uint64_t block)
{
	uint64_t left = sum->n_elements - block * w->elements;

	return left < w->elements ? left : w->elements;
}

/* Write a block as integers of its agreed scale; returns how many, none if we do not give. */
uint32_t give_block(const struct worker *w, const struct sum *sum, uint64_t block, uint32_t *elements)
{
	uint32_t n = sum->data ? block_elements(w, sum, block) : 0;
	int32_t agreed = sum->exponents[block];

	if (agreed == NO_PEAK)
		memset(elements, 0, n * sizeof(*elements));
	else if (n)
		to_ints(elements, sum->data + block * w->elements, n,
			SUM_BITS - (int)w->givers_log2 - agreed);
	return n;
}

/* The epoch begins at this place, which is not in a sum that is forgotten.  What is known of exponents stays:
 * a prime chunk that goes again says the same.
 */
void begin_at(struct worker *w, uint64_t start)
{
	w->start = start;
	for (int64_t position = w->first; position < w->end; position++) {
		struct sum *sum = sum_at(w, position);
		uint64_t from = start > sum->place ? start : sum->place, end = sum->place + 1 + sum->n_data;

		sum->left = from < end ? end - from : 0;
	}
}

/* The last result of a sum is here. */
void finish(struct worker *w, struct sum *sum)
{
	if (sum->is_finished) /* in an earlier epoch: who has it already has helped the others */
		return;
	sum->is_finished = true;
	w->report.finished[w->report.n_finished++] = w->first + (sum - w->sums);
	while (w->unfinished < w->end && sum_at(w, w->unfinished)->is_finished)
		w->unfinished++;
}

/* All have agreed on the exponent of the first n_slots blocks. */
void take_prime(struct worker *w, struct sum *sum, int32_t peak)
{
	for (uint64_t block = 0; block < w->n_slots && block < sum->n_data; block++)
		sum->exponents[block] = peak;
	sum->is_primed = true;
}

/* What all gave: the elements of a block, and the exponent of the next one in its slot. */
void take_block(struct worker *w, const struct sum *sum, uint64_t block, const struct packet *packet)
{
	int32_t agreed = sum->exponents[block], k = SUM_BITS - (int)w->givers_log2 - agreed;

	/* A finished sum is the caller's again. */
	if (sum->into && !sum->is_finished)
		to_floats(sum->into + block * w->elements, packet->elements, block_elements(w, sum, block),
			  agreed == NO_PEAK ? 0 : power_of_two(-k));
	if (block + w->n_slots < sum->n_data)
		sum->exponents[block + w->n_slots] = (int32_t)be32toh(packet->header.peak);
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

/* Queue the tree's next sum; returns its position, or -1 if there is no memory. */
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
		.place = w->stream_end,
	};
	sum->left = 1 + sum->n_data;
	w->stream_end += sum->left;
	if (w->stream_end > INT32_MAX) /* a peak tells it */
		fail(w, NO_CHUNKS);
	w->end++;
	w->report.due_ns = 0;
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
		w->report.due_ns = NEVER; /* no more probes */
	return first;
}
