/* A packet of in-network aggregation while it is worked at, and what becomes of it. */
#ifndef GRADWIRE_WORK_H
#define GRADWIRE_WORK_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "pools.h"

#define FROM_PARENT 0xff
#define MESSAGE_VERSION 1
#define NO_PEAK ((__s32)0x80000000)
#define MOST_INT32 ((__s32)0x7fffffff)
#define BLOCK 8 /* elements that one turn of a loop adds */

enum message_kind { CONTRIBUTION = 1, RESULT, STATUS, EPOCH };

struct message { /* traces/framing/aggregation.py; in network order */
	__u8 version;
	__u8 kind;
	__be16 job;
	__be16 epoch;
	__be16 count;
	__be32 chunk;
	__be32 peak;
	__be64 seen;
};

/* What is sent for a packet. */
enum answer {
	REFUSED,      /* nothing, and it was not taken in */
	EPOCH_TO_ONE, /* nor was this one */
	ABSORBED,     /* nothing yet */
	RESULT_TO_ALL,
	RESULT_TO_ONE,
	PARTIAL_UP,
	STATUS_TO_ONE,
	STATUS_TO_ALL
};

struct fate {
	__u32 event; /* ADDED, DUPLICATES, STALE, EARLY, MALFORMED, OTHER_EPOCH; else N_EVENTS */
	__u32 answer;
	__u32 has_elements; /* that are to be added, or to be kept as the result */
	__u32 overflows;
	__u32 n_saturated;
	__u32 count; /* the answer's */
};

/* A packet taken in, then the packet that is sent: from `eth` on as it lies on the wire.
 *
 * What becomes of it is kept here too, and not in variables: of these the verifier would know all values that
 * they can have, and walk all that follows once for each of them.
 */
struct work {
	struct fate fate;
	__u8 before[6]; /* so that all that follows is aligned */
	struct ethhdr eth;
	struct iphdr ip;
	struct udphdr udp;
	struct message message;
	__be32 elements[MAX_LARGE + BLOCK];
};

#define FRAME_NBYTES (sizeof(struct ethhdr) + sizeof(struct iphdr) + sizeof(struct udphdr) + sizeof(struct message))
_Static_assert(__builtin_offsetof(struct work, elements) - __builtin_offsetof(struct work, eth) == FRAME_NBYTES,
	       "a gap in the frame");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct work);
} works SEC(".maps");

static __always_inline void tally(struct pool_counter *counter, enum event event, __u64 n)
{
	if (n && event < N_EVENTS)
		__sync_fetch_and_add(&counter->events[event], n);
}

static __always_inline int is_of(__u64 children, __u32 child)
{
	return children >> (child & 63) & 1;
}

/* How many elements must follow a header. */
static __always_inline __u32 announced(const struct message *message)
{
	return message->kind == CONTRIBUTION || message->kind == RESULT ? bpf_ntohs(message->count) : 0;
}

#endif
