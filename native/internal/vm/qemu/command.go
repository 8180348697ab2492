// Package qemu runs virtual machines with QEMU. It knows QEMU's command line and its control protocol, and
// nothing about sandboxes.
package qemu

import (
	"fmt"
	"strconv"

	"agentpod/native/internal/vm"
)

// disksBus is the controller that disks are attached to.
const disksBus = "disks.0"

// descriptors are the numbers of what QEMU inherits.
type descriptors struct{ control, link, output, memory, kernel, initrd int }

// kernelArguments: a machine whose kernel fails ends.
const kernelArguments = "quiet panic=-1 random.trust_cpu=on cgroup_no_v1=all"

// emulatedArguments are for an emulated processor. It does not speculate, and QEMU translates the kernel's
// measures against speculation like any other code: they cost time, and protect from nothing.
const emulatedArguments = "mitigations=off"

// hugePages is where the C library finds the size of huge pages, which it uses for its heap.
const hugePages = "/sys/kernel/mm/transparent_hugepage/"

// LineVersion changes whenever the command line does: the state of a machine can only be loaded by a QEMU
// with the same devices.
const LineVersion = 2

// commandLine has the devices of every machine: channels, one controller for disks, and a balloon that gives
// unused memory back to the host. There is no network, no display and no console. An emulated processor has
// no page tables of five levels, which take longer to walk than those of four.
func commandLine(m vm.Machine, at descriptors) []string {
	accel, cpu, arguments := "tcg,tb-size=128", "max,-la57", kernelArguments+" "+emulatedArguments
	if m.Accel == vm.Hardware {
		accel, cpu, arguments = "kvm", "host", kernelArguments
	}
	args := []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-S",
		"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
		"-chardev", fmt.Sprintf("socket,id=control,fd=%d", at.control), "-mon", "chardev=control,mode=control",
		"-chardev", fmt.Sprintf("socket,id=link,fd=%d", at.link),
		"-chardev", fmt.Sprintf("socket,id=output,fd=%d", at.output),
		// The file is opened again by its descriptor. share=on: what the machine writes is in its own file.
		"-object", fmt.Sprintf("memory-backend-file,id=memory,size=%dM,mem-path=/proc/self/fd/%d,share=on", m.MemoryMiB, at.memory),
		"-machine", "q35,memory-backend=memory,vmport=off", "-accel", accel, "-cpu", cpu,
		"-smp", strconv.Itoa(m.CPUs), "-m", fmt.Sprintf("%dM", m.MemoryMiB),
		"-device", "virtio-serial-pci,id=channels,max_ports=4",
		"-device", "virtserialport,bus=channels.0,nr=1,chardev=link,name=agentpod.link",
		"-device", "virtserialport,bus=channels.0,nr=2,chardev=output,name=agentpod.output",
		"-device", "virtio-scsi-pci,id=disks",
		"-device", "virtio-balloon-pci,id=balloon,free-page-reporting=on",
		"-device", "vmgenid,id=generation,guid=" + m.Generation,
	}
	if m.State != nil {
		return append(args, "-incoming", "defer")
	}
	return append(args, "-kernel", fmt.Sprintf("/proc/self/fd/%d", at.kernel), "-initrd", fmt.Sprintf("/proc/self/fd/%d", at.initrd),
		"-append", arguments)
}
