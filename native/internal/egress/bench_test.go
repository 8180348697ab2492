package egress

import (
	"io"
	"net"
	"path/filepath"
	"testing"
)

// BenchmarkRelay measures how fast bytes leave the sandbox.
func BenchmarkRelay(b *testing.B) {
	path := filepath.Join(b.TempDir(), "out")
	out, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		b.Fatal(err)
	}
	defer out.Close()
	in, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		b.Fatal(err)
	}
	defer in.Close()
	egress, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path})
	if err != nil {
		b.Fatal(err)
	}
	program, err := net.DialTCP("tcp4", nil, in.Addr().(*net.TCPAddr))
	if err != nil {
		b.Fatal(err)
	}
	outside, err := out.AcceptUnix()
	if err != nil {
		b.Fatal(err)
	}
	inside, err := in.AcceptTCP()
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		relay(inside, outside)
		close(done)
	}()
	go func() {
		block := make([]byte, 64<<10)
		for i := 0; i < b.N; i++ {
			program.Write(block)
		}
		program.CloseWrite()
	}()
	b.SetBytes(64 << 10)
	io.Copy(io.Discard, egress)
	egress.Close()
	<-done
	program.Close()
}
