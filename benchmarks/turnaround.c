/* A switch with a whole aggregation job at every port: its contributions come back as results at once.
 *
 * For benchmarks/workers.py, which measures what hosts do: nothing is added, nothing is kept.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

struct answer {
	struct ethhdr ethernet;
	struct iphdr ip;
	struct udphdr udp;
	__u8 version, kind;
} __attribute__((packed));

SEC("classifier")
int turnaround(struct __sk_buff *skb)
{
	const __u32 everybody = bpf_htonl(0x0a00ffff), nobody = bpf_htonl(0x0a00fffe);
	const __u8 mac[ETH_ALEN] = {2, 0, 10, 0, 255, 254};
	struct answer answer;
	__u32 sum = 0;

	if (bpf_skb_load_bytes(skb, 0, &answer, sizeof(answer)) || answer.ethernet.h_proto != bpf_htons(ETH_P_IP) ||
	    answer.ip.protocol != IPPROTO_UDP)
		return TC_ACT_SHOT;
	__builtin_memset(answer.ethernet.h_dest, 0xff, ETH_ALEN);
	__builtin_memcpy(answer.ethernet.h_source, mac, ETH_ALEN);
	answer.ip.saddr = nobody;
	answer.ip.daddr = everybody;
	answer.ip.check = 0;
	for (int i = 0; i < 10; i++)
		sum += ((__u16 *)((char *)&answer + sizeof(answer.ethernet)))[i];
	sum = (sum & 0xffff) + (sum >> 16);
	answer.ip.check = ~((sum & 0xffff) + (sum >> 16));
	answer.udp.check = 0;
	answer.kind = 2;
	bpf_skb_store_bytes(skb, 0, &answer, sizeof(answer), 0);
	return bpf_redirect(skb->ifindex, 0);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
