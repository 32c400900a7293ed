/* What worker.py and the files in C share. */
#ifndef GRADWIRE_WORKER_H
#define GRADWIRE_WORKER_H

#include <stdbool.h>
#include <stdint.h>

enum {
	BATCH = 32,    /* packets in one system call */
	FINISHED = 96, /* positions that one step can report; a batch finishes BATCH at most */
};

#define NEVER INT64_MAX
#define EXPORTED __attribute__((visibility("default"))) /* worker.py calls it */

enum { VERSION = 1, CONTRIBUTION = 1, RESULT = 2, STATUS = 3, EPOCH = 4 }; /* of a header */

enum failure { NONE, NO_ANSWER, INCOMPLETE, NOT_FINITE, NO_CHUNKS, FORGOTTEN, BROKEN };

/* Read by worker.py after each call; the order of the fields is the same there. */
struct report {
	int64_t due_ns;  /* when the next step must be at the latest, or NEVER */
	int64_t pause_ns; /* so long the next step may be put off without slowing the stream */
	uint64_t sent, retransmitted, received, duplicates, statuses, moves, probes;
	uint64_t seen;    /* of the last STATUS on a data chunk, if has_status */
	int64_t position; /* of NOT_FINITE: where */
	uint64_t element;
	int64_t finished[FINISHED];
	uint32_t n_finished, wants_to_send, epoch, has_status, levels, error_number;
};

struct header { /* traces/framing/aggregation.py; in network order */
	uint8_t version, kind;
	uint16_t job, epoch, count;
	uint32_t chunk, peak;
	uint64_t seen;
};

struct packet {
	struct header header;
	uint32_t elements[];
};

/* One aggregation.  In the stream it is a prime chunk, then n_data data chunks.
 *
 * The place of a chunk is its number in the stream of all chunks of the tree.  It is the same for all ranks
 * and in each epoch, whatever number the chunk has there.
 */
struct sum {
	const float *data; /* NULL: this rank does not give */
	float *into;       /* NULL: it does not take */
	int32_t *exponents; /* n_data of them, as all have agreed */
	uint64_t n_elements, n_data;
	uint64_t place; /* of its prime chunk; the data chunks' follow */
	uint64_t left;  /* chunks without a result in this epoch, of those that go in it */
	bool is_primed, is_finished;
};

/* Chunks c, c + n_slots, c + 2 n_slots … go one after the other, whatever the other slots do. */
struct slot {
	uint64_t chunk;   /* under way, or the next one */
	int64_t position; /* of the sum that it is of, or of one before that */
	int64_t sent_ns;  /* when it went last */
	int64_t due_ns;   /* when it is sent again, whatever comes meanwhile */
	uint32_t n_sent, n_timeouts;
	bool is_flying; /* its packet is ready, or sent, and has no result */
	bool is_queued;
};

struct worker {
	struct report report;
	enum failure failure;
	int fd;
	uint16_t job, epoch;
	uint32_t n_slots, elements, givers_log2, segments;
	int64_t patience_ns, now_ns;

	/* The stream (stream.c, sums.c): sums[i] is at position first + i. */
	struct sum *sums;
	int64_t first, end, unfinished; /* kept from, begun up to, the first that is not finished */
	uint64_t room;
	uint64_t stream_end; /* the next sum's place */
	uint64_t start;      /* the place of chunk 1 of this epoch, if is_synced */
	uint64_t reached;    /* the results of all chunks before this place have been here, in whatever epoch */
	bool is_synced;
	struct slot *slots;
	char *packets; /* of each slot one */
	uint32_t packet_nbytes;
	uint32_t n_flying, n_data_flying;

	/* What is to be sent (sending.c): a ring of slots, each in it once at most. */
	uint32_t *queue;
	uint32_t queue_head, n_queued;
	char *inbox;

	/* Clocks. */
	int64_t progress_ns, heard_ns; /* the last new result, the last packet of a switch */
	int64_t probe_ns;
	int64_t round_trip_ns, variation_ns;
	uint64_t timed_chunk;
	uint32_t n_backoffs; /* timed chunks in a row that had to go again after a timeout */
	int64_t answered_ns; /* when the latest data chunk with a result was sent */
};

/* stream.c */
void fill(struct worker *w, struct slot *slot);
void fill_all(struct worker *w);
void take_result(struct worker *w, struct slot *slot, const struct packet *packet);
void restart(struct worker *w, uint16_t epoch);
uint32_t due_count(const struct worker *w, const struct slot *slot);
bool is_data(const struct worker *w, const struct slot *slot);
struct packet *packet_of(const struct worker *w, const struct slot *slot);

/* sums.c */
int32_t own_exponent(struct worker *w, const struct sum *sum, uint64_t at, uint64_t n);
uint32_t block_elements(const struct worker *w, const struct sum *sum, uint64_t block);
uint32_t give_block(const struct worker *w, const struct sum *sum, uint64_t block, uint32_t *elements);
void begin_at(struct worker *w, uint64_t start);
void take_prime(struct worker *w, struct sum *sum, int32_t peak);
void take_block(struct worker *w, const struct sum *sum, uint64_t block, const struct packet *packet);
void finish(struct worker *w, struct sum *sum);

/* sending.c */
void queue(struct worker *w, struct slot *slot);
void flush(struct worker *w);
void send_probe(struct worker *w);
void note_answer(struct worker *w, const struct slot *slot);
bool is_overtaken(const struct worker *w, const struct slot *slot);
bool is_loss(int error_number);

/* worker.c */
void fail(struct worker *w, enum failure failure);
void fail_with(struct worker *w, int error_number);
int worker_step(struct worker *w, int64_t now_ns);

static inline struct sum *sum_at(const struct worker *w, int64_t position)
{
	return &w->sums[position - w->first];
}

/* Of any chunk but the sync chunk, when that is through. */
static inline uint64_t place_of(const struct worker *w, const struct slot *slot)
{
	return w->start + slot->chunk - 1;
}

#endif
