package netns

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentpod/native/internal/mount"
	"agentpod/native/internal/peer"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == mount.UserNamespaceHelper {
		if mount.RunUserNamespaceHelper(os.Args[2]) != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func namespaces(t testing.TB) mount.Namespaces {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	made, err := mount.NewNamespaces(mount.Range{Base: 0x7F000000, Count: 65536}, 0x7F000000+12345)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	return made
}

func furnished(t testing.TB) (mount.Namespaces, *Network) {
	t.Helper()
	made := namespaces(t)
	n := Setup(made)
	t.Cleanup(n.Close)
	if n.Level.Level != Transparent {
		t.Skipf("needs nftables: %s", n.Level.Reason)
	}
	return made, n
}

// dial connects within the namespace and returns the descriptor and the connect's error.
func dial(t *testing.T, inside mount.Namespaces, family, kind int, to unix.Sockaddr) (fd int, failure error) {
	t.Helper()
	err := inside.Inside(func() (err error) {
		if fd, err = unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: 5})
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5})
		failure = unix.Connect(fd, to)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd, failure
}

func TestAConnectionToAnyAddressIsRedirectedToPodd(t *testing.T) {
	inside, n := furnished(t)
	if err := n.Try(inside); err != nil {
		t.Fatal(err)
	}
	for _, to := range []unix.SockaddrInet4{
		{Addr: [4]byte{1, 2, 3, 4}, Port: 9999}, {Addr: [4]byte{198, 18, 0, 1}, Port: 443}, {Addr: [4]byte{10, 0, 0, 1}, Port: peer.EgressPort},
		{Addr: [4]byte{169, 254, 169, 254}, Port: 80}, {Addr: [4]byte{255, 1, 1, 1}, Port: 1},
	} {
		to := to
		client, err := dial(t, inside, unix.AF_INET, unix.SOCK_STREAM, &to)
		if err != nil {
			t.Errorf("%v: %v", to.Addr, err)
			continue
		}
		if own, err := unix.Getsockname(client); err != nil || own.(*unix.SockaddrInet4).Addr != listenerAddress {
			t.Errorf("%v: the source is %v, %v", to.Addr, own, err)
		}
		conn, _, err := unix.Accept4(int(n.Listener.Fd()), unix.SOCK_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		address, port, err := peer.OriginalDestination(conn)
		if err != nil || address != to.Addr || int(port) != to.Port {
			t.Errorf("%v:%d arrived as %v:%d, %v", to.Addr, to.Port, address, port, err)
		}
		exchange(t, client, conn)
		unix.Close(conn)
	}
}

// exchange sends a byte each way.
func exchange(t *testing.T, a, b int) {
	t.Helper()
	for _, way := range [][2]int{{a, b}, {b, a}} {
		if _, err := unix.Write(way[0], []byte("x")); err != nil {
			t.Error(err)
		}
		if n, err := unix.Read(way[1], make([]byte, 2)); n != 1 || err != nil {
			t.Errorf("read %d, %v", n, err)
		}
	}
}

func TestADirectConnectionToPoddsListenerIsNotARedirectedOne(t *testing.T) {
	inside, n := furnished(t)
	client, err := dial(t, inside, unix.AF_INET, unix.SOCK_STREAM, &unix.SockaddrInet4{Addr: listenerAddress, Port: peer.EgressPort})
	if err != nil {
		t.Fatal(err)
	}
	conn, _, err := unix.Accept4(int(n.Listener.Fd()), unix.SOCK_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(conn)
	if address, port, err := peer.OriginalDestination(conn); err == nil && (address != listenerAddress || port != peer.EgressPort) {
		t.Errorf("it arrived as %v:%d", address, port)
	}
	exchange(t, client, conn)
}

func TestLoopbackConnectionsAreNotRedirected(t *testing.T) {
	inside, _ := furnished(t)
	var listener *os.File
	if err := inside.Inside(func() (err error) {
		listener, err = bind(unix.SOCK_STREAM, [4]byte{127, 0, 0, 9}, 8080, 1)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := dial(t, inside, unix.AF_INET, unix.SOCK_STREAM, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 9}, Port: 8080})
	if err != nil {
		t.Fatal(err)
	}
	conn, _, err := unix.Accept4(int(listener.Fd()), unix.SOCK_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(conn)
	exchange(t, client, conn)
	if _, err := dial(t, inside, unix.AF_INET, unix.SOCK_STREAM, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 9}, Port: 8081}); err != unix.ECONNREFUSED {
		t.Errorf("a closed port of loopback: %v", err)
	}
}

// tracked is how many connections the kernel tracks inside.
func tracked(t *testing.T, inside mount.Namespaces) int {
	t.Helper()
	var text []byte
	if err := inside.Inside(func() (err error) {
		text, err = os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_count")
		return err
	}); err != nil {
		t.Skipf("the kernel does not say: %v", err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestOnlyOutgoingConnectionsAreTracked is half of case RS-08.
func TestOnlyOutgoingConnectionsAreTracked(t *testing.T) {
	inside, n := furnished(t)
	for i := 1; i < 50; i++ {
		fd, err := dial(t, inside, unix.AF_INET, unix.SOCK_DGRAM, &unix.SockaddrInet4{Addr: [4]byte{8, 8, 8, byte(i)}, Port: 99})
		if err != nil {
			t.Fatal(err)
		}
		unix.Write(fd, []byte("x"))
		dial(t, inside, unix.AF_INET, unix.SOCK_STREAM, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, byte(i)}, Port: 99})
	}
	if count := tracked(t, inside); count != 0 {
		t.Errorf("%d connections that stay inside are tracked", count)
	}
	// The control: an outgoing one is tracked.
	if err := n.Try(inside); err != nil {
		t.Fatal(err)
	}
	if count := tracked(t, inside); count != 1 {
		t.Errorf("%d connections are tracked", count)
	}
}

// TestTrackedConnectionsAreBounded is the other half.
func TestTrackedConnectionsAreBounded(t *testing.T) {
	inside, n := furnished(t)
	begin := time.Now()
	err := inside.Inside(func() error {
		for i := 0; i < 5*newAtOnce; i++ {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
			if err != nil {
				return err
			}
			unix.Connect(fd, &unix.SockaddrInet4{Addr: [4]byte{1, byte(i >> 16), byte(i >> 8), byte(i)}, Port: 443})
			if conn, _, err := unix.Accept4(int(n.Listener.Fd()), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK); err == nil {
				unix.SetsockoptLinger(conn, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
				unix.Close(conn)
			}
			unix.Close(fd)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	bound := newAtOnce + int(time.Since(begin).Seconds()+1)*newEachSecond
	if most := tracked(t, inside); most > bound || most < newAtOnce {
		t.Errorf("%d connections are tracked", most)
	}
}

// NET-1
func TestUDPDoesNotLeaveTheSandbox(t *testing.T) {
	inside, n := furnished(t)
	ask := func(address [4]byte) error {
		fd, err := dial(t, inside, unix.AF_INET, unix.SOCK_DGRAM, &unix.SockaddrInet4{Addr: address, Port: 53})
		if err != nil {
			return err
		}
		begin := time.Now()
		if _, err := unix.Write(fd, []byte("x")); err != nil {
			return err
		}
		if address == dnsAddress {
			return nil
		}
		_, err = unix.Read(fd, make([]byte, 1))
		if took := time.Since(begin); took > time.Second {
			t.Errorf("the refusal took %v", took)
		}
		return err
	}
	if err := ask([4]byte{8, 8, 8, 8}); err != unix.ECONNREFUSED {
		t.Errorf("8.8.8.8: %v", err)
	}
	// The control: what is sent to the resolver arrives.
	if err := ask(dnsAddress); err != nil {
		t.Errorf("the resolver: %v", err)
	}
	if _, _, err := unix.Recvfrom(int(n.DNS.Fd()), make([]byte, 1), 0); err != nil {
		t.Errorf("the resolver: %v", err)
	}
}

// NET-1
func TestIPv6ReachesOnlyLoopback(t *testing.T) {
	inside, _ := furnished(t)
	far := &unix.SockaddrInet6{Addr: [16]byte{0x20, 0x01, 0x0d, 0xb8, 15: 1}, Port: 443}
	for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM} {
		if _, err := dial(t, inside, unix.AF_INET6, kind, far); err != unix.ENETUNREACH {
			t.Errorf("2001:db8::1: %v", err)
		}
	}
	// The control: loopback's own address answers, if only with a refusal.
	if _, err := dial(t, inside, unix.AF_INET6, unix.SOCK_STREAM, &unix.SockaddrInet6{Addr: [16]byte{15: 1}, Port: 1}); err != unix.ECONNREFUSED {
		t.Errorf("::1: %v", err)
	}
	// An IPv4 address written as an IPv6 one is an IPv4 connection.
	mapped := &unix.SockaddrInet6{Addr: [16]byte{10: 0xff, 11: 0xff, 12: 1, 13: 2, 14: 3, 15: 4}, Port: 443}
	if _, err := dial(t, inside, unix.AF_INET6, unix.SOCK_STREAM, mapped); err != nil {
		t.Errorf("::ffff:1.2.3.4: %v", err)
	}
}

func TestWithoutNftablesOnlyTheProxyWorks(t *testing.T) {
	inside := namespaces(t)
	n := setup(inside, func() error { return errors.New("not here") })
	defer n.Close()
	if n.Level.Level != Proxy || n.Level.Reason != "nftables: not here" || n.Listener == nil {
		t.Fatalf("%+v", n)
	}
	if n.Try(inside) == nil {
		t.Error("the check says that the redirection works")
	}
	if _, err := dial(t, inside, unix.AF_INET, unix.SOCK_STREAM, &unix.SockaddrInet4{Addr: [4]byte{1, 2, 3, 4}, Port: 443}); err != unix.ENETUNREACH {
		t.Errorf("1.2.3.4: %v", err)
	}
	if _, err := dial(t, inside, unix.AF_INET, unix.SOCK_STREAM, &unix.SockaddrInet4{Addr: listenerAddress, Port: peer.EgressPort}); err != nil {
		t.Errorf("the door: %v", err)
	}
}

func TestWithoutANetworkNamespaceThereIsNoEgress(t *testing.T) {
	inside := namespaces(t)
	file, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if n := Setup(mount.Namespaces{User: inside.User, Network: file}); n.Level.Level != None || n.Level.Reason == "" || n.Listener != nil {
		t.Fatalf("%+v", n)
	}
}

func BenchmarkSetup(b *testing.B) {
	for i := 0; i < b.N; i++ {
		b.StopTimer()
		made := namespaces(b)
		b.StartTimer()
		Setup(made).Close()
	}
}

func BenchmarkNamespaces(b *testing.B) {
	for i := 0; i < b.N; i++ {
		namespaces(b)
	}
}
