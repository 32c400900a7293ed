/* The packets that aggregation makes, in place of the one that came in. */
#ifndef GRADWIRE_ANSWER_H
#define GRADWIRE_ANSWER_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "loss.h"
#include "pools.h"
#include "work.h"

#define AGGREGATOR 0x0a00fffe /* 10.0.255.254: nobody has this address */
#define ALL_HOSTS 0x0a00ffff  /* the hosts' broadcast address */
#define TTL 64

/* The headers in `work` become those of a packet from this switch. */
static __always_inline void address(struct work *work, const struct pool *pool, enum message_kind kind, __u32 count,
				    __u32 n_elements)
{
	static const __u8 aggregator[ETH_ALEN] = {0x02, 0x00, 0x0a, 0x00, 0xff, 0xfe};
	__u32 dst = kind == CONTRIBUTION ? AGGREGATOR : ALL_HOSTS;
	__u32 udp_nbytes = sizeof(struct udphdr) + sizeof(struct message) + 4 * n_elements;
	__u32 ip_nbytes = sizeof(struct iphdr) + udp_nbytes;
	__u32 sum = 0x4500 + ip_nbytes + (TTL << 8 | IPPROTO_UDP) + (AGGREGATOR >> 16) + (AGGREGATOR & 0xffff) +
		    (dst >> 16) + (dst & 0xffff);

	__builtin_memcpy(work->eth.h_source, aggregator, ETH_ALEN);
	if (kind == CONTRIBUTION)
		__builtin_memcpy(work->eth.h_dest, aggregator, ETH_ALEN);
	else
		__builtin_memset(work->eth.h_dest, 0xff, ETH_ALEN);
	work->ip.tos = 0;
	work->ip.tot_len = bpf_htons(ip_nbytes);
	work->ip.id = 0;
	work->ip.frag_off = 0;
	work->ip.ttl = TTL;
	work->ip.saddr = bpf_htonl(AGGREGATOR);
	work->ip.daddr = bpf_htonl(dst);
	sum = (sum & 0xffff) + (sum >> 16);
	work->ip.check = bpf_htons(~(sum + (sum >> 16)) & 0xffff);
	work->udp.source = work->udp.dest;
	work->udp.len = bpf_htons(udp_nbytes);
	work->udp.check = 0;
	work->message.kind = kind;
	work->message.epoch = bpf_htons(pool->epoch);
	work->message.count = bpf_htons(count);
	if (kind == STATUS || kind == EPOCH)
		work->message.peak = bpf_htonl(NO_PEAK);
	if (kind != STATUS)
		work->message.seen = 0;
}

/* The packet that came in becomes the one in `work`. */
static __always_inline int write_out(struct __sk_buff *skb, const struct work *work, __u32 n_elements)
{
	__u32 nbytes = FRAME_NBYTES + 4 * n_elements;

	if (skb->len != nbytes && bpf_skb_change_tail(skb, nbytes, 0))
		return 0;
	barrier_var(nbytes); /* or the check is made of another register than the one that is used */
	if (nbytes < FRAME_NBYTES || nbytes > FRAME_NBYTES + 4 * MAX_LARGE)
		return 0;
	return bpf_skb_store_bytes(skb, 0, &work->eth, nbytes, 0) == 0;
}

struct handout {
	struct __sk_buff *skb;
	const struct pool *pool;
	__u64 children;
	__u32 switch_loses;
};

static long hand_to_one(__u32 child, void *context)
{
	struct handout *handout = context;

	if (child >= MAX_CHILDREN)
		return 1;
	if (is_of(handout->children, child))
		send_copy(handout->skb, handout->pool->ports[child], handout->switch_loses, 1);
	return 0;
}

static __always_inline void hand_out(struct handout *handout, __u64 children, struct work *work,
				     enum message_kind kind, __u32 count, __u32 n_elements)
{
	if (!children)
		return;
	handout->children = children;
	address(work, handout->pool, kind, count, n_elements);
	if (write_out(handout->skb, work, n_elements))
		bpf_loop(handout->pool->n_children, hand_to_one, handout, 0);
}

/* Send what `take_in` has found that is due, and count it, whatever becomes of it.  Elements are cut off after
 * they have been sent to those who take them.
 */
__noinline int send_answer(struct __sk_buff *skb, __u32 argument, __u32 switch_loses)
{
	__u32 number = argument >> 8, zero = 0;
	struct pool *pool = bpf_map_lookup_elem(&pools, &number);
	struct pool_counter *counter = bpf_map_lookup_elem(&pool_counters, &number);
	struct work *work = bpf_map_lookup_elem(&works, &zero);
	struct handout handout = {.skb = skb, .pool = pool, .switch_loses = switch_loses};
	__u64 to = 1ULL << (argument & 63);
	__u32 n = 1, count;

	if (!pool || !counter || !work)
		return 0;
	count = work->fate.count;
	if (work->fate.answer == RESULT_TO_ALL || work->fate.answer == STATUS_TO_ALL) {
		to = pool->children;
		n = pool->n_children;
	}
	switch (work->fate.answer) {
	case EPOCH_TO_ONE:
		hand_out(&handout, to, work, EPOCH, 0, 0);
		break;
	case STATUS_TO_ONE:
	case STATUS_TO_ALL:
		tally(counter, STATUSES, n);
		hand_out(&handout, to, work, STATUS, count, 0);
		break;
	case PARTIAL_UP:
		tally(counter, PARTIALS, 1);
		address(work, pool, CONTRIBUTION, count, count);
		if (write_out(skb, work, count))
			send_copy(skb, pool->parent, switch_loses, 1);
		break;
	case RESULT_TO_ALL:
	case RESULT_TO_ONE:
		tally(counter, RESULTS, n);
		hand_out(&handout, to & pool->takes, work, RESULT, count, count);
		hand_out(&handout, to & ~pool->takes, work, RESULT, 0, 0);
	}
	return 0;
}

#endif
