/* The rule that a packet meets. */
#ifndef GRADWIRE_FIND_H
#define GRADWIRE_FIND_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>

#include <bpf/bpf_helpers.h>

#include "layout.h"
#include "packet.h"

static __always_inline struct rule *better(struct rule *best, struct rule *other)
{
	if (!best || !other)
		return best ? best : other;
	return other->priority > best->priority ? other : best;
}

/* The rules on Ethernet's fields, and on UDP destinations; the most specific form first. */
static __always_inline struct rule *find_frame_rule(struct __sk_buff *skb, const struct packet *packet,
						    const struct port *port, __u32 forms)
{
	struct frame_key wide = {.switch_index = port->switch_index}, key;
	struct rule *best = 0;

	if (packet->is_ipv4 && packet->tuple.proto == IPPROTO_UDP) {
		key = wide;
		key.form = IN_UDP_DST;
		key.in_port = port->number;
		key.number = packet->tuple.dport;
		if (forms & (1 << IN_UDP_DST))
			best = bpf_map_lookup_elem(&frame_rules, &key);
		key.form = UDP_DST;
		key.in_port = 0;
		if (forms & (1 << UDP_DST))
			best = better(best, bpf_map_lookup_elem(&frame_rules, &key));
	}
	key = wide;
	if (bpf_skb_load_bytes(skb, 0, key.eth_dst, 2 * ETH_ALEN) < 0)
		return best;
	key.form = IN_ETH_SRC_DST;
	key.in_port = port->number;
	if (forms & (1 << IN_ETH_SRC_DST))
		best = better(best, bpf_map_lookup_elem(&frame_rules, &key));
	__builtin_memset(key.eth_src, 0, ETH_ALEN);
	key.form = IN_ETH_DST;
	if (forms & (1 << IN_ETH_DST))
		best = better(best, bpf_map_lookup_elem(&frame_rules, &key));
	key.form = ETH_DST;
	key.in_port = 0;
	if (forms & (1 << ETH_DST))
		best = better(best, bpf_map_lookup_elem(&frame_rules, &key));
	wide.form = ETH_TYPE;
	wide.number = packet->eth_type;
	if (forms & (1 << ETH_TYPE))
		best = better(best, bpf_map_lookup_elem(&frame_rules, &wide));
	return best;
}

static __always_inline struct rule *find_rule(struct __sk_buff *skb, const struct packet *packet,
					      const struct port *port)
{
	__u32 switch_index = port->switch_index;
	struct flow_key flow = {.switch_index = switch_index, .tuple = packet->tuple};
	struct pair_key pair = {switch_index, packet->tuple.src, packet->tuple.dst};
	struct dst_key dst = {switch_index, packet->tuple.dst};
	struct switch_state *state = bpf_map_lookup_elem(&switches, &switch_index);
	struct rule *best = 0;
	__u32 forms = state ? state->forms : 0;

	if (packet->is_ipv4) {
		if (forms & (1 << FLOW))
			best = bpf_map_lookup_elem(&flow_rules, &flow);
		if (forms & (1 << PAIR))
			best = better(best, bpf_map_lookup_elem(&pair_rules, &pair));
		if (forms & (1 << DST))
			best = better(best, bpf_map_lookup_elem(&dst_rules, &dst));
	}
	if (forms & ((1 << DST) - (1 << ETH_TYPE)))
		best = better(best, find_frame_rule(skb, packet, port, forms));
	if (forms & (1 << ANY))
		best = better(best, bpf_map_lookup_elem(&any_rules, &switch_index));
	return best;
}

#endif
