"""What Linux counts and allows of a connection's segments: to read captures, set hosts and model them."""

# Of a connection in queues, anywhere in the fabric (`tcp_small_queue_check`, net/ipv4/tcp_output.c).  Linux's
# own rule is two, or what the connection may send in a millisecond, which depends on its window and its round
# trips so far.  With three a port at 1 Gb/s keeps 98.6 % of its rate, with two 97 %: the processors are late
# at times.
LINUX_SEGMENTS, SMALL_QUEUE_SEGMENTS = 2, 3  # Linux's own, and what gradwire sets (tcp_limit_output_bytes)
# struct sk_buff, skb_shared_info and room for headers (`SKB_TRUESIZE` in linux/skbuff.h): 256, 320, and 256
# to 320.  With 796 to 898 a sender waits until 10 segments of 4,344 bytes have left its 128 KiB, as measured.
SEGMENT_OVERHEAD_NBYTES = 864
FILLED = 2 / 3  # of a socket's memory: with more in it a rank that waits does not go on (`sk_stream_wspace`)
