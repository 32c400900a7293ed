/* The switch's aggregation alone, fed with every child's packet of every chunk in turn: see additions.py. */
#include <linux/pkt_cls.h>

#include "../emu/switch/aggregate.h"

struct packet_of_child {
	__u8 octets[FRAME_NBYTES + 4 * MAX_LARGE];
};

struct progress {
	__u32 n_children;
	__u32 nbytes; /* of a packet */
	__u32 child;
	__u32 chunk;
	__u32 adds; /* 0: only make the packets, to know what that takes */
	__u32 zero;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CHILDREN);
	__type(key, __u32);
	__type(value, struct packet_of_child);
} packets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct progress);
} progresses SEC(".maps");

/* One packet: the next child's, of the chunk that is due; the same in each run of a series. */
SEC("tc") int add_next(struct __sk_buff *skb)
{
	__u32 zero = 0, nbytes, child;
	struct progress *progress = bpf_map_lookup_elem(&progresses, &zero);
	struct packet_of_child *packet;
	__be32 chunk;

	if (!progress)
		return TC_ACT_SHOT;
	child = progress->child;
	packet = bpf_map_lookup_elem(&packets, &child);
	nbytes = progress->nbytes;
	if (!packet || nbytes < FRAME_NBYTES || nbytes > sizeof(*packet))
		return TC_ACT_SHOT;
	if (skb->len != nbytes && bpf_skb_change_tail(skb, nbytes, 0))
		return TC_ACT_SHOT;
	chunk = bpf_htonl(progress->chunk);
	__builtin_memcpy(packet->octets + FRAME_NBYTES - sizeof(struct message) + 8, &chunk, sizeof(chunk));
	if (bpf_skb_store_bytes(skb, 0, packet->octets, nbytes, 0))
		return TC_ACT_SHOT;
	progress->child = child + 1 < progress->n_children ? child + 1 : 0;
	progress->chunk += !progress->child;
	if (!progress->adds)
		return TC_ACT_STOLEN;
	return aggregate(skb, child, 0) ? TC_ACT_STOLEN : TC_ACT_SHOT;
}

char LICENSE[] SEC("license") = "Apache-2.0";
