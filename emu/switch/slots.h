/* What a packet does to its slot, under the slot's lock: planning/openflow/pool.py is what it must do. */
#ifndef GRADWIRE_SLOTS_H
#define GRADWIRE_SLOTS_H

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "pools.h"
#include "work.h"

/* Give the version to its next chunk; ADDED if it is this one, else why not. */
static __always_inline enum event begin(struct version *version, const struct version *other, __u32 chunk,
					__u32 n_slots)
{
	__u64 n = n_slots;

	if (version->is_used && chunk < version->chunk)
		return STALE;
	if (version->is_used ? chunk != version->chunk + 2 * n : chunk >= 2 * n)
		return EARLY;
	if (chunk >= n && !(other->is_used && other->is_done && other->chunk == chunk - n))
		return EARLY;
	version->is_used = 1;
	version->chunk = chunk;
	version->seen = 0;
	version->held = 0;
	version->count = 0;
	version->peak = NO_PEAK;
	version->is_done = 0;
	return ADDED;
}

/* A child's packet that has not been in this version, or its answer if it has. */
static __always_inline void contribute(const struct pool *pool, struct version *version, const struct version *other,
				       __u32 child, const struct message *message, struct fate *fate)
{
	__u32 chunk = bpf_ntohl(message->chunk), count = bpf_ntohs(message->count);
	__s32 peak = bpf_ntohl(message->peak);
	__u64 bit = 1ULL << (child & 63);

	fate->event = ADDED;
	if (!version->is_used || version->chunk != chunk)
		fate->event = begin(version, other, chunk, pool->n_slots);
	if (fate->event != ADDED)
		return;
	if (version->seen & bit) {
		fate->event = DUPLICATES;
		if (version->is_done)
			fate->answer = RESULT_TO_ONE;
		else
			fate->answer = version->seen == pool->children ? PARTIAL_UP : STATUS_TO_ONE;
		return;
	}
	if (is_of(pool->gives, child)) {
		if (version->held && version->count != count) {
			fate->event = MALFORMED;
			return;
		}
		version->count = count;
		fate->has_elements = 1;
	}
	version->seen |= bit;
	if (peak > version->peak)
		version->peak = peak;
	fate->answer = ABSORBED;
	if (version->seen == pool->children) {
		version->is_done = !pool->parent;
		fate->answer = pool->parent ? PARTIAL_UP : RESULT_TO_ALL;
	}
}

/* A packet from the parent, whose numbers take the place of the partial sum. */
static __always_inline void hear(const struct pool *pool, struct version *version, const struct message *message,
				 struct fate *fate)
{
	int is_due = version->is_used && version->chunk == bpf_ntohl(message->chunk) &&
		     version->seen == pool->children && !version->is_done;

	if (message->kind == EPOCH || !is_due) {
		fate->event = STALE;
	} else if (message->kind == STATUS) {
		fate->answer = STATUS_TO_ALL;
	} else {
		version->held = 0;
		version->count = bpf_ntohs(message->count);
		version->peak = bpf_ntohl(message->peak);
		version->is_done = 1;
		fate->has_elements = 1;
		fate->answer = RESULT_TO_ALL;
	}
}

/* `more` on top of what is held, or, if `keep` is 0, in its place; both have zeros beyond the last element up to
 * the end of its block.  The highest bit of what is returned is set if there is a sum that an int32 cannot hold.
 *
 * Each loop reads the count again: what the verifier knows of it from one loop would make it walk the next
 * one again for each length.
 */
static __always_inline __u32 add(__s32 *held, const __be32 *more, const volatile __be16 *count, __u32 most, __u32 keep)
{
	__u32 n_elements = bpf_ntohs(*count), overflows = 0;

	for (__u32 i = 0; i < most && i < n_elements; i += BLOCK) {
#pragma unroll
		for (__u32 j = i; j < i + BLOCK; j++) {
			__u32 before = held[j] & keep, added = bpf_ntohl(more[j]), sum = before + added;

			held[j] = sum;
			overflows |= (sum ^ before) & (sum ^ added);
		}
	}
	return overflows;
}

/* Sums that an int32 cannot hold become the nearest that it can; what was held before is the sum less `more`.
 * Returns how many there were.
 */
static __always_inline __u32 saturate(__s32 *held, const __be32 *more, const volatile __be16 *count, __u32 most)
{
	__u32 n_elements = bpf_ntohs(*count), n = 0;

	for (__u32 i = 0; i < most && i < n_elements; i += BLOCK) {
#pragma unroll
		for (__u32 j = i; j < i + BLOCK; j++) {
			__u32 added = bpf_ntohl(more[j]), sum = held[j], before = sum - added;
			__u32 limit = ((__s32)added >> 31) ^ MOST_INT32; /* the least if that was negative */
			__u32 is_over = (__s32)((sum ^ before) & (sum ^ added)) >> 31;

			barrier_var(is_over); /* or the compiler makes branches, and the verifier follows each */
			held[j] = sum ^ ((sum ^ limit) & is_over);
			n -= is_over;
		}
	}
	return n;
}

static __always_inline void copy_out(__be32 *elements, const __s32 *held, const volatile __u32 *count, __u32 most)
{
	__u32 n_elements = *count;

	for (__u32 i = 0; i < most && i < n_elements; i += BLOCK) {
#pragma unroll
		for (__u32 j = i; j < i + BLOCK; j++)
			elements[j] = bpf_htonl(held[j]);
	}
}

/* What happens under a slot's lock: to one of its versions and that one's values. */
static __always_inline void meet(const struct pool *pool, __u32 child, struct work *work, struct version *versions,
				 __s32 *values, __u32 most)
{
	__u32 which = bpf_ntohl(work->message.chunk) / pool->n_slots & 1;
	struct version *version = &versions[which];
	__s32 *held = values + which * most;
	struct fate *fate = &work->fate;

	if (child == FROM_PARENT)
		hear(pool, version, &work->message, fate);
	else
		contribute(pool, version, &versions[!which], child, &work->message, fate);
	barrier();
	if (fate->has_elements) {
		fate->overflows = add(held, work->elements, &work->message.count, most, version->held);
		version->held = ~0;
	}
	barrier();
	if (fate->answer > ABSORBED) {
		fate->count = version->count;
		work->message.peak = bpf_htonl(version->peak);
	}
	if ((__s32)fate->overflows < 0)
		fate->n_saturated = saturate(held, work->elements, &work->message.count, most);
	barrier();
	if (fate->answer == STATUS_TO_ONE) {
		fate->count = 0; /* levels up */
		work->message.seen = bpf_cpu_to_be64(version->seen);
	} else if (fate->answer == STATUS_TO_ALL) {
		fate->count = bpf_ntohs(work->message.count) + 1;
	} else if (fate->answer > ABSORBED) {
		copy_out(work->elements, held, &version->count, most);
	}
}

#endif
