package layer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// A Layout says how a tree is stored on the disk, and so how to pack and unpack it.
type Layout struct {
	// Shift is what was added to the ids.
	Shift int
	// IsUpper: a directory of overlay uppers, with whiteouts. Otherwise it is a layer's tree.
	IsUpper bool
	// UserXattr: whiteouts are marked as in an ordinary user's overlay.
	UserXattr bool
}

// opaque is the attribute of a directory that hides the ones below it.
func (f Layout) opaque() string {
	if f.UserXattr {
		return "user.overlay.opaque"
	}
	return "trusted.overlay.opaque"
}

// attributes keeps those that mean the same on another machine: a user's own, and file capabilities.
func (p *packer) attributes(fd int, records map[string]string) error {
	self := fmt.Sprintf("/proc/self/fd/%d", fd)
	n, err := unix.Listxattr(self, p.buffer)
	if errors.Is(err, unix.EOPNOTSUPP) || n == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	for _, raw := range bytes.Split(p.buffer[:n], []byte{0}) {
		name := string(raw)
		if !isCarried(name) {
			continue
		}
		value, err := getAttribute(fd, name)
		if err != nil {
			return err
		}
		if name == capability && p.layout.IsUpper {
			if value = unownedCapability(value, p.layout.Shift); value == nil {
				continue
			}
		}
		records[xattrRecord+name] = string(value)
	}
	return nil
}

func isCarried(name string) bool {
	return name == capability || (strings.HasPrefix(name, "user.") && !strings.HasPrefix(name, "user.overlay."))
}

func getAttribute(fd int, name string) ([]byte, error) {
	value := make([]byte, 64<<10)
	n, err := unix.Getxattr(fmt.Sprintf("/proc/self/fd/%d", fd), name, value)
	if err != nil {
		return nil, err
	}
	return value[:n], nil
}

// Revisions of struct vfs_cap_data: the second one belongs to the host's root, the third one to the root of a
// user namespace.
const (
	capabilityV2 = 0x02000000
	capabilityV3 = 0x03000000
	revisionMask = 0xff000000
)

// unownedCapability turns a capability of the namespace whose root is owner into one of no namespace. It
// returns nil for any other.
func unownedCapability(value []byte, owner int) []byte {
	if len(value) != 24 || binary.LittleEndian.Uint32(value)&revisionMask != capabilityV3 || binary.LittleEndian.Uint32(value[20:]) != uint32(owner) {
		return nil
	}
	plain := append([]byte{}, value[:20]...)
	binary.LittleEndian.PutUint32(plain, binary.LittleEndian.Uint32(value)&^uint32(revisionMask)|capabilityV2)
	return plain
}

// ownedCapability is the inverse. It returns nil for anything that unownedCapability does not make.
func ownedCapability(value []byte, owner int) []byte {
	if len(value) != 20 || binary.LittleEndian.Uint32(value)&revisionMask != capabilityV2 {
		return nil
	}
	owned := append(append([]byte{}, value...), 0, 0, 0, 0)
	binary.LittleEndian.PutUint32(owned, binary.LittleEndian.Uint32(value)&^uint32(revisionMask)|capabilityV3)
	binary.LittleEndian.PutUint32(owned[20:], uint32(owner))
	return owned
}
