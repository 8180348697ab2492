// Package peer identifies the other end of a socket, and the address that it meant to reach.
package peer

import (
	"net"

	"golang.org/x/sys/unix"
)

// EgressPort is where podd accepts the connections that leave the sandbox.
const EgressPort = 61080

// IsOutside reports whether the peer has no pid in the caller's pid namespace.
//
// SECURITY: attack case CP-20; a program inside the sandbox that gets hold of podd's sockets is refused.
func IsOutside(conn net.Conn) bool {
	peer, ok := credentials(conn)
	return ok && peer.Pid == 0
}

// IsUser reports whether the peer connected as that user.
func IsUser(conn net.Conn, uid int) bool {
	peer, ok := credentials(conn)
	return ok && int64(peer.Uid) == int64(uid)
}

// credentials are the peer's at the time when it connected.
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

// OriginalDestination is where the peer of a redirected connection wanted to go. It fails for a connection
// that was not redirected, if the kernel does not track it.
func OriginalDestination(fd int) (address [4]byte, port uint16, err error) {
	// The kernel fills a sockaddr_in. Any option of the same size works.
	const soOriginalDst = 80
	answer, err := unix.GetsockoptIPv6Mreq(fd, unix.SOL_IP, soOriginalDst)
	if err != nil {
		return address, 0, err
	}
	copy(address[:], answer.Multiaddr[4:8])
	return address, uint16(answer.Multiaddr[2])<<8 | uint16(answer.Multiaddr[3]), nil
}
