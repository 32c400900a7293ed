/* The data plane of gradwire's switch: one tc program for every port of every switch.
 *
 * It is attached (cls_bpf, direct action) to the ingress of each port.  A packet's headers are looked
 * up in the hash map of each match form that the switch has rules of; the rule with the highest
 * OpenFlow priority wins, among equals the form that comes later in `enum form`.  The packet is handed
 * to the egress port, whose queueing discipline shapes it, or to several, or to user space for a
 * controller.  Whatever matches nothing is dropped and counted.
 *
 * Read layout.h (the maps), packet.h, find.h, deliver.h, then this; loss.h can wait, as can aggregation:
 * pools.h (its maps), work.h, slots.h, answer.h, aggregate.h.
 * Needs kernel 5.17 (bpf_loop) with BTF (global functions), and no helper reserved to GPL programs.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "aggregate.h"
#include "deliver.h"
#include "find.h"
#include "layout.h"
#include "packet.h"

/* Whether any rule can add packets up: user space writes 0 here before it loads the program if none can.  What
 * adds up is then no part of the program, and the kernel loads the rest in half of the time.
 */
const volatile __u32 adds_up SEC(".rodata.adds_up") = 1;

/* The rule that the packet meets, counted; or 0. */
static __always_inline struct rule *meet_rule(struct passage *passage)
{
	struct rule *rule = find_rule(passage->skb, passage->packet, passage->port);
	struct flow_counter *flow;

	if (!rule)
		return 0;
	flow = bpf_map_lookup_elem(&flow_counters, &rule->flow);
	if (flow)
		count(flow, passage->packet);
	passage->is_table_miss = rule->is_table_miss;
	passage->cookie = rule->cookie;
	return rule;
}

SEC("tc") int gradwire_switch(struct __sk_buff *skb)
{
	__u32 ifindex = skb->ifindex, out;
	struct port *port = bpf_map_lookup_elem(&ports, &ifindex);
	struct packet packet = parse(skb);
	struct passage passage = {.skb = skb, .packet = &packet, .port = port, .in_ifindex = ifindex};
	struct port_counter *counter;
	struct rule *rule;

	if (!port)
		return TC_ACT_SHOT;
	counter = bpf_map_lookup_elem(&port_counters, &port->counter);
	if (!counter || is_lost_in(port, counter, packet.n_packets))
		return TC_ACT_SHOT;
	__sync_fetch_and_add(&counter->rx_packets, packet.n_packets);
	__sync_fetch_and_add(&counter->rx_nbytes, packet.nbytes);

	rule = meet_rule(&passage);
	if (!rule)
		__sync_fetch_and_add(&counter->missed_packets, packet.n_packets);
	else if (adds_up && rule->action == AGGREGATE && aggregate(skb, rule->argument, port->switch_loses))
		return TC_ACT_STOLEN;
	out = rule ? obey(&passage, rule->action, rule->argument, rule->flow) : 0;
	if (out) {
		if (port->switch_loses && is_lost_out(out, packet.n_packets))
			return TC_ACT_STOLEN;
		return bpf_redirect(out, 0);
	}
	if (passage.n_sent)
		return TC_ACT_STOLEN;
	__sync_fetch_and_add(&counter->dropped_packets, packet.n_packets);
	return TC_ACT_SHOT;
}

/* Of a frame that comes in through a port the kernel keeps the outer VLAN tag beside it; so it is done here. */
static __always_inline void set_tag_aside(struct __sk_buff *skb)
{
	struct {
		__be16 proto, tci;
	} tag;

	if (skb->protocol != bpf_htons(ETH_P_8021Q) && skb->protocol != bpf_htons(ETH_P_8021AD))
		return;
	if (bpf_skb_load_bytes(skb, 2 * ETH_ALEN, &tag, sizeof(tag)) == 0 && bpf_skb_vlan_pop(skb) == 0)
		bpf_skb_vlan_push(skb, tag.proto, bpf_ntohs(tag.tci));
}

/* A controller's packet to the table or to a group, run by user space (BPF_PROG_TEST_RUN).
 *
 * The interface is that of the packet's in_port, if that is a port; cb says the rest:
 * switch, in_port, salt, then TO_TABLE or TO_ALL for "to a group", and the group's number.
 */
SEC("tc") int gradwire_packet_out(struct __sk_buff *skb)
{
	struct port port = {.switch_index = skb->cb[0], .number = skb->cb[1], .salt = skb->cb[2]};
	struct packet packet;
	struct passage passage = {.skb = skb, .packet = &packet, .port = &port, .in_ifindex = skb->ifindex};
	struct rule *rule;
	__u32 out = 0;

	set_tag_aside(skb);
	packet = parse(skb);
	port.counter = MAX_PORTS; /* it came in through no port */
	port.switch_loses = 1;	  /* perhaps */
	passage.cookie = (__u64)-1;
	if (skb->cb[3] == TO_TABLE) {
		rule = meet_rule(&passage); /* one that aggregates drops it: nobody's contribution comes from here */
		if (rule)
			out = obey(&passage, rule->action, rule->argument, rule->flow);
	} else {
		out = obey(&passage, GROUP, skb->cb[4], 0);
	}
	if (out)
		copy_to(&passage, out);
	return passage.n_sent;
}

char LICENSE[] SEC("license") = "Apache-2.0";
