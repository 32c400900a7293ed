/* The data plane of gradwire's switch: one tc program for every port of every switch.
 *
 * It is attached (cls_bpf, direct action) to the ingress of each port.  A packet's headers are looked
 * up in one hash map per match form, the rule with the highest OpenFlow priority wins (the most
 * specific form among equals), and the packet is handed to the egress port, whose queueing discipline
 * shapes it.  Whatever matches nothing is dropped and counted.
 *
 * emu/switch/maps.py writes these maps; the layouts there and here are one thing.
 * Needs kernel 5.7 (__sk_buff.gso_size); no kernel BTF and no helper reserved to GPL programs.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define MAX_PORTS 16384
#define MAX_FLOWS 131072 /* rules of all switches together */
#define MAX_GROUPS 16384
#define MAX_SLOTS 64 /* group buckets, each as often as its weight says */
#define FRAGMENT_OFFSET 0x1fff
#define UDP_HEADER_NBYTES 8

enum action { DROP, OUTPUT, GROUP };

struct port {
	__u32 switch_index;
	__u32 salt;    /* this switch's seed of flow_hash */
	__u32 counter; /* index into port_counters */
};

struct rule {
	__u16 priority;
	__u16 action;
	__u32 argument; /* OUTPUT: the interface's index; GROUP: the group's number */
	__u32 flow;	/* index into flow_counters */
};

struct group {
	__u32 n_slots;
	__u32 ifindex[MAX_SLOTS];
};

struct five_tuple { /* in network order, and in the order that emu/flowhash.py hashes it */
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

struct group_key {
	__u32 switch_index;
	__u32 group;
};

struct flow_counter {
	__u64 packets;
	__u64 nbytes;
};

struct port_counter {
	__u64 rx_packets;
	__u64 rx_nbytes;
	__u64 missed_packets;  /* no rule matched */
	__u64 dropped_packets; /* not sent on, for whatever reason: missed ones are among them */
};

#define HASH_MAP(name, n, key_type, value_type)      \
	struct {                                     \
		__uint(type, BPF_MAP_TYPE_HASH);     \
		__uint(max_entries, n);              \
		__type(key, key_type);               \
		__type(value, value_type);           \
	} name SEC(".maps")

/* Counters are read by user space through mmap, without a system call each. */
#define COUNTERS(name, n, value_type)                \
	struct {                                     \
		__uint(type, BPF_MAP_TYPE_ARRAY);    \
		__uint(map_flags, BPF_F_MMAPABLE);   \
		__uint(max_entries, n);              \
		__type(key, __u32);                  \
		__type(value, value_type);           \
	} name SEC(".maps")

HASH_MAP(ports, MAX_PORTS, __u32, struct port); /* by the interface's index */
HASH_MAP(any_rules, MAX_PORTS, __u32, struct rule); /* by switch; table-miss is one of these */
HASH_MAP(dst_rules, MAX_FLOWS, struct dst_key, struct rule);
HASH_MAP(pair_rules, MAX_FLOWS, struct pair_key, struct rule);
HASH_MAP(flow_rules, MAX_FLOWS, struct flow_key, struct rule);
HASH_MAP(groups, MAX_GROUPS, struct group_key, struct group);
COUNTERS(flow_counters, MAX_FLOWS, struct flow_counter);
COUNTERS(port_counters, MAX_PORTS, struct port_counter);

struct packet {
	int is_ipv4;
	struct five_tuple tuple;
	__u32 n_packets; /* what the cable carries: a TSO super-segment is many packets */
	__u64 nbytes;	 /* with an Ethernet header for each of them, without FCS */
};

static __always_inline void count_segments(struct __sk_buff *skb, struct packet *packet, __u32 l4)
{
	__u8 offset = 0;
	__u32 headers = l4 + UDP_HEADER_NBYTES;

	if (!skb->gso_size)
		return;
	if (packet->tuple.proto == IPPROTO_TCP) {
		if (bpf_skb_load_bytes(skb, l4 + 12, &offset, sizeof(offset)) < 0)
			return;
		headers = l4 + (offset >> 4) * 4;
	}
	if (skb->len <= headers)
		return;
	packet->n_packets = (skb->len - headers + skb->gso_size - 1) / skb->gso_size;
	packet->nbytes = skb->len + (__u64)(packet->n_packets - 1) * headers;
}

static __always_inline struct packet parse(struct __sk_buff *skb)
{
	struct packet packet = {.n_packets = 1, .nbytes = skb->len};
	struct iphdr ip;
	__be16 ports[2] = {0, 0};
	__u32 l4;

	if (skb->protocol != bpf_htons(ETH_P_IP) || bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)) < 0 ||
	    ip.version != 4 || ip.ihl < 5)
		return packet;
	l4 = ETH_HLEN + ip.ihl * 4;
	packet.is_ipv4 = 1;
	packet.tuple.src = ip.saddr;
	packet.tuple.dst = ip.daddr;
	packet.tuple.proto = ip.protocol;
	if (ip.protocol != IPPROTO_TCP && ip.protocol != IPPROTO_UDP)
		return packet;
	/* Only a packet's first fragment has ports; the others count as ports 0. */
	if (!(ip.frag_off & bpf_htons(FRAGMENT_OFFSET)) &&
	    bpf_skb_load_bytes(skb, l4, ports, sizeof(ports)) == 0) {
		packet.tuple.sport = ports[0];
		packet.tuple.dport = ports[1];
		count_segments(skb, &packet, l4);
	}
	return packet;
}

/* FNV-1a over the 13 bytes, then MurmurHash3's finaliser: emu/flowhash.py has the reasons. */
static __always_inline __u32 flow_hash(const struct five_tuple *tuple, __u32 seed)
{
	const __u8 *octets = (const void *)tuple;
	__u32 state = 0x811c9dc5 ^ seed;

#pragma unroll
	for (int i = 0; i < (int)sizeof(*tuple); i++)
		state = (state ^ octets[i]) * 0x01000193;
	state = (state ^ (state >> 16)) * 0x85ebca6b;
	state = (state ^ (state >> 13)) * 0xc2b2ae35;
	return state ^ (state >> 16);
}

static __always_inline struct rule *better(struct rule *best, struct rule *other)
{
	if (!best || !other)
		return best ? best : other;
	return other->priority > best->priority ? other : best;
}

static __always_inline struct rule *find_rule(const struct packet *packet, __u32 switch_index)
{
	struct rule *any = bpf_map_lookup_elem(&any_rules, &switch_index);
	struct flow_key flow = {.switch_index = switch_index, .tuple = packet->tuple};
	struct pair_key pair = {switch_index, packet->tuple.src, packet->tuple.dst};
	struct dst_key dst = {switch_index, packet->tuple.dst};
	struct rule *best;

	if (!packet->is_ipv4)
		return any;
	best = bpf_map_lookup_elem(&flow_rules, &flow);
	best = better(best, bpf_map_lookup_elem(&pair_rules, &pair));
	best = better(best, bpf_map_lookup_elem(&dst_rules, &dst));
	return better(best, any);
}

/* The egress interface's index, or 0 to drop. */
static __always_inline __u32 egress(const struct rule *rule, const struct packet *packet, const struct port *port)
{
	struct group_key key = {port->switch_index, rule->argument};
	struct group *group;
	__u32 slot;

	if (rule->action == OUTPUT)
		return rule->argument;
	if (rule->action != GROUP)
		return 0;
	group = bpf_map_lookup_elem(&groups, &key);
	if (!group || !group->n_slots)
		return 0;
	slot = flow_hash(&packet->tuple, port->salt) % group->n_slots;
	return slot < MAX_SLOTS ? group->ifindex[slot] : 0;
}

SEC("tc") int gradwire_switch(struct __sk_buff *skb)
{
	__u32 ifindex = skb->ifindex, out = 0;
	struct port *port = bpf_map_lookup_elem(&ports, &ifindex);
	struct packet packet = parse(skb);
	struct flow_counter *flow;
	struct port_counter *count;
	struct rule *rule;

	if (!port)
		return TC_ACT_SHOT;
	count = bpf_map_lookup_elem(&port_counters, &port->counter);
	if (!count)
		return TC_ACT_SHOT;
	__sync_fetch_and_add(&count->rx_packets, packet.n_packets);
	__sync_fetch_and_add(&count->rx_nbytes, packet.nbytes);

	rule = find_rule(&packet, port->switch_index);
	if (rule) {
		flow = bpf_map_lookup_elem(&flow_counters, &rule->flow);
		if (flow) {
			__sync_fetch_and_add(&flow->packets, packet.n_packets);
			__sync_fetch_and_add(&flow->nbytes, packet.nbytes);
		}
		out = egress(rule, &packet, port);
	} else {
		__sync_fetch_and_add(&count->missed_packets, packet.n_packets);
	}
	if (!out || out == ifindex) { /* OpenFlow: never back through the port it came from */
		__sync_fetch_and_add(&count->dropped_packets, packet.n_packets);
		return TC_ACT_SHOT;
	}
	return bpf_redirect(out, 0);
}

char LICENSE[] SEC("license") = "Apache-2.0";
