/* A packet's headers, what it counts for on the wire, and the hash of its flow. */
#ifndef GRADWIRE_PACKET_H
#define GRADWIRE_PACKET_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "layout.h"

#define ANY_FRAGMENT 0x3fff /* more fragments, and the offset */
#define UDP_HEADER_NBYTES 8
#define VLAN_TAG_NBYTES 4
#define ETH_TYPE_NONE 0x05ff /* OpenFlow's eth_type of a frame that has a length in its place */

struct packet {
	int is_ipv4;
	__be16 eth_type; /* after the VLAN tag */
	struct five_tuple tuple;
	__u32 n_packets; /* what the cable carries: a TSO super-segment is many packets */
	__u64 nbytes;	 /* with an Ethernet header for each of them, without FCS */
};

static __always_inline void count(struct flow_counter *counter, const struct packet *packet)
{
	__sync_fetch_and_add(&counter->packets, packet->n_packets);
	__sync_fetch_and_add(&counter->nbytes, packet->nbytes);
}

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

/* An 802.3 frame has a type if it has a SNAP header of organisation 0. */
static __always_inline __be16 snap_type(struct __sk_buff *skb)
{
	struct {
		__be16 sap, control_and_oui, oui, type;
	} snap;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, &snap, sizeof(snap)) == 0 && snap.sap == bpf_htons(0xaaaa) &&
	    snap.control_and_oui == bpf_htons(0x0300) && !snap.oui)
		return snap.type;
	return bpf_htons(ETH_TYPE_NONE);
}

static __always_inline struct packet parse(struct __sk_buff *skb)
{
	struct packet packet = {.n_packets = 1, .nbytes = skb->len, .eth_type = skb->protocol};
	struct iphdr ip;
	__be16 ports[2] = {0, 0};
	__u32 l4;

	if (packet.eth_type == bpf_htons(ETH_P_802_3) || packet.eth_type == bpf_htons(ETH_P_802_2))
		packet.eth_type = snap_type(skb);
	if (skb->protocol == bpf_htons(ETH_P_IP) && bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)) == 0 &&
	    ip.version == 4 && ip.ihl >= 5) {
		l4 = ETH_HLEN + ip.ihl * 4;
		packet.is_ipv4 = 1;
		packet.tuple.src = ip.saddr;
		packet.tuple.dst = ip.daddr;
		packet.tuple.proto = ip.protocol;
		/* A fragment counts as ports 0, the first as well: a datagram takes one path (OFPC_FRAG_NORMAL). */
		if ((ip.protocol == IPPROTO_TCP || ip.protocol == IPPROTO_UDP) &&
		    !(ip.frag_off & bpf_htons(ANY_FRAGMENT)) &&
		    bpf_skb_load_bytes(skb, l4, ports, sizeof(ports)) == 0) {
			packet.tuple.sport = ports[0];
			packet.tuple.dport = ports[1];
			count_segments(skb, &packet, l4);
		}
	}
	if (skb->vlan_present) /* the tag is not in the frame, but it is on the wire */
		packet.nbytes += (__u64)VLAN_TAG_NBYTES * packet.n_packets;
	return packet;
}

/* FNV-1a over the 13 bytes, then MurmurHash3's finaliser: planning/flowhash.py has the reasons. */
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

#endif
