/* Cables that lose packets, for tests and studies: each by a draw that its port's seed decides. */
#ifndef GRADWIRE_LOSS_H
#define GRADWIRE_LOSS_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "layout.h"

enum way { INTO_SWITCH, OUT_OF_SWITCH };

/* SplitMix64 (Steele, Lea and Flood 2014): the draw of a number is the same whenever it is made. */
static __always_inline int is_drawn(__u64 *drawn, __u32 seed, enum way way, __u32 threshold)
{
	__u64 number = __sync_fetch_and_add(drawn, 1);
	__u64 state = ((__u64)seed << 1 | way) + (number + 1) * 0x9e3779b97f4a7c15;

	state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9;
	state = (state ^ (state >> 27)) * 0x94d049bb133111eb;
	return ((state ^ (state >> 31)) >> 32) < threshold;
}

static __always_inline int is_lost_in(const struct port *port, struct port_counter *counter, __u32 n_packets)
{
	if (!port->rx_loss || !is_drawn(&counter->drawn_in, port->loss_seed, INTO_SWITCH, port->rx_loss))
		return 0;
	__sync_fetch_and_add(&counter->lost_in, n_packets);
	return 1;
}

/* Only asked where a port of the switch loses what leaves, so that others pay nothing. */
static __noinline int is_lost_out(__u32 ifindex, __u32 n_packets)
{
	struct port *port = bpf_map_lookup_elem(&ports, &ifindex);
	struct port_counter *counter;

	if (!port || !port->tx_loss)
		return 0;
	counter = bpf_map_lookup_elem(&port_counters, &port->counter);
	if (!counter || !is_drawn(&counter->drawn_out, port->loss_seed, OUT_OF_SWITCH, port->tx_loss))
		return 0;
	__sync_fetch_and_add(&counter->lost_out, n_packets);
	return 1;
}

/* A copy to an interface's queue; what its cable then loses has been sent all the same. */
static __always_inline int send_copy(struct __sk_buff *skb, __u32 ifindex, __u32 switch_loses, __u32 n_packets)
{
	if (switch_loses && is_lost_out(ifindex, n_packets))
		return 1;
	return bpf_clone_redirect(skb, ifindex, 0) == 0;
}

#endif
