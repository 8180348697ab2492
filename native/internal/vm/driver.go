// Package vm is the seam between podhost and programs that run virtual machines. A driver starts a machine
// from a template or boots it, and hands back the machine. Packages qemu, cloudhypervisor and firecracker
// have one each; package drivers lists them.
package vm

import (
	"net"
	"os"
	"time"
)

// A Machine is what a driver starts. All files are open descriptors: a program that runs a machine opens
// nothing by a path of the host. The driver does not close them.
//
// For Cloud Hypervisor and Firecracker, which cannot be handed descriptors, Memory and the files of disks are
// detached mounts of one file each, on which the files of root belong to UID (mount.FileFor).
type Machine struct {
	// Accel is Emulated or Hardware.
	Accel     string
	MemoryMiB int64
	CPUs      int
	// Memory is the file that is the memory of the machine. It is as long as the memory, belongs to this
	// machine alone, and to the user that the machine runs as. It is complete after Save. QEMU and Cloud
	// Hypervisor map it shared, so that it always is. Firecracker maps it privately, and writes the pages that
	// have changed to it during Save: nothing else may write to it while the machine exists.
	Memory *os.File
	// Kernel and Initrd are what it boots. Both are nil for a machine that continues from State.
	Kernel, Initrd *os.File
	// State is the rest of a machine whose memory is in Memory.
	State *os.File
	// Disks are those that the machine had when State was saved. Added are those that it gets besides.
	Disks, Added []Disk
	// UID is the user and group that the machine runs as, which nothing else on the host does.
	UID int
	// Generation is a new UUID, by which a kernel knows that it is a copy. Firecracker makes one itself, and
	// Cloud Hypervisor has no such device.
	Generation string
	// Log gets what the program that runs the machine writes.
	Log *os.File
}

// How a machine executes its instructions.
const (
	// Emulated is software emulation, which works everywhere.
	Emulated = "tcg"
	// Hardware is KVM.
	Hardware = "kvm"
)

// A Disk is a file that a machine sees as a block device.
type Disk struct {
	// Number identifies it inside. Which numbers a driver takes is in package drivers.
	Number   int
	File     *os.File
	ReadOnly bool
}

// A Driver runs machines with one program.
type Driver interface {
	// Start returns a machine whose processors stand still.
	Start(m Machine) (Running, error)
}

// Running is a machine that a driver has started. Its methods are called one after the other, but End and
// Done, which may be called at any time.
type Running interface {
	// Link returns a byte stream to the first process inside, which ends with the machine. The caller does not
	// close it. With QEMU it is always the same one. Cloud Hypervisor and Firecracker begin a new connection
	// with each call, which ends the one before; theirs also end when a machine is saved or loaded.
	Link(deadline time.Time) (net.Conn, error)
	// Output is what the first process inside logs: hostile bytes. It ends with the machine.
	Output() net.Conn
	// Resume lets the processors run. Pause stops them.
	Resume() error
	Pause() error
	// Save writes everything but the memory of a machine that is paused, and completes Memory. The machine is
	// still paused afterwards.
	Save(state *os.File) error
	// Done is closed when the program has ended. Err then says why, if it did not end on request.
	Done() <-chan struct{}
	Err() error
	// End ends the program and returns when it has ended.
	End()
}
