package netns

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// A container engine inside has networks of its own. Loopback must then not have every address: the engine's
// would be among them. Instead a bridge without members has the default route, and the rules of the nat table
// redirect every connection before it would use the bridge.

const bridgeName = "agentpod0"

var (
	bridgeAddress = [4]byte{10, 255, 0, 1}
	// bridgeGateway is no machine's address.
	bridgeGateway = [4]byte{10, 255, 0, 2}
	bridgeSubnet  = subnet{[4]byte{10, 255, 0, 0}, [4]byte{255, 255, 255, 0}}
)

const (
	bridgePrefix = 24
	// containerDNSPort is where podd answers containers. Their questions are redirected there, so that the
	// answer leaves by the bridge that the question came from.
	containerDNSPort = 61053
)

// makeBridge is
//
//	ip link add agentpod0 type bridge
//	ip addr add 10.255.0.1/24 dev agentpod0
//	ip link set agentpod0 up
//	ip route add default via 10.255.0.2 dev agentpod0
func makeBridge() error {
	link := request(unix.RTM_NEWLINK, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL, make([]byte, unix.SizeofIfInfomsg))
	link.putText(unix.IFLA_IFNAME, bridgeName)
	kind := new(message).putText(unix.IFLA_INFO_KIND, "bridge")
	// gVisor reads nested attributes only up to the last whole word, and does not know the flag that marks them.
	kind.align()
	link.put(unix.IFLA_LINKINFO, kind.data)
	if err := send(unix.NETLINK_ROUTE, link); err != nil {
		return fmt.Errorf("add: %w", err)
	}
	made, err := net.InterfaceByName(bridgeName)
	if err != nil {
		return err
	}
	index := uint32(made.Index)

	head := make([]byte, unix.SizeofIfAddrmsg)
	head[0], head[1] = unix.AF_INET, bridgePrefix
	native.PutUint32(head[4:], index)
	address := request(unix.RTM_NEWADDR, unix.NLM_F_ACK|unix.NLM_F_CREATE, head)
	address.put(unix.IFA_LOCAL, bridgeAddress[:]).put(unix.IFA_ADDRESS, bridgeAddress[:])
	if err := send(unix.NETLINK_ROUTE, address); err != nil {
		return fmt.Errorf("address: %w", err)
	}

	head = make([]byte, unix.SizeofIfInfomsg)
	native.PutUint32(head[4:], index)
	native.PutUint32(head[8:], unix.IFF_UP)
	native.PutUint32(head[12:], unix.IFF_UP)
	if err := send(unix.NETLINK_ROUTE, request(unix.RTM_NEWLINK, unix.NLM_F_ACK, head)); err != nil {
		return fmt.Errorf("up: %w", err)
	}

	head = make([]byte, unix.SizeofRtMsg)
	head[0], head[4], head[5], head[7] = unix.AF_INET, unix.RT_TABLE_MAIN, unix.RTPROT_BOOT, unix.RTN_UNICAST
	route := request(unix.RTM_NEWROUTE, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL, head)
	route.put(unix.RTA_GATEWAY, bridgeGateway[:]).put(unix.RTA_OIF, native.AppendUint32(nil, index))
	if err := send(unix.NETLINK_ROUTE, route); err != nil {
		return fmt.Errorf("route: %w", err)
	}
	return nil
}
