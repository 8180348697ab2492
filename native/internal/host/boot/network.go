package boot

import (
	"sync"

	"agentpod/native/internal/ids"
	"agentpod/native/internal/mount"
	"agentpod/native/internal/netns"
)

// Network knows which level of network a sandbox gets on this machine. It tries once, in namespaces like
// those of a sandbox.
type Network struct {
	IDs   *ids.Allocator
	once  sync.Once
	level netns.Level
}

// Level returns the level of network that a sandbox gets here.
func (n *Network) Level() netns.Level {
	n.once.Do(func() {
		err := n.inside(func(_ mount.Namespaces, network *netns.Network) error {
			n.level = network.Level
			return nil
		})
		if err != nil {
			n.level = netns.Unavailable("%v", err)
		}
	})
	return n.level
}

// Check tries whether a connection is redirected.
func (n *Network) Check() error {
	return n.inside(func(namespaces mount.Namespaces, network *netns.Network) error { return network.Try(namespaces) })
}

// inside runs work on a network in new namespaces, which end afterwards.
func (n *Network) inside(work func(mount.Namespaces, *netns.Network) error) error {
	taken, err := n.IDs.Take()
	if err != nil {
		return err
	}
	defer n.IDs.Release(taken.Base)
	made, err := mount.NewNamespaces(taken.Range, taken.Owner)
	if err != nil {
		return err
	}
	defer made.Close()
	network := netns.Setup(made)
	defer network.Close()
	return work(made, network)
}
