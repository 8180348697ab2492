// Package cloudhypervisor runs virtual machines with Cloud Hypervisor. It knows the program's command line
// and its HTTP API, and nothing about sandboxes.
package cloudhypervisor

import (
	"fmt"

	"agentpod/native/internal/vm"
)

// The types are the parts of the published description of the API (cloud-hypervisor.yaml) that are used.

type vmConfig struct {
	CPUs    cpusConfig    `json:"cpus"`
	Memory  memoryConfig  `json:"memory"`
	Payload payloadConfig `json:"payload"`
	RNG     rngConfig     `json:"rng"`
	Balloon balloonConfig `json:"balloon"`
	Serial  consoleConfig `json:"serial"`
	Console consoleConfig `json:"console"`
	Vsock   vsockConfig   `json:"vsock"`
	Disks   []diskConfig  `json:"disks,omitempty"`
}

type cpusConfig struct {
	Boot   int  `json:"boot_vcpus"`
	Max    int  `json:"max_vcpus"`
	Nested bool `json:"nested"`
}

type memoryConfig struct {
	Size  int64        `json:"size"`
	Zones []memoryZone `json:"zones"`
}

type memoryZone struct {
	ID     string `json:"id"`
	Size   int64  `json:"size"`
	File   string `json:"file"`
	Shared bool   `json:"shared"`
}

type payloadConfig struct {
	Kernel    string `json:"kernel"`
	Cmdline   string `json:"cmdline"`
	Initramfs string `json:"initramfs"`
}

type rngConfig struct {
	Source string `json:"src"`
}

type balloonConfig struct {
	Size              int64 `json:"size"`
	FreePageReporting bool  `json:"free_page_reporting"`
}

type consoleConfig struct {
	Mode string `json:"mode"`
}

type vsockConfig struct {
	CID    int64  `json:"cid"`
	Socket string `json:"socket"`
}

type diskConfig struct {
	ID        string `json:"id"`
	Path      string `json:"path"`
	ReadOnly  bool   `json:"readonly"`
	ImageType string `json:"image_type"`
	Serial    string `json:"serial"`
}

type snapshotConfig struct {
	DestinationURL string `json:"destination_url"`
}

type restoreConfig struct {
	SourceURL string `json:"source_url"`
}

// Paths that the program sees. They are the same for every machine, because the state of a machine has them.
const (
	memoryPath = "/machine/memory"
	sharedPath = "/run"
	vsockName  = "vsock"
	stateName  = "state"
	guestCID   = 3
)

func diskPath(number int) string { return fmt.Sprintf("/machine/disk%d", number) }

// kernelArguments: a machine whose kernel fails restarts, and the driver ends it then.
const kernelArguments = "console=ttyS0 quiet panic=-1 random.trust_cpu=on cgroup_no_v1=all agentpod.link=vsock"

// LineVersion changes whenever the command line or the configuration does: a saved machine can only be loaded
// by a program with the same devices.
const LineVersion = 1

// configuration has the devices of every machine: the channel, a balloon that gives unused memory back to the
// host, and one serial port for what is logged. There is no network and no display.
func configuration(m vm.Machine, kernel, initrd int) vmConfig {
	bytes := m.MemoryMiB << 20
	return vmConfig{
		CPUs: cpusConfig{Boot: m.CPUs, Max: m.CPUs},
		// The memory consists of zones alone, so the size besides them is 0.
		Memory:  memoryConfig{Zones: []memoryZone{{ID: "memory", Size: bytes, File: memoryPath, Shared: true}}},
		Payload: payloadConfig{Kernel: descriptorPath(kernel), Initramfs: descriptorPath(initrd), Cmdline: kernelArguments},
		RNG:     rngConfig{Source: "/dev/urandom"},
		Balloon: balloonConfig{FreePageReporting: true},
		Serial:  consoleConfig{Mode: "Tty"}, Console: consoleConfig{Mode: "Off"},
		Vsock: vsockConfig{CID: guestCID, Socket: sharedPath + "/" + vsockName},
	}
}

// disk describes a disk. SECURITY: the type is named, so that the program does not look for one in what a
// machine has written: other types name further files.
func disk(d vm.Disk) diskConfig {
	return diskConfig{ID: fmt.Sprintf("disk%d", d.Number), Path: diskPath(d.Number), ReadOnly: d.ReadOnly, ImageType: "Raw",
		Serial: fmt.Sprintf("agentpod-%d", d.Number)}
}

func descriptorPath(number int) string { return fmt.Sprintf("/proc/self/fd/%d", number) }
