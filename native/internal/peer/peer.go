// Package peer tells who is at the other end of a socket, and whom it took this end for.
package peer

import (
	"net"

	"golang.org/x/sys/unix"
)

// DoorPort is where podd takes the connections that want to leave the sandbox.
const DoorPort = 61080

// IsOutside says that the peer has no pid in the caller's pid namespace.
//
// SECURITY: attack case CP-20; whatever gets hold of podd's sockets inside the sandbox is refused.
func IsOutside(conn net.Conn) bool {
	peer, ok := credentials(conn)
	return ok && peer.Pid == 0
}

// IsUser says that the peer connected as that user.
func IsUser(conn net.Conn, uid int) bool {
	peer, ok := credentials(conn)
	return ok && int64(peer.Uid) == int64(uid)
}

// credentials are the peer's, as it was when it connected.
func credentials(conn net.Conn) (peer unix.Ucred, ok bool) {
	socket, isUnix := conn.(*net.UnixConn)
	if !isUnix {
		return peer, false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return peer, false
	}
	raw.Control(func(fd uintptr) {
		found, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil {
			peer, ok = *found, true
		}
	})
	return peer, ok
}

// OriginalDestination is where the peer of a redirected connection wanted to go. It fails for one that came
// by itself, where the kernel does not track it.
func OriginalDestination(fd int) (address [4]byte, port uint16, err error) {
	// The kernel fills a sockaddr_in, for which any option that is as large will do.
	const soOriginalDst = 80
	answer, err := unix.GetsockoptIPv6Mreq(fd, unix.SOL_IP, soOriginalDst)
	if err != nil {
		return address, 0, err
	}
	copy(address[:], answer.Multiaddr[4:8])
	return address, uint16(answer.Multiaddr[2])<<8 | uint16(answer.Multiaddr[3]), nil
}
