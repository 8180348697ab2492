package inside

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"
	"unsafe"

	"agentpod/native/internal/rootfs"
	"agentpod/native/internal/vm/order"

	"golang.org/x/sys/unix"
)

// Requests of linux/random.h and linux/fs.h, which x/sys does not name.
const (
	addEntropy = 0x40085203
	reseed     = 0x5207
	fsFreeze   = 0xc0045877
	fsThaw     = 0xc0045878
)

// renew gives the machine a clock, randomness and a boot id of its own. It comes before anything of a
// sandbox runs: copies of one machine otherwise repeat each other's random numbers.
func renew(m *machine, identity *order.Identity) error {
	if err := setClock(identity.ClockNs); err != nil {
		return err
	}
	if err := stirRandomness(identity.Seed); err != nil {
		return err
	}
	if _, err := m.bootID.WriteAt([]byte(identity.BootID+"\n"), 0); err != nil {
		return fmt.Errorf("boot id: %w", err)
	}
	return nil
}

func setClock(ns int64) error {
	now := unix.NsecToTimeval(ns)
	if err := unix.Settimeofday(&now); err != nil {
		return fmt.Errorf("settimeofday: %w", err)
	}
	return nil
}

// stirRandomness mixes bytes of the host into the kernel's random numbers, which all later ones depend on.
func stirRandomness(seed []byte) error {
	const length = 64
	if len(seed) != length {
		return fmt.Errorf("the seed has %d bytes, not %d", len(seed), length)
	}
	file, err := os.OpenFile("/dev/urandom", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	entropy := struct {
		bits, size int32
		data       [length]byte
	}{bits: length * 8, size: length}
	copy(entropy.data[:], seed)
	if err := ioctl(file, addEntropy, unsafe.Pointer(&entropy)); err != nil {
		return fmt.Errorf("add randomness: %w", err)
	}
	if err := ioctl(file, reseed, nil); err != nil {
		return fmt.Errorf("reseed: %w", err)
	}
	return nil
}

func ioctl(file *os.File, request uintptr, args unsafe.Pointer) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, file.Fd(), request, uintptr(args))
	runtime.KeepAlive(args)
	if errno != 0 {
		return errno
	}
	return nil
}

// continueAs lets the programs of a saved sandbox continue, a copy's under its own host name and machine id.
// They were frozen when it was saved, and are until the machine is renewed.
func (m *machine) continueAs(identity *order.Identity) error {
	if err := m.prepareAs(identity); err != nil {
		return err
	}
	return m.cgroups.Thaw(runName)
}

// prepareAs does the same, and the programs stay frozen.
func (m *machine) prepareAs(identity *order.Identity) error {
	if m.upper == nil {
		return errors.New("the machine has no sandbox")
	}
	if err := m.thawFiles(); err != nil || identity.IsSame {
		return err
	}
	return m.rename(identity.Hostname)
}

// rename sets the host name and the machine id.
func (m *machine) rename(hostname string) error {
	if err := m.setHostname(hostname); err != nil {
		return err
	}
	root := rootfs.MachineRoot{Path: fmt.Sprintf("/proc/%d/root/.", m.run.Pid), Hostname: hostname, Files: rootfs.CopiedFiles}
	return root.Prepare()
}

// setHostname sets it in podd's namespace.
func (m *machine) setHostname(hostname string) error {
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/uts", m.run.Pid))
	if err != nil {
		return err
	}
	defer namespace.Close()
	done := make(chan error)
	go func() {
		// The thread stays in the namespace and ends with its goroutine.
		runtime.LockOSThread()
		err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWUTS)
		if err == nil {
			err = unix.Sethostname([]byte(hostname))
		}
		done <- err
	}()
	return <-done
}

// sync writes everything to the disk while programs continue.
func (m *machine) sync() error {
	if m.upper == nil {
		return nil
	}
	return os.NewSyscallError("syncfs", unix.Syncfs(int(m.upper.Fd())))
}

// freezeTries is how often to try to freeze a file system that is busy being frozen or thawed.
const freezeTries = 50

// freeze stops every program, and writes everything to the disk. A machine without a sandbox has no programs,
// and nothing to write.
//
// SECURITY: a copy of this machine has the same random numbers and the same name. Its programs must not
// continue before it is renewed.
func (m *machine) freeze() error {
	if m.upper == nil {
		return nil
	}
	if err := m.cgroups.Freeze(runName); err != nil {
		return fmt.Errorf("freeze programs: %w", err)
	}
	if err := m.freezeFiles(); err != nil {
		m.cgroups.Thaw(runName)
		return err
	}
	return nil
}

func (m *machine) freezeFiles() error {
	var err error
	for n := 0; n < freezeTries; n++ {
		if err = ioctl(m.upper, fsFreeze, nil); err != unix.EBUSY {
			break
		}
		// It is frozen already, or a freeze has just begun.
		if n > 0 {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	if err != nil {
		return fmt.Errorf("freeze: %w", err)
	}
	return nil
}

// thaw does nothing if programs run already.
func (m *machine) thaw() error {
	if m.upper == nil {
		return nil
	}
	if err := m.thawFiles(); err != nil {
		return err
	}
	return m.cgroups.Thaw(runName)
}

func (m *machine) thawFiles() error {
	if err := ioctl(m.upper, fsThaw, nil); err != nil && err != unix.EINVAL {
		return fmt.Errorf("thaw: %w", err)
	}
	return nil
}
