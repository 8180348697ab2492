package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"agentpod/native/internal/bundle"
	"agentpod/native/internal/containerinit"
	"agentpod/native/internal/netns"

	"golang.org/x/sys/unix"
)

// becomeContainer makes this process the first process of a container, if podhost started it in new
// namespaces. The order matters: a network is set up with files of /proc/sys that the container does not have
// any more.
func becomeContainer(o *options) (level netns.Level, err error) {
	if o.containerFD < 0 {
		return level, nil
	}
	file := os.NewFile(uintptr(o.containerFD), "config.json")
	config, err := containerinit.Read(file)
	file.Close()
	if err != nil {
		return level, err
	}
	if !o.docker {
		if err := containerinit.SealUserNamespace(); err != nil {
			return level, fmt.Errorf("seal the user namespace: %w", err)
		}
	}
	if o.network {
		if level, err = setUpNetwork(o); err != nil {
			return level, err
		}
	}
	if !o.docker {
		return level, containerinit.Apply(config, bundle.Namespaces)
	}
	if err := containerinit.Apply(config, bundle.DockerNamespaces); err != nil {
		return level, err
	}
	if err := containerinit.DelegateGroups(); err != nil {
		return level, fmt.Errorf("control groups: %w", err)
	}
	return level, nil
}

// setUpNetwork makes the sockets of podd's own network namespace, which egress takes over.
func setUpNetwork(o *options) (netns.Level, error) {
	if o.docker {
		return useNetwork(o, netns.SetupWithContainers(netns.Own{}))
	}
	return useNetwork(o, netns.Setup(netns.Own{}))
}

// useNetwork hands the sockets of a network over to egress.
func useNetwork(o *options, network *netns.Network) (netns.Level, error) {
	defer network.Close()
	if network.Level.Level == netns.None {
		return network.Level, nil
	}
	for fd, file := range map[*int]*os.File{&o.egress.ListenerFD: network.Listener, &o.egress.DNSFD: network.DNS, &o.egress.DNSOverTCPFD: network.DNSOverTCP} {
		var err error
		if *fd, err = keepOpen(file); err != nil {
			return network.Level, err
		}
	}
	for fds, files := range map[*[]int][]*os.File{&o.egress.ContainerDNS: network.ContainerDNS, &o.egress.ContainerDNSOverTCP: network.ContainerDNSOverTCP} {
		for _, file := range files {
			fd, err := keepOpen(file)
			if err != nil {
				return network.Level, err
			}
			*fds = append(*fds, fd)
		}
	}
	return network.Level, nil
}

// keepOpen returns a descriptor of the file that stays open when the file is closed.
func keepOpen(file *os.File) (int, error) { return unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 3) }

// readiness is the pipe on which podhost waits, or the link to the supervisor in gVisor. Nothing is written
// to it twice.
type readiness struct{ pipe io.WriteCloser }

func newReadiness(fd int, inside *gvisorInside) *readiness {
	switch {
	case inside != nil:
		return &readiness{keptOpen{inside.link}}
	case fd < 0:
		return &readiness{}
	}
	return &readiness{os.NewFile(uintptr(fd), "ready")}
}

// keptOpen is a writer whose owner closes it.
type keptOpen struct{ io.Writer }

func (keptOpen) Close() error { return nil }

func (r *readiness) serving(level netns.Level) { r.write(map[string]any{"network": level}) }

// failed does nothing after serving.
func (r *readiness) failed(err error) { r.write(map[string]any{"error": err.Error()}) }

func (r *readiness) write(report any) {
	if r.pipe == nil {
		return
	}
	if line, err := json.Marshal(report); err == nil {
		r.pipe.Write(append(line, '\n'))
	}
	r.pipe.Close()
	r.pipe = nil
}
