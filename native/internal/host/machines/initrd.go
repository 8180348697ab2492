package machines

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"agentpod/native/internal/hostproto"
	"agentpod/native/internal/vm/inside"

	"golang.org/x/sys/unix"
)

// mostInitrd bounds each file of the initial RAM disk.
const mostInitrd = 64 << 20

// archive is a cpio archive in the form that the kernel reads ("newc").
type archive struct {
	bytes.Buffer
	next int
}

// Kinds of an entry, with its mode.
const (
	directory = unix.S_IFDIR | 0o755
	program   = unix.S_IFREG | 0o755
	device    = unix.S_IFCHR | 0o600
)

func (a *archive) add(name string, mode uint32, content []byte, major, minor uint32) {
	a.next++
	name = strings.TrimPrefix(name, "/")
	// Magic, inode, mode, uid, gid, links, time, size, device, device of a node, length of the name, sum.
	fmt.Fprintf(a, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X", a.next, mode, 0, 0, 1, 0, len(content), 0, 0, major, minor, len(name)+1, 0)
	a.WriteString(name)
	a.WriteByte(0)
	a.pad()
	a.Write(content)
	a.pad()
}

func (a *archive) pad() {
	for a.Len()%4 != 0 {
		a.WriteByte(0)
	}
}

// modules returns the names of the modules that machines load, in their order.
func (s *Store) modules() ([]byte, error) {
	var all []byte
	for _, name := range s.Program.Lists {
		list, err := readAll(filepath.Join(s.Kernel, "modules", name), 64<<10)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

// initrd makes the initial RAM disk: vminit, podd and the modules of the kernel. It is not compressed,
// because an emulated machine unpacks slowly. With docker it also has the modules that a container engine
// needs.
func (s *Store) initrd(docker bool) (*os.File, error) {
	a := &archive{}
	for _, dir := range []string{"/dev", inside.ModulesDir} {
		a.add(dir, directory, nil, 0, 0)
	}
	// The kernel opens the console, and Go's runtime needs the other.
	a.add("/dev/console", device, nil, 5, 1)
	a.add("/dev/null", device, nil, 1, 3)
	list, err := s.modules()
	if err != nil {
		return nil, err
	}
	if docker {
		more, err := s.dockerModules()
		if err != nil {
			return nil, err
		}
		list = append(append(list, '\n'), more...)
		a.add(inside.DockerMark, program, nil, 0, 0)
	}
	a.add(inside.ModuleList, program, list, 0, 0)
	files := map[string]string{inside.InitPath: s.Init, inside.PoddPath: s.Podd}
	for _, name := range strings.Fields(string(list)) {
		files[inside.ModulesDir+"/"+name] = filepath.Join(s.Kernel, "modules", filepath.Base(name))
	}
	for name, path := range files {
		content, err := readAll(path, mostInitrd)
		if err != nil {
			return nil, err
		}
		a.add(name, program, content, 0, 0)
	}
	a.add("TRAILER!!!", 0, nil, 0, 0)
	fd, err := unix.MemfdCreate("initrd", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	file := os.NewFile(uintptr(fd), "initrd")
	if _, err := file.Write(a.Bytes()); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// dockerModules are the names of the modules that only machines with a container engine load, in their order.
func (s *Store) dockerModules() ([]byte, error) {
	list, err := readAll(filepath.Join(s.Kernel, "modules", "list-docker"), 64<<10)
	if os.IsNotExist(err) {
		return nil, hostproto.Errorf(hostproto.FailedPrecondition, "qemu.modules", "the kernel of virtual machines has no modules for a Docker engine").
			WithHint("run `agentpod provider setup qemu` again, which adds them")
	}
	return list, err
}
