// Package firecracker runs virtual machines with Firecracker, in its jailer. It knows the two programs'
// command lines and Firecracker's HTTP API, and nothing about sandboxes.
package firecracker

import (
	"fmt"

	"agentpod/native/internal/vm"
)

// The types are the parts of the published description of the API (firecracker.yaml) that are used.

type machineConfiguration struct {
	CPUs       int   `json:"vcpu_count"`
	MemoryMiB  int64 `json:"mem_size_mib"`
	TrackDirty bool  `json:"track_dirty_pages"`
}

type bootSource struct {
	Kernel string `json:"kernel_image_path"`
	Initrd string `json:"initrd_path"`
	Args   string `json:"boot_args"`
}

type drive struct {
	ID       string `json:"drive_id"`
	Path     string `json:"path_on_host"`
	IsRoot   bool   `json:"is_root_device"`
	ReadOnly bool   `json:"is_read_only"`
	Cache    string `json:"cache_type"`
}

type partialDrive struct {
	ID   string `json:"drive_id"`
	Path string `json:"path_on_host"`
}

type vsock struct {
	CID  int    `json:"guest_cid"`
	Path string `json:"uds_path"`
}

type action struct {
	Type string `json:"action_type"`
}

type state struct {
	State string `json:"state"`
}

type snapshotCreate struct {
	Type   string `json:"snapshot_type"`
	State  string `json:"snapshot_path"`
	Memory string `json:"mem_file_path"`
}

type snapshotLoad struct {
	State      string        `json:"snapshot_path"`
	Memory     memoryBackend `json:"mem_backend"`
	TrackDirty bool          `json:"enable_diff_snapshots"`
	Resume     bool          `json:"resume_vm"`
}

type memoryBackend struct {
	Type string `json:"backend_type"`
	Path string `json:"backend_path"`
}

// Names in the jail. They are the same for every machine, because the state of a machine has them.
const (
	memoryName = "memory"
	kernelName = "kernel"
	initrdName = "initrd"
	stateName  = "state"
	savedName  = "saved"
	apiName    = "api.socket"
	vsockName  = "vsock"
	disksName  = "disks"
	blanksName = "blanks"
	guestCID   = 3
)

func inJail(name string) string { return "/" + name }

// A drive cannot be added to a machine that was loaded, but another file can be put into it, and whether it
// is read-only is fixed. So each machine boots with all drives that it can have, with a small file in each.
const (
	// MostDisks bounds the disks of a machine. WritableFrom is the number of the first that can be written to.
	MostDisks, WritableFrom = 14, 12
	// mostCPUs is the limit of the program.
	mostCPUs = 32
)

// writeback: a drive can be flushed, as those of the other programs can. By default it cannot: a file system
// inside would not survive a power cut of the host, because its journal is written in any order.
const writeback = "Writeback"

func driveID(number int) string   { return fmt.Sprintf("disk%d", number) }
func blankName(number int) string { return fmt.Sprintf("%s/%d", blanksName, number) }
func diskName(number int) string  { return fmt.Sprintf("%s/%d", disksName, number) }

// kernelArguments: a machine whose kernel fails restarts, which ends the program.
const kernelArguments = "console=ttyS0 quiet panic=-1 reboot=k pci=off 8250.nr_uarts=1 random.trust_cpu=on cgroup_no_v1=all " +
	"agentpod.link=vsock agentpod.disks=ordered"

// LineVersion changes whenever the devices of a machine do: a saved machine can only be loaded by a program
// with the same ones.
const LineVersion = 2

// processors is a number that the program accepts: 1, or an even one. The host's groups hold the limit.
func processors(asked int) int {
	if asked > 1 {
		asked += asked % 2
	}
	if asked > mostCPUs {
		return mostCPUs
	}
	return asked
}

// A request is a method, a path and a body.
type request struct {
	method, path string
	body         any
}

// bootRequests describe a machine that has not run yet: drives, the channel, and one serial port for what is
// logged. There is no network.
func bootRequests(m vm.Machine) []request {
	requests := []request{
		{"PUT", "/machine-config", machineConfiguration{CPUs: processors(m.CPUs), MemoryMiB: m.MemoryMiB, TrackDirty: true}},
		{"PUT", "/boot-source", bootSource{Kernel: inJail(kernelName), Initrd: inJail(initrdName), Args: kernelArguments}},
	}
	for number := 0; number < MostDisks; number++ {
		requests = append(requests, request{"PUT", "/drives/" + driveID(number),
			drive{ID: driveID(number), Path: inJail(blankName(number)), ReadOnly: number < WritableFrom, Cache: writeback}})
	}
	return append(requests, request{"PUT", "/vsock", vsock{CID: guestCID, Path: inJail(vsockName)}})
}

// loadRequest loads a machine, which stands still then. The pages that it changes are known afterwards.
func loadRequest() request {
	return request{"PUT", "/snapshot/load", snapshotLoad{State: inJail(stateName), TrackDirty: true,
		Memory: memoryBackend{Type: "File", Path: inJail(memoryName)}}}
}

// saveRequest writes the pages that have changed since the machine was loaded, booted or saved to the file
// that has all others.
func saveRequest() request {
	return request{"PUT", "/snapshot/create", snapshotCreate{Type: "Diff", State: inJail(savedName), Memory: inJail(memoryName)}}
}

// attachRequest puts a disk into its drive.
func attachRequest(disk vm.Disk) request {
	return request{"PATCH", "/drives/" + driveID(disk.Number), partialDrive{ID: driveID(disk.Number), Path: inJail(diskName(disk.Number))}}
}
