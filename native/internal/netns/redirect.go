package netns

import (
	"encoding/binary"
	"errors"
	"os"

	"agentpod/native/internal/peer"

	"golang.org/x/sys/unix"
)

const (
	table       = "agentpod"
	register    = unix.NFT_REG_1
	listElement = 1 // NFTA_LIST_ELEM
	dataValue   = 1 // NFTA_DATA_VALUE

	protocolAt    = 9  // of an IPv4 header
	destinationAt = 16 // of an IPv4 header
	loopbackNet   = 127

	limitOver   = 1 // NFT_LIMIT_F_INV
	dataVerdict = 2 // NFTA_DATA_VERDICT
	verdictCode = 1 // NFTA_VERDICT_CODE

	hookOutput     = 3 // NF_INET_LOCAL_OUT
	priorityRaw    = -300
	priorityDstNAT = -100
)

// A sandbox can open this many outgoing connections in a second, and once a burst of this many more. The
// kernel retries the others a second later.
const (
	newEachSecond = 500
	newAtOnce     = 2000
)

// redirect sends every TCP connection that is not to 127.0.0.0/8 to podd's listener. In the syntax of nft:
//
//	table ip agentpod {
//	  chain apart {
//	    type filter hook output priority raw
//	    ip protocol != tcp notrack
//	    ip daddr 127.0.0.0/8 tcp sport != 61080 tcp dport != 61080 notrack
//	  }
//	  chain out {
//	    type nat hook output priority dstnat
//	    limit rate over 500/second burst 2000 packets drop
//	    ip protocol tcp ip daddr != 127.0.0.0/8 redirect to :61080
//	  }
//	}
//
// Nothing inside can change it: that takes CAP_NET_ADMIN, which is not in any bounding set of a sandbox.
//
// SECURITY: RS-08. Connections are tracked in one table for the whole host, whose memory no group is charged
// for. So what stays inside is not tracked, and the rest cannot come faster than it is forgotten: each entry
// stays some ten seconds after its connection. Counting them would be no bound, since the kernel leaves out
// those that ended.
func redirect() error {
	err := install(true)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
		err = install(false)
	}
	if err == nil {
		// Two minutes is the default; here both ends are in one kernel. Some kernels do not let a namespace
		// set it.
		os.WriteFile("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_time_wait", []byte("10"), 0)
	}
	return err
}

func install(limited bool) error {
	messages := []*message{
		batch(unix.NFNL_MSG_BATCH_BEGIN),
		nft(unix.NFT_MSG_NEWTABLE).putText(unix.NFTA_TABLE_NAME, table),
		chain("apart", "filter", priorityRaw),
		rule("apart", func(m *message) {
			m.header(protocolAt, 1)
			m.compare(unix.NFT_CMP_NEQ, unix.IPPROTO_TCP)
			m.express("notrack", func() {})
		}),
		rule("apart", func(m *message) {
			m.header(protocolAt, 1)
			m.compare(unix.NFT_CMP_EQ, unix.IPPROTO_TCP)
			m.header(destinationAt, 1)
			m.compare(unix.NFT_CMP_EQ, loopbackNet)
			for _, at := range []uint32{0, 2} {
				m.load(unix.NFT_PAYLOAD_TRANSPORT_HEADER, at, 2)
				m.compare(unix.NFT_CMP_NEQ, port(peer.EgressPort)...)
			}
			m.express("notrack", func() {})
		}),
		chain("out", "nat", priorityDstNAT),
	}
	if limited {
		messages = append(messages, rule("out", func(m *message) {
			m.express("limit", func() {
				m.put(unix.NFTA_LIMIT_RATE, binary.BigEndian.AppendUint64(nil, newEachSecond))
				m.put(unix.NFTA_LIMIT_UNIT, binary.BigEndian.AppendUint64(nil, 1))
				m.putNumber(unix.NFTA_LIMIT_BURST, newAtOnce)
				m.putNumber(unix.NFTA_LIMIT_FLAGS, limitOver)
			})
			m.drop()
		}))
	}
	messages = append(messages,
		rule("out", func(m *message) {
			m.header(protocolAt, 1)
			m.compare(unix.NFT_CMP_EQ, unix.IPPROTO_TCP)
			m.header(destinationAt, 1)
			m.compare(unix.NFT_CMP_NEQ, loopbackNet)
			m.redirect(peer.EgressPort)
		}),
		batch(unix.NFNL_MSG_BATCH_END))
	return send(unix.NETLINK_NETFILTER, messages...)
}

// redirectContainers is redirect for a container engine inside. In the syntax of nft:
//
//	table ip agentpod {
//	  chain in {
//	    type nat hook prerouting priority dstnat
//	    ip protocol udp ip daddr & 255.240.0.0 != 172.16.0.0 redirect to :61053
//	    ip protocol tcp ip daddr & 255.255.255.0 == 10.255.0.0 redirect to :61053
//	    ip protocol tcp ip daddr & 255.240.0.0 != 172.16.0.0 redirect to :61080
//	  }
//	  chain out {
//	    type nat hook output priority dstnat
//	    ip protocol tcp ip daddr & 255.255.255.0 == 10.255.0.0 accept
//	    ip protocol tcp ip daddr & 255.240.0.0 == 172.16.0.0 accept
//	    ip protocol tcp ip daddr != 127.0.0.0/8 redirect to :61080
//	  }
//	}
//
// Connections inside are tracked: the table is that of the sandbox's own kernel. Programs of root inside can
// change these rules, and gain nothing: there is no other way out.
func redirectContainers() error {
	messages := []*message{
		batch(unix.NFNL_MSG_BATCH_BEGIN),
		nft(unix.NFT_MSG_NEWTABLE).putText(unix.NFTA_TABLE_NAME, table),
		chainAt("in", "nat", hookPrerouting, priorityDstNAT),
		ruleTo("in", unix.IPPROTO_UDP, unix.NFT_CMP_NEQ, containerNet, func(m *message) { m.redirect(containerDNSPort) }),
		ruleTo("in", unix.IPPROTO_TCP, unix.NFT_CMP_EQ, bridgeSubnet, func(m *message) { m.redirect(containerDNSPort) }),
		ruleTo("in", unix.IPPROTO_TCP, unix.NFT_CMP_NEQ, containerNet, func(m *message) { m.redirect(peer.EgressPort) }),
		chainAt("out", "nat", hookOutput, priorityDstNAT),
		ruleTo("out", unix.IPPROTO_TCP, unix.NFT_CMP_EQ, bridgeSubnet, (*message).accept),
		ruleTo("out", unix.IPPROTO_TCP, unix.NFT_CMP_EQ, containerNet, (*message).accept),
		ruleTo("out", unix.IPPROTO_TCP, unix.NFT_CMP_NEQ, loopbackSubnet, func(m *message) { m.redirect(peer.EgressPort) }),
		batch(unix.NFNL_MSG_BATCH_END),
	}
	return send(unix.NETLINK_NETFILTER, messages...)
}

// ruleTo is a rule for packets of a protocol whose destination is in a subnet, or is not.
func ruleTo(chain string, protocol byte, how uint32, to subnet, then func(m *message)) *message {
	return rule(chain, func(m *message) {
		m.header(protocolAt, 1)
		m.compare(unix.NFT_CMP_EQ, protocol)
		m.header(destinationAt, 4)
		m.mask(to.mask)
		m.compare(how, to.address[:]...)
		then(m)
	})
}

func port(number uint16) []byte { return binary.BigEndian.AppendUint16(nil, number) }

// family is struct nfgenmsg.
func family(kind byte, resource uint16) []byte {
	return append([]byte{kind, unix.NFNETLINK_V0}, port(resource)...)
}

func batch(kind uint16) *message {
	return request(kind, 0, family(unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES))
}

func nft(kind uint16) *message {
	return request(unix.NFNL_SUBSYS_NFTABLES<<8|kind, unix.NLM_F_ACK|unix.NLM_F_CREATE, family(unix.NFPROTO_IPV4, 0))
}

// chain makes a chain in the output hook. A packet that no rule matches passes.
func chain(name, kind string, priority int32) *message {
	return chainAt(name, kind, hookOutput, priority)
}

func chainAt(name, kind string, hook uint32, priority int32) *message {
	m := nft(unix.NFT_MSG_NEWCHAIN).putText(unix.NFTA_CHAIN_TABLE, table).putText(unix.NFTA_CHAIN_NAME, name)
	m.nest(unix.NFTA_CHAIN_HOOK, func() {
		m.putNumber(unix.NFTA_HOOK_HOOKNUM, hook)
		m.putNumber(unix.NFTA_HOOK_PRIORITY, uint32(priority))
	})
	return m.putNumber(unix.NFTA_CHAIN_POLICY, 1).putText(unix.NFTA_CHAIN_TYPE, kind)
}

func rule(name string, express func(m *message)) *message {
	m := nft(unix.NFT_MSG_NEWRULE).putText(unix.NFTA_RULE_TABLE, table).putText(unix.NFTA_RULE_CHAIN, name)
	native.PutUint16(m.data[6:], native.Uint16(m.data[6:])|unix.NLM_F_APPEND)
	return m.nest(unix.NFTA_RULE_EXPRESSIONS, func() { express(m) })
}

func (m *message) express(name string, fill func()) {
	m.nest(listElement, func() {
		m.putText(unix.NFTA_EXPR_NAME, name)
		m.nest(unix.NFTA_EXPR_DATA, fill)
	})
}

// header loads bytes of the IPv4 header.
func (m *message) header(offset, length uint32) {
	m.load(unix.NFT_PAYLOAD_NETWORK_HEADER, offset, length)
}

func (m *message) load(base, offset, length uint32) {
	m.express("payload", func() {
		m.putNumber(unix.NFTA_PAYLOAD_DREG, register)
		m.putNumber(unix.NFTA_PAYLOAD_BASE, base)
		m.putNumber(unix.NFTA_PAYLOAD_OFFSET, offset)
		m.putNumber(unix.NFTA_PAYLOAD_LEN, length)
	})
}

func (m *message) compare(how uint32, value ...byte) {
	m.express("cmp", func() {
		m.putNumber(unix.NFTA_CMP_SREG, register)
		m.putNumber(unix.NFTA_CMP_OP, how)
		m.nest(unix.NFTA_CMP_DATA, func() { m.put(dataValue, value) })
	})
}

func (m *message) redirect(to uint16) {
	m.express("immediate", func() {
		m.putNumber(unix.NFTA_IMMEDIATE_DREG, register)
		m.nest(unix.NFTA_IMMEDIATE_DATA, func() { m.put(dataValue, port(to)) })
	})
	m.express("redir", func() { m.putNumber(unix.NFTA_REDIR_REG_PROTO_MIN, register) })
}

func (m *message) drop()   { m.verdict(0) }
func (m *message) accept() { m.verdict(1) }

func (m *message) verdict(code uint32) {
	m.express("immediate", func() {
		m.putNumber(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT)
		m.nest(unix.NFTA_IMMEDIATE_DATA, func() {
			m.nest(dataVerdict, func() { m.putNumber(verdictCode, code) })
		})
	})
}

// mask keeps bits of the four bytes that were loaded.
func (m *message) mask(bits [4]byte) {
	m.express("bitwise", func() {
		m.putNumber(unix.NFTA_BITWISE_SREG, register)
		m.putNumber(unix.NFTA_BITWISE_DREG, register)
		m.putNumber(unix.NFTA_BITWISE_LEN, uint32(len(bits)))
		m.nest(unix.NFTA_BITWISE_MASK, func() { m.put(dataValue, bits[:]) })
		m.nest(unix.NFTA_BITWISE_XOR, func() { m.put(dataValue, make([]byte, len(bits))) })
	})
}
