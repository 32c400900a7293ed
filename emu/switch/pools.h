/* The maps of in-network aggregation and what is in them; emu/switch/plane/pools.py has the same layouts. */
#ifndef GRADWIRE_POOLS_H
#define GRADWIRE_POOLS_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "layout.h"

#define MAX_POOLS 4096 /* of all switches together, as are the slots */
#define MAX_CHILDREN 64
#define MAX_SMALL 256 /* elements in a packet: such slots are small */
#define MAX_LARGE 2048
#define MAX_SMALL_SLOTS 131072
#define MAX_LARGE_SLOTS 32768

/* planning/openflow/pool.py says what these count. */
enum event {
	CONTRIBUTIONS,
	ADDED,
	COMPLETED,
	RESULTS,
	PARTIALS,
	DUPLICATES,
	STATUSES,
	STALE,
	EARLY,
	OTHER_EPOCH,
	MALFORMED,
	SATURATED,
	N_EVENTS
};

struct pool_counter {
	__u64 events[N_EVENTS];
};

struct pool { /* one job's slots at one switch; a child's bit in a set of children is that of its index */
	__u64 children;
	__u64 gives;
	__u64 takes;
	__u32 number;
	__u16 job;
	__u16 epoch;
	__u32 n_children;
	__u32 n_slots;
	__u32 elements; /* the most of a packet */
	__u32 parent;	/* the interface's index; 0: this is the root */
	__u32 ports[MAX_CHILDREN];
};

struct slot_key {
	__u32 pool;
	__u32 slot;
};

struct version {
	__u64 seen; /* children whose contributions are in */
	__u32 chunk;
	__s32 peak;
	__u32 count; /* elements of each giver's packet, once there is one */
	__u32 held;  /* a mask of the values that are held: all ones once there are any, else 0 */
	__u32 is_used;
	__u32 is_done;
};

struct small_slots {
	struct bpf_spin_lock lock;
	__u32 zero;
	struct version versions[2];
	__s32 values[2 * MAX_SMALL];
};

struct large_slots {
	struct bpf_spin_lock lock;
	__u32 zero;
	struct version versions[2];
	__s32 values[2 * MAX_LARGE];
};

HASH_MAP(pools, MAX_POOLS, __u32, struct pool);
HASH_MAP(small_slots, MAX_SMALL_SLOTS, struct slot_key, struct small_slots);
HASH_MAP(large_slots, MAX_LARGE_SLOTS, struct slot_key, struct large_slots);
MEMORY(pool_counters, MAX_POOLS, struct pool_counter);

#endif
