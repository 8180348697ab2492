package netns

import "golang.org/x/sys/unix"

// loopback is the index of lo, the first and only interface of every network namespace.
const loopback = 1

// raiseLoopback turns lo on.
func raiseLoopback() error {
	head := make([]byte, unix.SizeofIfInfomsg)
	native.PutUint32(head[4:], loopback)
	native.PutUint32(head[8:], unix.IFF_UP)
	native.PutUint32(head[12:], unix.IFF_UP)
	return send(unix.NETLINK_ROUTE, request(unix.RTM_NEWLINK, unix.NLM_F_ACK, head))
}

// claimEveryAddress makes every IPv4 address local to this namespace: `ip route add local 0.0.0.0/0 dev lo
// src 127.0.0.1`. A connection to any address then reaches the redirection. With an explicit source, its
// source is not its destination. IPv6 gets no route, so nothing leaves by it.
func claimEveryAddress() error {
	head := make([]byte, unix.SizeofRtMsg)
	head[0] = unix.AF_INET
	head[4] = unix.RT_TABLE_LOCAL
	head[5] = unix.RTPROT_BOOT
	head[6] = unix.RT_SCOPE_HOST
	head[7] = unix.RTN_LOCAL
	m := request(unix.RTM_NEWROUTE, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL, head)
	m.put(unix.RTA_OIF, native.AppendUint32(nil, loopback))
	m.put(unix.RTA_PREFSRC, []byte{127, 0, 0, 1})
	return send(unix.NETLINK_ROUTE, m)
}
