/* One rank's side of one repeat: what emu/replay/loop.py, state.py and slots.py say in Python, for plans of sends,
 * computing, centres and locks. Python owns all memory (clayout.py has the same layouts) but copies of what must wait to be added.
 */
#ifndef RANK_H
#define RANK_H

#include <stdint.h>

enum { PREAMBLE_NBYTES = 48 };
enum opcode { SEND_BUFFER, DATA, SEND_READY, RECV_READY };
enum adding { REPLACES, ADDS_FLOAT32, ADDS_FLOAT16, ADDS_BFLOAT16 };
enum failure { NONE, INTERRUPTED, STALLED, CLOSED, BROKEN, NOT_GLOO, UNPLANNED, LOCAL, NO_SCHEDSTAT };

struct transfer { /* a send or a receive of the rank */
	uint8_t *bytes; /* what is sent, or what it becomes part of */
	int64_t nbytes;
	int64_t queued_ns, handed_ns, arrived_ns; /* 0: not yet */
	int64_t added; /* how much of what came has been added */
	int32_t op, lane;
	int32_t left; /* what it waits for, its operation's gate included */
	int32_t other_half; /* of a swap, or -1 */
	uint8_t is_send, adding, is_ready, is_over;
};

struct operation {
	int64_t gap_ns, computing_ns, computed_ns;
	int32_t left, gate_left;
	int32_t freed_by; /* the operation after which the lock that it takes is free; -1: it takes none */
	uint8_t computes, is_logged, is_prepared; /* prepared: it waits for its lock alone */
	uint8_t is_in_turn; /* its gap begins when what may leave before has been offered to the kernel */
};

struct lane { /* the sends to a peer, or receives from it, of one slot: they go in order */
	uint64_t slot;
	int32_t peer, begin, end; /* its part of `in_order` */
	int32_t next; /* which leaves, or arrives */
	int32_t next_announced, asked; /* of receives; how many of them the source has asked for */
	int32_t announced_ahead; /* of receives, at most: see Matching in slots.py */
	int32_t next_asked; /* which the source will ask for next */
	int32_t credit; /* of sends: how many the receiver has announced */
	int32_t has_rendezvous, is_of_sends;
};

struct message {
	uint64_t preamble[6];
	const uint8_t *bytes;
	int64_t nbytes, taken;
	int32_t send; /* -1: a notice */
};

struct peer {
	int32_t fd, n_lanes[2], first_lane[2]; /* of receives and sends, in order of their slots */
	uint8_t *scratch; /* room for what comes in to be added */
	int64_t framing_nbytes;
	int64_t detail; /* of a failure: errno, or the length that came */
	uint64_t slot;
	struct message *out; /* a ring */
	uint32_t out_room, out_head, n_out;
	uint8_t head[PREAMBLE_NBYTES];
	int32_t head_got, receiving; /* -1: a preamble is next */
	uint8_t *body;
	int64_t body_got;
	uint8_t is_touched, is_writing, unused[6];
};

struct access {
	int32_t op, is_over;
};

struct due {
	int64_t due_ns;
	int32_t number;
};

struct heap {
	struct due *at;
	int32_t n;
};

struct rank {
	struct transfer *transfers;
	struct operation *ops;
	struct lane *lanes;
	struct peer *peers;
	const int32_t *in_order; /* transfers, lane by lane */
	const int32_t *first_waiter, *waiters; /* transfers that wait for one */
	const int32_t *first_of_op, *of_op; /* transfers of an operation */
	const int32_t *first_after, *after; /* operations whose gates wait for one */
	struct access *accesses; /* room for three of each transfer */
	int64_t *place; /* done, (all), under way, moved; or NULL */
	int64_t start_ns, began_ns; /* the common start; 0: the rank has not begun */
	int64_t delay_ns, stall_ns, heard_ns, read_ns, late_gap_ns;
	int32_t is_joining; /* messages that wait for a peer leave by one call; else each by one of its own, as in gloo */
	int32_t n_transfers, n_ops, n_lanes, n_peers;
	int32_t n_unfinished, n_uncomputed, n_done, n_accesses, n_under_way, failed_peer;
	int32_t lock_freed_by; /* the operation after which the rank's lock is free; -1: it is */

	/* what has become possible, and what follows from it */
	int32_t *possible, n_possible; /* transfers */
	int32_t *gaps, n_gaps; /* operations */
	int32_t *touched, n_touched; /* peers with something to send, in this order: a ring from first_touched on */
	int32_t *asked, n_asked; /* operations whose sources have asked for the lock, in this order */
	uint8_t **held; /* by our half of a swap: a copy of what of the other half is still to be added */
	struct heap computing, delayed;
	int32_t epoll, first_touched, error_number;

	/* the rank's end */
	int64_t done_ns; /* 0: not yet */
	int64_t ran_before_ns, waited_before_ns, cpu_ns, run_delay_ns; /* see RankTimes */
	int32_t *line; /* how many ranks of this machine were done, in all repeats; or NULL */
	int32_t *is_there; /* whether this one waits for others */
	int32_t n_here; /* how many ranks the machine has */
	int32_t n_for_all; /* what `line` is when all are done with this repeat */
};

/* rank.c: what may be done next; no sockets, no clock */
void rank_begin(struct rank *rank);
void rank_finished(struct rank *rank, int32_t transfer);
void rank_opened(struct rank *rank, int32_t op);
void rank_asked(struct rank *rank, int32_t transfer);
void heap_push(struct heap *heap, int64_t due_ns, int32_t number);
int32_t heap_pop(struct heap *heap);

/* adding.c */
void add_up(uint8_t *own, const uint8_t *others, int64_t nbytes, enum adding adding);

#endif
