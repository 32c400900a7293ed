/* What one rank may do next: as RankState in state.py, which a test holds beside this. */
#include <string.h>

#include "rank.h"

static void open_gate(struct rank *rank, int32_t op);

/* The lock goes to the first that has asked for it and waits for nothing else, as Queues in locks.py. */
static void grant(struct rank *rank)
{
	if (rank->lock_freed_by >= 0)
		return;
	for (int32_t at = 0; at < rank->n_asked; at++) {
		int32_t op = rank->asked[at];

		if (!rank->ops[op].is_prepared)
			continue;
		rank->n_asked--;
		memmove(rank->asked + at, rank->asked + at + 1, (size_t)(rank->n_asked - at) * sizeof(*rank->asked));
		rank->lock_freed_by = rank->ops[op].freed_by;
		open_gate(rank, op);
		return;
	}
}

static void satisfied(struct rank *rank, int32_t number)
{
	struct transfer *transfer = &rank->transfers[number];
	struct operation *op = &rank->ops[transfer->op];

	transfer->left--;
	if (!transfer->left) {
		rank->possible[rank->n_possible++] = number;
	} else if (transfer->left == 1 && op->freed_by >= 0) {
		op->is_prepared = 1;
		grant(rank);
	}
}

static void open_gate(struct rank *rank, int32_t op)
{
	for (int32_t at = rank->first_of_op[op]; at < rank->first_of_op[op + 1]; at++)
		satisfied(rank, rank->of_op[at]);
}

static void pass_gate(struct rank *rank, int32_t op)
{
	if (rank->ops[op].gap_ns || rank->ops[op].computes)
		rank->gaps[rank->n_gaps++] = op;
	else
		open_gate(rank, op);
}

static void count_down(struct rank *rank, int32_t op)
{
	if (--rank->ops[op].left)
		return;
	rank->n_done++;
	if (rank->lock_freed_by == op) {
		rank->lock_freed_by = -1;
		grant(rank);
	}
	for (int32_t at = rank->first_after[op]; at < rank->first_after[op + 1]; at++)
		if (--rank->ops[rank->after[at]].gate_left == 0)
			pass_gate(rank, rank->after[at]);
}

/* The common start. */
__attribute__((visibility("default"))) void rank_begin(struct rank *rank)
{
	for (int32_t op = 0; op < rank->n_ops; op++)
		if (!rank->ops[op].gate_left)
			pass_gate(rank, op);
}

/* The compute gap before an operation has passed, or the rank has computed it. */
__attribute__((visibility("default"))) void rank_opened(struct rank *rank, int32_t op)
{
	if (!rank->ops[op].computes) {
		open_gate(rank, op);
		return;
	}
	rank->n_uncomputed--;
	count_down(rank, op);
}

/* A receive has arrived and been added, or a send has been handed to the kernel. */
__attribute__((visibility("default"))) void rank_finished(struct rank *rank, int32_t number)
{
	rank->n_unfinished--;
	rank->transfers[number].is_over = 1;
	for (int32_t at = rank->first_waiter[number]; at < rank->first_waiter[number + 1]; at++)
		satisfied(rank, rank->waiters[at]);
	count_down(rank, rank->transfers[number].op);
}

/* The source of a receive is ready to send it: it asks for its lock, if it takes one. */
__attribute__((visibility("default"))) void rank_asked(struct rank *rank, int32_t number)
{
	int32_t op = rank->transfers[number].op;

	if (rank->ops[op].freed_by < 0)
		return;
	rank->asked[rank->n_asked++] = op;
	grant(rank);
}

/* By time, then by number, as heapq orders tuples. */
static int is_before(struct due one, struct due other)
{
	return one.due_ns != other.due_ns ? one.due_ns < other.due_ns : one.number < other.number;
}

void heap_push(struct heap *heap, int64_t due_ns, int32_t number)
{
	struct due pushed = {due_ns, number};
	int32_t at = heap->n++;

	for (; at && is_before(pushed, heap->at[(at - 1) / 2]); at = (at - 1) / 2)
		heap->at[at] = heap->at[(at - 1) / 2];
	heap->at[at] = pushed;
}

int32_t heap_pop(struct heap *heap)
{
	int32_t number = heap->at[0].number, at = 0;
	struct due last = heap->at[--heap->n];

	for (;;) {
		int32_t child = 2 * at + 1;

		if (child + 1 < heap->n && is_before(heap->at[child + 1], heap->at[child]))
			child++;
		if (child >= heap->n || !is_before(heap->at[child], last))
			break;
		heap->at[at] = heap->at[child];
		at = child;
	}
	heap->at[at] = last;
	return number;
}
