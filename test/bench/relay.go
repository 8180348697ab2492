// A relay copies bytes between connections to a port and a Unix socket, as podd does between programs and the
// egress process, and looks at nothing. Usage: relay PORT SOCKET
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"os"
)

func main() {
	listener, err := net.Listen("tcp4", "127.0.0.1:"+os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ready")
	for {
		near, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		far, err := net.Dial("unix", os.Args[2])
		if err != nil {
			log.Fatal(err)
		}
		go relay(near, far)
		go relay(far, near)
	}
}

func relay(from, to net.Conn) {
	io.Copy(to, from)
	to.Close()
}
