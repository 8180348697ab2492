package netns

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"agentpod/native/internal/peer"

	"golang.org/x/sys/unix"
)

// SetupGVisor is Setup in a gVisor sandbox, whose network stack is gVisor's own: nothing of it reaches the
// host's kernel, and its table of connections is the sandbox's own memory. podd needs CAP_NET_ADMIN and
// CAP_NET_RAW for it, inside. The stack has no nftables, only the interface of iptables.
//
// withContainers is for a container engine inside: connections of containers, which arrive over the engine's
// bridges, are redirected too, and those to containers are not.
func SetupGVisor(withContainers bool) (*Network, *GVisorRedirection) {
	n := &Network{Level: Level{Level: Transparent}}
	redirection, err := newGVisorRedirection(withContainers)
	if err == nil {
		err = n.listen()
	}
	if err == nil && withContainers {
		if err = makeBridge(); err == nil {
			err = n.listenForContainers()
		}
	}
	if err == nil {
		err = redirection.Set()
	}
	if err != nil {
		n.Close()
		return &Network{Level: Unavailable("gVisor's network: %v", err)}, redirection
	}
	return n, redirection
}

// A GVisorRedirection leads every TCP connection that is not to 127.0.0.0/8 to podd's listener. A restored
// sandbox has lost it, and has no network until it is set again. Only its socket takes CAP_NET_RAW, which
// gVisor takes away with the bounding set.
type GVisorRedirection struct {
	socket         int
	withContainers bool
}

func newGVisorRedirection(withContainers bool) (*GVisorRedirection, error) {
	// Nothing arrives on such a socket.
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return nil, os.NewSyscallError("raw socket", err)
	}
	return &GVisorRedirection{socket, withContainers}, nil
}

// Set sets the redirection. It takes CAP_NET_ADMIN.
func (r *GVisorRedirection) Set() error {
	if r == nil {
		return errors.New("there is none")
	}
	if !r.withContainers {
		if err := giveLoopbackEveryAddress(); err != nil {
			return fmt.Errorf("address: %w", err)
		}
	}
	if err := natRules(r.withContainers).replace(r.socket); err != nil {
		return fmt.Errorf("redirection: %w", err)
	}
	if r.withContainers {
		if err := forwardRules().replace(r.socket); err != nil {
			return fmt.Errorf("forwarding: %w", err)
		}
	}
	return nil
}

// everyAddress is an address of loopback whose subnet is all of IPv4, so that any destination is local.
var everyAddress = []byte{10, 255, 0, 1}

// giveLoopbackEveryAddress is `ip addr add 10.255.0.1/0 dev lo`. gVisor refuses the route that Setup uses.
func giveLoopbackEveryAddress() error {
	head := make([]byte, unix.SizeofIfAddrmsg)
	head[0] = unix.AF_INET
	native.PutUint32(head[4:], loopback)
	m := request(unix.RTM_NEWADDR, unix.NLM_F_ACK|unix.NLM_F_CREATE, head)
	m.put(unix.IFA_LOCAL, everyAddress)
	m.put(unix.IFA_ADDRESS, everyAddress)
	return send(unix.NETLINK_ROUTE, m)
}

// The interface of iptables: structures of linux/netfilter_ipv4/ip_tables.h, for 64 bits.
const (
	setReplace = 64 // IPT_SO_SET_REPLACE

	natHooks       = 1<<0 | 1<<1 | 1<<3 | 1<<4 // PREROUTING, INPUT, OUTPUT, POSTROUTING
	filterHooks    = 1<<1 | 1<<2 | 1<<3        // INPUT, FORWARD, OUTPUT
	hookPrerouting = 0
	hookForward    = 2
	unusedHook     = ^uint32(0)
	entrySize      = 112
	protocolField  = 80
	invertField    = 83
	invertTo       = 0x10 // IPT_INV_DSTIP
	destination    = 4
	destinationOf  = 12

	acceptVerdict  = -2 // -NF_ACCEPT - 1
	dropVerdict    = -1 // -NF_DROP - 1
	natProtoFilled = 2  // NF_NAT_RANGE_PROTO_SPECIFIED
)

// containerNet is where the networks of containers inside are. Nothing outside has such an address for a
// sandbox: the egress process refuses private addresses, unless a rule allows one.
var containerNet = subnet{[4]byte{172, 16, 0, 0}, [4]byte{255, 240, 0, 0}}

var loopbackSubnet = subnet{[4]byte{loopbackNet, 0, 0, 0}, [4]byte{255, 0, 0, 0}}

// containerGateways are the first addresses of the engine's networks, which are the sandbox's own.
var containerGateways = subnet{[4]byte{172, 16, 0, 1}, [4]byte{255, 240, 0, 255}}

type subnet struct{ address, mask [4]byte }

// rules are those of one table of iptables.
type rules struct {
	table string
	// hooks are the chains that the table has, as bits.
	hooks uint32
	// rules are in the order of the chain, by hook.
	rules map[int][][]byte
	// dropped is the chain whose packets are dropped if no rule matches; -1 if there is none.
	dropped int
}

// natRules are the rules of the nat table:
//
//	-A OUTPUT -p tcp ! -d 127.0.0.0/8 -j REDIRECT --to-ports 61080
//
// and with containers:
//
//	-A PREROUTING -p udp ! -d 172.16.0.0/12 -j REDIRECT --to-ports 61053
//	-A PREROUTING -p tcp -d 10.255.0.0/24 -j REDIRECT --to-ports 61053
//	-A PREROUTING -p tcp ! -d 172.16.0.0/12 -j REDIRECT --to-ports 61080
//
// before that of OUTPUT:
//
//	-A OUTPUT -p tcp -d 10.255.0.0/24 -j ACCEPT
//	-A OUTPUT -p tcp -d 172.16.0.0/12 -j ACCEPT
func natRules(withContainers bool) rules {
	leaving := ruleFor(unix.IPPROTO_TCP, loopbackSubnet, invertTo, redirectTarget(peer.EgressPort))
	chains := map[int][][]byte{hookOutput: {leaving}}
	if withContainers {
		chains[hookPrerouting] = [][]byte{
			ruleFor(unix.IPPROTO_UDP, containerNet, invertTo, redirectTarget(containerDNSPort)),
			ruleFor(unix.IPPROTO_TCP, bridgeSubnet, 0, redirectTarget(containerDNSPort)),
			ruleFor(unix.IPPROTO_TCP, containerNet, invertTo, redirectTarget(peer.EgressPort)),
		}
		chains[hookOutput] = [][]byte{
			ruleFor(unix.IPPROTO_TCP, bridgeSubnet, 0, verdictTarget(acceptVerdict)),
			ruleFor(unix.IPPROTO_TCP, containerNet, 0, verdictTarget(acceptVerdict)),
			leaving,
		}
	}
	return rules{"nat", natHooks, chains, -1}
}

// forwardRules are the rules of the filter table:
//
//	-P FORWARD DROP
//	-A FORWARD -d 172.16.0.1/255.240.0.255 -j ACCEPT
//
// gVisor gives every packet that a bridge passes from one member to another to the stack of the bridge too,
// wherever it goes. The engine turns forwarding on, so the stack would send it once more, with
// another source port where the table nat has rules: connections between containers would be reset now and
// then. Connections to the outside are redirected before, and need no forwarding. A container may reach the
// sandbox by its address in another network.
func forwardRules() rules {
	gateways := ruleFor(0, containerGateways, 0, verdictTarget(acceptVerdict))
	return rules{"filter", filterHooks, map[int][][]byte{hookForward: {gateways}}, hookForward}
}

// ruleFor is a rule for packets to addresses that are in a subnet, or inverted, that are not. The protocol 0
// is any.
func ruleFor(protocol uint16, to subnet, invert byte, target []byte) []byte {
	rule := entryFor(target)
	native.PutUint16(rule[protocolField:], protocol)
	copy(rule[destination:], to.address[:])
	copy(rule[destinationOf:], to.mask[:])
	rule[invertField] = invert
	return rule
}

// replace replaces the table of this name by one with these rules.
func (r rules) replace(socket int) error {
	var entries []byte
	begin, end := [5]uint32{}, [5]uint32{}
	count := uint32(0)
	add := func(entry []byte) uint32 {
		at := uint32(len(entries))
		entries = append(entries, entry...)
		count++
		return at
	}
	for hook := range begin {
		if r.hooks&(1<<hook) == 0 {
			begin[hook], end[hook] = unusedHook, unusedHook
			continue
		}
		begin[hook] = uint32(len(entries))
		for _, rule := range r.rules[hook] {
			add(rule)
		}
		policy := int32(acceptVerdict)
		if hook == r.dropped {
			policy = dropVerdict
		}
		end[hook] = add(entryFor(verdictTarget(policy)))
	}
	add(entryFor(errorTarget()))

	head := make([]byte, 32, 96+len(entries))
	copy(head, r.table)
	head = native.AppendUint32(head, r.hooks)
	head = native.AppendUint32(head, count)
	head = native.AppendUint32(head, uint32(len(entries)))
	for _, offsets := range [2][5]uint32{begin, end} {
		for _, offset := range offsets {
			head = native.AppendUint32(head, offset)
		}
	}
	// The kernel would write the counters of the former rules there.
	former := make([]byte, 64*16)
	head = native.AppendUint32(head, 5)
	head = native.AppendUint64(head, uint64(uintptr(unsafe.Pointer(&former[0]))))
	table := append(head, entries...)

	_, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(socket), unix.SOL_IP, setReplace, uintptr(unsafe.Pointer(&table[0])), uintptr(len(table)), 0)
	if errno != 0 {
		return os.NewSyscallError("setsockopt", errno)
	}
	return nil
}

// entryFor is an entry that matches everything, with this target.
func entryFor(target []byte) []byte {
	entry := make([]byte, entrySize, entrySize+len(target))
	native.PutUint16(entry[88:], entrySize)
	native.PutUint16(entry[90:], uint16(entrySize+len(target)))
	return append(entry, target...)
}

// namedTarget begins with its own size and name, and is aligned.
func namedTarget(name string, data []byte) []byte {
	size := (32 + len(data) + 7) &^ 7
	target := make([]byte, size)
	native.PutUint16(target, uint16(size))
	copy(target[2:], name)
	copy(target[32:], data)
	return target
}

func verdictTarget(verdict int32) []byte {
	return namedTarget("", native.AppendUint32(nil, uint32(verdict)))
}

func errorTarget() []byte {
	return namedTarget("ERROR", append([]byte("ERROR"), bytes.Repeat([]byte{0}, 25)...))
}

func redirectTarget(port uint16) []byte {
	data := native.AppendUint32(nil, 1)
	data = native.AppendUint32(data, natProtoFilled)
	data = append(data, make([]byte, 8)...)
	for range [2]int{} {
		data = binary.BigEndian.AppendUint16(data, port)
	}
	return namedTarget("REDIRECT", data)
}
