// Package drivers lists the programs that run virtual machines, and how they differ.
package drivers

import (
	"fmt"
	"os"
	"regexp"

	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/vm"
	"agentpod/native/internal/vm/cloudhypervisor"
	"agentpod/native/internal/vm/firecracker"
	"agentpod/native/internal/vm/program"
	"agentpod/native/internal/vm/qemu"

	"golang.org/x/sys/unix"
)

// A Kind is a program that runs machines.
type Kind struct {
	// Name is what the configuration calls it (AGENTPOD_VMM).
	Name string
	program.Description
	// NeedsKVM: it cannot emulate a processor.
	NeedsKVM bool
	// Mounts: it gets files as mounts, and not as descriptors.
	Mounts bool
	// MostDisks bounds the disks of a machine. WritableFrom is the number of the first disk that can be written
	// to; 0 if every disk can.
	MostDisks, WritableFrom int
	// Devices changes with the devices of machines.
	Devices int
	// Kernel is the name of the kernel's file. Lists are those of the modules that a machine loads.
	Kernel string
	Lists  []string

	driver func(programs Programs, scratch string) vm.Driver
}

// Programs are the paths of a kind's programs. Only Firecracker has a jailer.
type Programs struct{ Main, Jailer string }

// Driver returns the driver.
func (k Kind) Driver(programs Programs, scratch string) vm.Driver { return k.driver(programs, scratch) }

// The names of the kinds.
const (
	QEMU            = "qemu"
	CloudHypervisor = "cloud-hypervisor"
	Firecracker     = "firecracker"
)

// Lists of modules, in the directory of the kernel's modules.
const (
	baseList  = "list"
	vsockList = "list-vsock"
)

const (
	setupQEMU  = "run `agentpod provider setup qemu`, which installs QEMU"
	getProgram = "install it from its project's releases, as root, and name it with %s if it is not on the PATH"
)

var kinds = []Kind{
	{
		Name: QEMU,
		Description: program.Description{Title: "QEMU", Least: program.Version{Major: 7, Minor: 2}, Variable: "AGENTPOD_QEMU", Install: setupQEMU,
			Line: regexp.MustCompile(`(?m)^QEMU emulator version ((\d+)\.(\d+)\.?\d*.*)$`)},
		MostDisks: 200, Devices: qemu.LineVersion, Kernel: "vmlinuz", Lists: []string{baseList},
		driver: func(programs Programs, scratch string) vm.Driver {
			return qemu.Driver{Program: programs.Main, Scratch: scratch}
		},
	},
	{
		Name: CloudHypervisor,
		// Older versions look for the type of a disk in what the machine has written to it.
		Description: program.Description{Title: "Cloud Hypervisor", Least: program.Version{Major: 51}, Variable: "AGENTPOD_CLOUD_HYPERVISOR",
			Install: fmt.Sprintf(getProgram, "AGENTPOD_CLOUD_HYPERVISOR"), Line: regexp.MustCompile(`(?m)^cloud-hypervisor v((\d+)\.(\d+)\S*)`)},
		NeedsKVM: true, Mounts: true,
		// Each disk is a PCI device, and the first bus has 32 of them.
		MostDisks: 24, Devices: cloudhypervisor.LineVersion, Kernel: "vmlinux", Lists: []string{baseList, vsockList},
		driver: func(programs Programs, scratch string) vm.Driver {
			return cloudhypervisor.Driver{Program: programs.Main, Scratch: scratch}
		},
	},
	{
		Name: Firecracker,
		// Older versions do not write changed pages into the file that a machine was loaded from.
		Description: program.Description{Title: "Firecracker", Least: program.Version{Major: 1, Minor: 12}, Variable: "AGENTPOD_FIRECRACKER",
			Install: fmt.Sprintf(getProgram, "AGENTPOD_FIRECRACKER"), Line: regexp.MustCompile(`(?m)^Firecracker v((\d+)\.(\d+)\S*)`)},
		NeedsKVM: true, Mounts: true,
		MostDisks: firecracker.MostDisks, WritableFrom: firecracker.WritableFrom, Devices: firecracker.LineVersion,
		Kernel: "vmlinux", Lists: []string{baseList, vsockList},
		driver: func(programs Programs, scratch string) vm.Driver {
			return firecracker.Driver{Program: programs.Main, Jailer: programs.Jailer, Scratch: scratch}
		},
	},
}

var jailer = program.Description{Title: "Firecracker's jailer", Least: program.Version{Major: 1, Minor: 12}, Variable: "AGENTPOD_JAILER",
	Install: fmt.Sprintf(getProgram, "AGENTPOD_JAILER"), Line: regexp.MustCompile(`(?m)^[Jj]ailer v((\d+)\.(\d+)\S*)`)}

// Named returns the kind of a name.
func Named(name string) (Kind, error) {
	for _, kind := range kinds {
		if kind.Name == name {
			return kind, nil
		}
	}
	return Kind{}, fmt.Errorf("there is no program %q that runs virtual machines", name)
}

// Installed is a kind at its paths, where the programs may be missing.
type Installed struct {
	Kind
	Programs
	main, jailer program.Program
}

// At returns a kind at its paths.
func At(kind Kind, programs Programs) *Installed {
	return &Installed{Kind: kind, Programs: programs,
		main:   program.Program{Description: kind.Description, Path: programs.Main},
		jailer: program.Program{Description: jailer, Path: programs.Jailer}}
}

// Version returns the version of the program, or why it cannot be used here.
func (i *Installed) Version() (string, error) {
	version, err := i.main.Version()
	if err != nil {
		return version, err
	}
	if i.Name == Firecracker {
		found, err := i.jailer.Version()
		if err != nil {
			return version, err
		}
		if found != version {
			return version, unavailable(fmt.Sprintf("Firecracker is of version %s, and its jailer of version %s", version, found),
				"install both from one release")
		}
		if !firecracker.Supports(i.Programs.Main) {
			return version, unavailable(fmt.Sprintf("the jailer does not start %s", i.Programs.Main), "the name of the file must contain `firecracker`")
		}
	}
	if i.NeedsKVM {
		if err := checkKVM(); err != nil {
			return version, unavailable(fmt.Sprintf("%s needs KVM, which does not work here: %v", i.Title, err),
				"use a machine with KVM, or QEMU (`AGENTPOD_VMM=qemu`), which emulates the processor")
		}
	}
	return version, nil
}

// Release names what can load a saved machine: the same program, with the same devices and processor.
func (i *Installed) Release(version, accel string) string {
	return fmt.Sprintf("%s %s, devices %d, %s", i.Title, version, i.Devices, accel)
}

const (
	kvmDevice = "/dev/kvm"
	// kvmGetVersion is the request of linux/kvm.h. Its answer has not changed since 2007.
	kvmGetVersion, kvmVersion = 0xae00, 12
)

// checkKVM reports why the device cannot be used.
func checkKVM() error {
	file, err := os.OpenFile(kvmDevice, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	found, err := unix.IoctlRetInt(int(file.Fd()), kvmGetVersion)
	if err != nil {
		return fmt.Errorf("%s: %w", kvmDevice, err)
	}
	if found != kvmVersion {
		return fmt.Errorf("%s is of version %d", kvmDevice, found)
	}
	return nil
}

func unavailable(message, hint string) error {
	return hostproto.Errorf(hostproto.FailedPrecondition, "qemu.unavailable", "%s", message).WithHint(hint)
}
