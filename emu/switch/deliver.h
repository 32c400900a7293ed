/* Where a packet goes by a rule's action: a port, several, a group, a controller. */
#ifndef GRADWIRE_DELIVER_H
#define GRADWIRE_DELIVER_H

#include <linux/bpf.h>
#include <linux/if_ether.h>

#include <bpf/bpf_helpers.h>

#include "layout.h"
#include "loss.h"
#include "packet.h"

/* A packet on its way through one switch. */
struct passage {
	struct __sk_buff *skb;
	const struct packet *packet;
	const struct port *port; /* where it came in */
	__u32 in_ifindex;
	__u32 is_table_miss;
	__u64 cookie;
	struct group *group;
	struct group_counter *counter;
	struct switch_ports *ports;
	__u32 chosen;
	__u32 n_sent;
};

/* The ring's records have constant sizes, as the verifier wants them.  That a frame is no shorter than its Ethernet
 * header is said because Linux 6.1 learns nothing from a comparison with 0, and of `kept` itself by the barrier.
 */
#define TELL(passage, size)                                                                          \
	({                                                                                           \
		struct packet_in *record = bpf_ringbuf_reserve(&packet_ins, sizeof(*record) + (size), 0);\
		__u32 kept = (passage)->skb->len;                                                    \
		if (record) {                                                                        \
			kept = kept < (size) ? kept : (size);                                        \
			fill(record, passage);                                                       \
			barrier_var(kept);                                                           \
			if (kept >= ETH_HLEN &&                                                      \
			    bpf_skb_load_bytes((passage)->skb, 0, record->frame, kept) == 0)         \
				record->kept_nbytes = kept;                                          \
			bpf_ringbuf_submit(record, 0);                                               \
		}                                                                                    \
		record != 0;                                                                         \
	})

static __always_inline void fill(struct packet_in *record, const struct passage *passage)
{
	record->switch_index = passage->port->switch_index;
	record->in_port = passage->port->number;
	record->cookie = passage->cookie;
	record->nbytes = passage->skb->len;
	record->kept_nbytes = 0;
	record->vlan_tci = passage->skb->vlan_tci;
	record->vlan_proto = passage->skb->vlan_present ? passage->skb->vlan_proto : 0;
	record->reason = passage->is_table_miss ? NO_MATCH : ACTION;
}

/* To user space, which has it sent to the controllers. */
static __noinline int tell_controller(struct passage *passage)
{
	__u32 nbytes = passage->skb->len;
	struct port_counter *lost;
	int is_told;

	if (nbytes <= 256)
		is_told = TELL(passage, 256);
	else if (nbytes <= 2048)
		is_told = TELL(passage, 2048);
	else
		is_told = TELL(passage, 65472); /* more is not in a message of OpenFlow */
	if (!is_told) {
		lost = bpf_map_lookup_elem(&port_counters, &passage->port->counter);
		if (lost)
			__sync_fetch_and_add(&lost->lost_packet_ins, 1);
	}
	return is_told;
}

static __always_inline void copy_to(struct passage *passage, __u32 ifindex)
{
	passage->n_sent += send_copy(passage->skb, ifindex, passage->port->switch_loses, passage->packet->n_packets);
}

static long flood_one(__u32 number, void *context)
{
	struct passage *passage = context;
	__u32 out;

	if (number >= MAX_SWITCH_PORTS)
		return 1;
	out = passage->ports->ifindex[number];
	if (out != passage->in_ifindex)
		copy_to(passage, out);
	return 0;
}

/* A copy to `target`; OpenFlow: by its number nothing leaves through the port it came from. */
static __always_inline void send(struct passage *passage, __u32 target)
{
	if (target == TO_CONTROLLER) {
		passage->n_sent += tell_controller(passage);
	} else if (target == TO_FLOOD || target == TO_ALL) {
		__u32 switch_index = passage->port->switch_index;
		struct switch_ports *all = bpf_map_lookup_elem(&switch_ports, &switch_index);

		if (!all)
			return;
		passage->ports = all;
		bpf_loop(all->n, flood_one, passage, 0);
	} else {
		if (target == TO_IN_PORT)
			target = passage->in_ifindex;
		else if (target == passage->in_ifindex)
			return;
		if (target && target <= LAST_IFINDEX)
			copy_to(passage, target);
	}
}

static long send_bucket(__u32 number, void *context)
{
	struct passage *passage = context;

	if (number >= MAX_BUCKETS)
		return 1;
	if (passage->counter)
		count(&passage->counter->buckets[number], passage->packet);
	send(passage, passage->group->buckets[number].target);
	return 0;
}

static long choose_live(__u32 number, void *context)
{
	struct passage *passage = context;
	struct port *watched;
	__u32 ifindex;

	if (number >= MAX_BUCKETS)
		return 1;
	ifindex = passage->group->buckets[number].watch;
	watched = bpf_map_lookup_elem(&ports, &ifindex);
	if (!watched || !watched->is_live)
		return 0;
	passage->chosen = number;
	return 1;
}

/* The number of the one bucket that a packet takes, MAX_BUCKETS if there is none. */
static __always_inline __u32 choose(struct passage *passage, const struct group *group)
{
	__u32 place;

	passage->chosen = MAX_BUCKETS;
	if (group->kind == FAILOVER) {
		bpf_loop(group->n_buckets, choose_live, passage, 0);
		return passage->chosen;
	}
	if (group->kind == INDIRECT)
		return 0;
	if (!group->n_weighted)
		return MAX_BUCKETS;
	place = flow_hash(&passage->packet->tuple, passage->port->salt) % group->n_weighted;
	return place < MAX_BUCKETS ? group->weighted[place] : MAX_BUCKETS;
}

/* The interface through which the packet leaves as it is, or 0: copies have been sent, if anything was. */
static __always_inline __u32 leave(struct passage *passage, __u32 target)
{
	if (target && target <= LAST_IFINDEX)
		return target == passage->in_ifindex ? 0 : target;
	if (target)
		send(passage, target);
	return 0;
}

static __always_inline __u32 take_group(struct passage *passage, struct group *group)
{
	__u32 index = group->counter, chosen;

	passage->group = group;
	passage->counter = bpf_map_lookup_elem(&group_counters, &index);
	if (passage->counter)
		count(&passage->counter->whole, passage->packet);
	if (group->kind == ALL) {
		bpf_loop(group->n_buckets, send_bucket, passage, 0);
		return 0;
	}
	chosen = choose(passage, group);
	if (chosen >= MAX_BUCKETS)
		return 0;
	if (passage->counter)
		count(&passage->counter->buckets[chosen], passage->packet);
	return leave(passage, group->buckets[chosen].target);
}

static __always_inline __u32 obey(struct passage *passage, __u32 action, __u32 argument, __u32 flow)
{
	struct group_key key = {passage->port->switch_index, argument};
	struct group_key list = {0, flow};
	struct group *group;

	if (action == OUTPUT)
		return leave(passage, argument);
	if (action == GROUP)
		group = bpf_map_lookup_elem(&groups, &key);
	else if (action == LIST)
		group = bpf_map_lookup_elem(&lists, &list);
	else
		return 0;
	return group ? take_group(passage, group) : 0;
}

#endif
