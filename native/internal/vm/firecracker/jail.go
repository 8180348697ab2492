package firecracker

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"agentpod/native/internal/vm"
	"agentpod/native/internal/vm/control"

	"golang.org/x/sys/unix"
)

const (
	// jailID is the machine's id in the jailer. Each machine has a directory of jails of its own.
	jailID = "machine"
	// blankBytes is the length of the file in an empty drive. vminit knows it too.
	blankBytes = 4096
	// mostState bounds the state of a machine, and what else the program may write into its jail.
	mostState = 64 << 20
	// programBytes has room for the copy of the program that the jailer makes.
	programBytes = 64 << 20
	// openFiles is enough for the drives of a machine.
	openFiles = 1024
)

// A jail is the root of the program, in memory.
type jail struct {
	scratch string
	root    string
	folder  *control.Folder
}

// newJail makes the directory that the jailer will enter, with the files of the machine. Disks and the memory
// are mounted there, because the jailer closes every descriptor; the rest is copied.
func newJail(scratch, program string, m vm.Machine) (made *jail, err error) {
	bytes := int64(mostState + programBytes)
	for _, file := range []*os.File{m.Kernel, m.Initrd, m.State} {
		if file == nil {
			continue
		}
		info, err := file.Stat()
		if err != nil {
			return nil, err
		}
		bytes += info.Size()
	}
	// The jailer makes devices in it and executes a copy of the program.
	if err := unix.Mount("tmpfs", scratch, "tmpfs", unix.MS_NOSUID, fmt.Sprintf("mode=755,size=%d", bytes)); err != nil {
		return nil, fmt.Errorf("the jail: %w", err)
	}
	j := &jail{scratch: scratch, root: filepath.Join(scratch, filepath.Base(program), jailID, "root")}
	defer func() {
		if err != nil {
			j.remove()
		}
	}()
	if err := os.MkdirAll(j.root, 0o755); err != nil {
		return nil, err
	}
	if j.folder, err = control.OpenFolder(j.root); err != nil {
		return nil, err
	}
	return j, j.fill(m)
}

func (j *jail) fill(m vm.Machine) error {
	for name, file := range map[string]*os.File{kernelName: m.Kernel, initrdName: m.Initrd, stateName: m.State} {
		if file == nil {
			continue
		}
		info, err := file.Stat()
		if err != nil {
			return err
		}
		if err := j.folder.Write(name, m.UID, io.NewSectionReader(file, 0, info.Size())); err != nil {
			return err
		}
	}
	for _, name := range []string{blanksName, disksName} {
		if err := j.folder.Make(name, 0); err != nil {
			return err
		}
		if err := os.Chmod(filepath.Join(j.root, name), 0o755); err != nil {
			return err
		}
	}
	for number := 0; number < MostDisks; number++ {
		if err := j.folder.Write(blankName(number), m.UID, bytes.NewReader(make([]byte, blankBytes))); err != nil {
			return err
		}
	}
	if err := j.attach(memoryName, m.Memory); err != nil {
		return err
	}
	for _, disk := range append(append([]vm.Disk{}, m.Disks...), m.Added...) {
		if err := check(disk); err != nil {
			return err
		}
		if err := j.attach(diskName(disk.Number), disk.File); err != nil {
			return err
		}
	}
	return nil
}

// check refuses a disk for which there is no drive.
func check(disk vm.Disk) error {
	if disk.Number < 0 || disk.Number >= MostDisks || disk.ReadOnly != (disk.Number < WritableFrom) {
		return fmt.Errorf("there is no drive for disk %d", disk.Number)
	}
	return nil
}

// attach mounts a file. Nothing but this process has seen the jail yet.
func (j *jail) attach(name string, file *os.File) error {
	target := filepath.Join(j.root, name)
	if err := os.WriteFile(target, nil, 0o600); err != nil {
		return err
	}
	if err := unix.MoveMount(int(file.Fd()), "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s: %w", name, err)
	}
	return nil
}

// remove unmounts everything.
func (j *jail) remove() {
	if j.folder != nil {
		j.folder.Close()
	}
	unix.Unmount(j.scratch, unix.MNT_DETACH)
}

// arguments are those of the jailer. Groups are podhost's, and so is the network namespace, which is empty:
// the jailer is started in both. Its own way to make a pid namespace would leave no process to wait for.
func (d Driver) arguments(uid int) []string {
	id := strconv.Itoa(uid)
	return []string{"--id", jailID, "--exec-file", d.Program, "--uid", id, "--gid", id, "--chroot-base-dir", d.Scratch,
		"--resource-limit", fmt.Sprintf("no-file=%d", openFiles), "--", "--api-sock", inJail(apiName)}
}
