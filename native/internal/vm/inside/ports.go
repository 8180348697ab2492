package inside

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The names of the channels that lead outside.
const (
	// LinkPort carries streams.
	LinkPort = "agentpod.link"
	// OutputPort carries what vminit and podd log.
	OutputPort = "agentpod.output"
)

// Arguments of the kernel that say what a machine has in place of virtio ports and SCSI disks.
const (
	// vsockLink: the host connects to link.VsockPort. What is logged goes to the console.
	vsockLink = "agentpod.link=vsock"
	// orderedDisks: all disks are there from the beginning, in the order of their numbers, and empty.
	orderedDisks = "agentpod.disks=ordered"
)

// isBootedWith reports whether the kernel has an argument.
func isBootedWith(argument string) bool {
	line, _ := os.ReadFile("/proc/cmdline")
	return strings.Contains(" "+strings.TrimSpace(string(line))+" ", " "+argument+" ")
}

// openLink opens the channel to the host, and makes the other one the standard output.
func openLink() (io.ReadWriter, error) {
	if isBootedWith(vsockLink) {
		return listenVsock()
	}
	port, err := openPort(LinkPort)
	if err == nil {
		logTo(OutputPort)
	}
	return port, err
}

// portWait is how long the kernel may take to find a device.
const portWait = 10 * time.Second

// openPort opens the channel with this name.
func openPort(name string) (*os.File, error) {
	for end := time.Now().Add(portWait); ; time.Sleep(2 * time.Millisecond) {
		names, _ := filepath.Glob("/sys/class/virtio-ports/*/name")
		for _, path := range names {
			found, err := os.ReadFile(path)
			if err == nil && strings.TrimSpace(string(found)) == name {
				return os.OpenFile("/dev/"+filepath.Base(filepath.Dir(path)), os.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
			}
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("there is no channel %s", name)
		}
	}
}

// logTo makes a channel the standard output of this process. A machine without it works, silently.
func logTo(name string) {
	port, err := openPort(name)
	if err != nil {
		return
	}
	defer port.Close()
	for _, fd := range []int{1, 2} {
		unix.Dup3(int(port.Fd()), fd, 0)
	}
}
