package streams

import (
	"io"
	"net"
)

// Connect copies between two files and the socket of that name, until either side ends.
func Connect(name string, in io.Reader, out io.Writer) error {
	if err := checkName(name); err != nil {
		return err
	}
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return err
	}
	defer conn.Close()
	over := make(chan struct{}, 2)
	copyAll := func(to io.Writer, from io.Reader) {
		io.Copy(to, from)
		over <- struct{}{}
	}
	go copyAll(conn, in)
	go copyAll(out, conn)
	<-over
	return nil
}
