/* The switch's maps and what is in them; emu/switch/plane/maps.py has the same layouts. */
#ifndef GRADWIRE_LAYOUT_H
#define GRADWIRE_LAYOUT_H

#include <linux/bpf.h>
#include <linux/if_ether.h>

#include <bpf/bpf_helpers.h>

#define MAX_SWITCHES 4096
#define MAX_PORTS 16384
#define MAX_SWITCH_PORTS 1024 /* of one switch */
#define MAX_FLOWS 262144      /* rules of all switches together */
#define MAX_GROUPS 16384
#define MAX_BUCKETS 64 /* of one group, of its weighted list, and outputs of one action list */
#define PACKET_IN_RING_NBYTES (2 << 20)

/* Places other than an interface; the numbers are OpenFlow's. */
#define TO_IN_PORT 0xfffffff8
#define TO_TABLE 0xfffffff9
#define TO_FLOOD 0xfffffffb
#define TO_ALL 0xfffffffc
#define TO_CONTROLLER 0xfffffffd
#define LAST_IFINDEX 0x7fffffff

enum action { DROP, OUTPUT, GROUP, LIST, AGGREGATE };
enum kind { ALL, SELECT, INDIRECT, FAILOVER };
enum reason { NO_MATCH, ACTION };

/* From the least specific to the most. */
enum form {
	ANY,
	ETH_TYPE,
	ETH_DST,
	IN_ETH_DST,
	IN_ETH_SRC_DST,
	UDP_DST,
	IN_UDP_DST,
	DST,
	PAIR,
	FLOW
};

struct port {
	__u32 switch_index;
	__u32 number;
	__u32 salt;    /* this switch's seed of flow_hash */
	__u32 counter; /* index into port_counters */
	__u32 is_live;
	__u32 rx_loss; /* how many of 2^32 incoming packets the cable loses */
	__u32 tx_loss; /* likewise, of those that leave */
	__u32 loss_seed;
	__u32 switch_loses; /* some port of this switch has a tx_loss */
};

struct switch_state {
	__u32 forms; /* bit n: there are rules of form n */
	__u32 zero;  /* an array's elements are multiples of 8 bytes */
};

struct switch_ports {
	__u32 n;
	__u32 ifindex[MAX_SWITCH_PORTS];
};

struct rule {
	__u16 priority;
	__u8 action;
	__u8 is_table_miss;
	__u32 argument; /* OUTPUT: the interface's index; GROUP: its number; AGGREGATE: pool << 8 | child */
	__u32 flow;	/* index into flow_counters; LIST: the list's number */
	__u32 zero;
	__u64 cookie;
};

struct bucket {
	__u32 target; /* an interface's index, a TO_..., or 0: drop */
	__u32 watch;  /* FAILOVER: the interface whose liveness is the bucket's */
};

struct group {
	__u32 kind;
	__u32 n_buckets;
	__u32 counter; /* index into group_counters, beyond its end for an action list */
	__u32 n_weighted;
	__u8 weighted[MAX_BUCKETS]; /* SELECT: bucket numbers, each as often as its weight says */
	struct bucket buckets[MAX_BUCKETS];
};

struct five_tuple { /* in network order, and in the order that planning/flowhash.py hashes it */
	__be32 src;
	__be32 dst;
	__u8 proto;
	__be16 sport;
	__be16 dport;
} __attribute__((packed));

struct dst_key {
	__u32 switch_index;
	__be32 dst;
};

struct pair_key {
	__u32 switch_index;
	__be32 src;
	__be32 dst;
};

struct flow_key {
	__u32 switch_index;
	struct five_tuple tuple;
	__u8 zero[3];
};

struct frame_key { /* of all other forms; what a form does not name is 0 */
	__u32 switch_index;
	__u32 in_port;
	__u16 form;
	__be16 number; /* the Ethernet type, or the UDP destination port */
	__u8 eth_dst[ETH_ALEN];
	__u8 eth_src[ETH_ALEN];
};

struct group_key {
	__u32 switch_index;
	__u32 group;
};

struct flow_counter {
	__u64 packets;
	__u64 nbytes;
};

struct group_counter {
	struct flow_counter whole;
	struct flow_counter buckets[MAX_BUCKETS];
};

struct port_counter {
	__u64 rx_packets;
	__u64 rx_nbytes;
	__u64 missed_packets;  /* no rule matched */
	__u64 dropped_packets; /* not sent on, for whatever reason: missed ones are among them */
	__u64 lost_packet_ins; /* had no room in the ring to user space */
	__u64 lost_in;	       /* by the cable, on the way to here: counted nowhere else */
	__u64 lost_out;	       /* by the cable, on the way from here */
	__u64 drawn_in;	       /* packets for which a loss was drawn */
	__u64 drawn_out;
};

struct packet_in {
	__u32 switch_index;
	__u32 in_port;
	__u64 cookie;
	__u32 nbytes;	   /* of the frame */
	__u32 kept_nbytes; /* of it here */
	__u16 vlan_tci;	   /* of the tag that the kernel took out of the frame, if vlan_proto is not 0 */
	__be16 vlan_proto;
	__u32 reason;
	__u8 frame[];
};

/* Without preallocation a map of 262,144 costs what its rules cost. */
#define HASH_MAP(name, n, key_type, value_type)              \
	struct {                                             \
		__uint(type, BPF_MAP_TYPE_HASH);             \
		__uint(map_flags, BPF_F_NO_PREALLOC);        \
		__uint(max_entries, n);                      \
		__type(key, key_type);                       \
		__type(value, value_type);                   \
	} name SEC(".maps")

/* Read by user space through mmap, without a system call each. */
#define MEMORY(name, n, value_type)                          \
	struct {                                             \
		__uint(type, BPF_MAP_TYPE_ARRAY);            \
		__uint(map_flags, BPF_F_MMAPABLE);           \
		__uint(max_entries, n);                      \
		__type(key, __u32);                          \
		__type(value, value_type);                   \
	} name SEC(".maps")

HASH_MAP(ports, MAX_PORTS, __u32, struct port); /* by the interface's index */
HASH_MAP(switch_ports, MAX_SWITCHES, __u32, struct switch_ports);
HASH_MAP(any_rules, MAX_SWITCHES, __u32, struct rule); /* by switch; table-miss is one of these */
HASH_MAP(frame_rules, MAX_FLOWS, struct frame_key, struct rule);
HASH_MAP(dst_rules, MAX_FLOWS, struct dst_key, struct rule);
HASH_MAP(pair_rules, MAX_FLOWS, struct pair_key, struct rule);
HASH_MAP(flow_rules, MAX_FLOWS, struct flow_key, struct rule);
HASH_MAP(groups, MAX_GROUPS, struct group_key, struct group);
HASH_MAP(lists, MAX_FLOWS, struct group_key, struct group);
MEMORY(switches, MAX_SWITCHES, struct switch_state);
MEMORY(flow_counters, MAX_FLOWS, struct flow_counter);
MEMORY(group_counters, MAX_GROUPS, struct group_counter);
MEMORY(port_counters, MAX_PORTS, struct port_counter);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, PACKET_IN_RING_NBYTES);
} packet_ins SEC(".maps");

#endif
