/* The action that adds up what a job's children send: planning/openflow/pool.py is what it must do.
 *
 * Whose packet it is says the rule that it met (its argument: pool and child), what to do with it says the
 * pool, which user space wrote; of the packet itself nothing is an index before it has been checked.  A
 * slot's lock is held while its numbers are added, and nothing is sent meanwhile: the verifier wants that.
 */
#ifndef GRADWIRE_AGGREGATE_H
#define GRADWIRE_AGGREGATE_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "answer.h"
#include "packet.h"
#include "pools.h"
#include "slots.h"
#include "work.h"

/* The headers into `work`; false if they are not what they should be.  The wire may pad a frame, so the length
 * is UDP's.
 *
 * Packets of any host to any other meet the rules of cables between switches, whatever UDP port they name.  So
 * only those count that are to the aggregator, or to all hosts: to these two no rule forwards, so that they can
 * only be of the neighbour.
 */
static __always_inline int load_headers(struct __sk_buff *skb, struct work *work)
{
	__u32 udp_nbytes, to;

	if (skb->gso_size || skb->vlan_present || bpf_skb_load_bytes(skb, 0, &work->eth, FRAME_NBYTES) < 0)
		return 0;
	to = work->message.kind == CONTRIBUTION ? AGGREGATOR : ALL_HOSTS;
	udp_nbytes = sizeof(struct udphdr) + sizeof(struct message) + 4 * announced(&work->message);
	return work->eth.h_proto == bpf_htons(ETH_P_IP) && work->ip.version == 4 && work->ip.ihl == 5 &&
	       work->ip.protocol == IPPROTO_UDP && work->ip.daddr == bpf_htonl(to) &&
	       !(work->ip.frag_off & bpf_htons(ANY_FRAGMENT)) &&
	       bpf_ntohs(work->udp.len) == udp_nbytes &&
	       bpf_ntohs(work->ip.tot_len) == sizeof(struct iphdr) + udp_nbytes &&
	       skb->len >= ETH_HLEN + sizeof(struct iphdr) + udp_nbytes;
}

/* As many elements as announced, and none from who does not give, or to where nobody takes. */
static __always_inline int is_well_formed(const struct pool *pool, __u32 child, const struct message *message)
{
	__u32 n_elements = announced(message);

	if (message->version != MESSAGE_VERSION || bpf_ntohs(message->job) != pool->job ||
	    n_elements > pool->elements)
		return 0;
	if (child == FROM_PARENT)
		return message->kind >= RESULT && message->kind <= EPOCH && (pool->takes || !n_elements);
	return message->kind == CONTRIBUTION && (is_of(pool->gives, child) || !n_elements);
}

#define MEET(slots, most)                                                                           \
	do {                                                                                        \
		struct slots *slot = bpf_map_lookup_elem(&slots, &key);                             \
		if (slot) {                                                                         \
			bpf_spin_lock(&slot->lock);                                                 \
			meet(pool, child, work, slot->versions, slot->values, most);                \
			bpf_spin_unlock(&slot->lock);                                               \
		}                                                                                   \
	} while (0)

/* A packet whose headers are good, to its slot. */
static __always_inline void pass_slot(struct __sk_buff *skb, const struct pool *pool, __u32 child, struct work *work)
{
	__u32 n_elements = announced(&work->message);
	struct slot_key key = {pool->number, bpf_ntohl(work->message.chunk) % pool->n_slots};

	/* With the header's last field once more, as the verifier has no size 0. */
	if (n_elements > MAX_LARGE ||
	    bpf_skb_load_bytes(skb, FRAME_NBYTES - sizeof(work->message.seen), &work->message.seen,
			       sizeof(work->message.seen) + 4 * n_elements) < 0)
		return;
	__builtin_memset(&work->elements[n_elements], 0, sizeof(__be32) * BLOCK);
	if (pool->elements > MAX_SMALL)
		MEET(large_slots, MAX_LARGE);
	else
		MEET(small_slots, MAX_SMALL);
	barrier();
}

/* Add a packet up; what has become of it, and what must be sent, is in `work` afterwards.  A global function is
 * verified once, whatever the caller.
 */
__noinline enum answer take_in(struct __sk_buff *skb, __u32 argument)
{
	__u32 number = argument >> 8, child = argument & 0xff, zero = 0;
	struct pool *pool = bpf_map_lookup_elem(&pools, &number);
	struct pool_counter *counter = bpf_map_lookup_elem(&pool_counters, &number);
	struct work *work = bpf_map_lookup_elem(&works, &zero);
	struct fate *fate;

	if (!pool || !counter || !work || (child != FROM_PARENT && child >= pool->n_children))
		return REFUSED;
	fate = &work->fate;
	*fate = (struct fate){.event = N_EVENTS, .answer = REFUSED};
	if (!load_headers(skb, work) || !is_well_formed(pool, child, &work->message)) {
		fate->event = MALFORMED;
	} else if (bpf_ntohs(work->message.epoch) != pool->epoch) {
		fate->event = OTHER_EPOCH;
		fate->answer = child == FROM_PARENT ? REFUSED : EPOCH_TO_ONE;
	} else {
		pass_slot(skb, pool, child, work);
	}
	barrier();
	tally(counter, CONTRIBUTIONS, child != FROM_PARENT);
	tally(counter, fate->event, 1);
	tally(counter, COMPLETED, fate->event == ADDED && fate->answer > ABSORBED);
	tally(counter, SATURATED, fate->n_saturated);
	return fate->answer;
}

/* `argument` is the rule's; true if the packet was taken in. */
static __always_inline int aggregate(struct __sk_buff *skb, __u32 argument, __u32 switch_loses)
{
	enum answer answer = take_in(skb, argument);

	if (answer != REFUSED && answer != ABSORBED)
		send_answer(skb, argument, switch_loses);
	return answer >= ABSORBED;
}

#endif
