// Package clone starts a program as the first process of new namespaces, with fewer capabilities from its
// first instruction. Package syscall can make namespaces, but cannot reduce the bounding set of the new
// process: that is a property of a thread, and a Go program has several threads from the start. Between clone
// and execve there is only one.
package clone

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Program is what to start.
type Program struct {
	Path      string
	Argv, Env []string
	// Files become the descriptors from 0 on.
	Files []*os.File
	// Namespaces are the CLONE_NEW flags of the namespaces that are made with the process.
	Namespaces uintptr
	// Group is the cgroup.procs file of the v2 group that the process joins first; nil for none.
	Group *os.File
	// Unshared are the CLONE_NEW flags of namespaces that the process makes as root of its user namespace.
	Unshared uintptr
	// IDs maps the ids of the user namespace, if CLONE_NEWUSER makes one, to those outside.
	IDs syscall.SysProcIDMap
	// Bounding has a bit for each capability that stays in the bounding set.
	Bounding uint64
	// Inheritable has a bit for each capability that the program has without its being in the bounding set. It
	// must not execute anything before it has cleared what is inheritable: root would have it too. Only with a
	// user namespace of its own.
	Inheritable uint64
}

// plan is the program as the child needs it: the child cannot allocate.
type plan struct {
	flags, unshared uintptr
	bounding        uint64
	// header has a version if sets has anything inheritable.
	header     unix.CapUserHeader
	sets       [2]unix.CapUserData
	path       *byte
	argv, envv []*byte
	files      []int
	// group is -1 for none.
	group int
	// firstFree is above every descriptor in files and every descriptor that they become.
	firstFree int
	// mapped is the pipe on which the child waits for its ids. failure is the pipe for a step that fails.
	mapped  ends
	failure int
}

// The steps of the child that can fail, for error messages.
const (
	stepMapped = iota
	stepIdentity
	stepSession
	stepInheritable
	stepBounding
	stepGroup
	stepUnshare
	stepFiles
	stepDirectory
	stepExec
)

var steps = [...]string{"wait for the ids", "become root inside", "make a session", "keep capabilities", "reduce the bounding set", "enter the group", "make namespaces",
	"pass descriptors", "change the directory", "execute the program"}

// Start returns the process id of the program when it has been executed. The process has its own session, no
// other descriptors, and belongs to the effective user of the calling thread, which must be locked.
func (p Program) Start() (pid int, err error) {
	prepared, err := p.prepare()
	if err != nil {
		return 0, err
	}
	mapped, err := pipe()
	if err != nil {
		return 0, err
	}
	defer mapped.close()
	failure, err := pipe()
	if err != nil {
		return 0, err
	}
	defer failure.close()
	prepared.mapped, prepared.failure = *mapped, failure.write

	var stack []byte
	if canShareMemory {
		stack = make([]byte, stackSize)
	}
	syscall.ForkLock.Lock()
	pid, errno := fork(prepared, stack)
	syscall.ForkLock.Unlock()
	if errno != 0 {
		return 0, fmt.Errorf("clone: %w", errno)
	}
	failure.closeWrite()
	if p.Namespaces&unix.CLONE_NEWUSER != 0 {
		err = writeMaps(pid, p.IDs)
	}
	if err == nil {
		_, err = unix.Write(mapped.write, []byte{1})
	}
	// Without the byte, the child ends.
	mapped.closeWrite()
	failed := readFailure(failure.read)
	// The child used them until its end of the pipe closed.
	runtime.KeepAlive(p.Files)
	runtime.KeepAlive(p.Group)
	runtime.KeepAlive(prepared)
	runtime.KeepAlive(stack)
	if failed != nil || err != nil {
		unix.Kill(pid, unix.SIGKILL)
		unix.Wait4(pid, nil, 0, nil)
		if err == nil {
			err = failed
		}
		return 0, err
	}
	return pid, nil
}

func (p Program) prepare() (*plan, error) {
	made := &plan{flags: p.Namespaces, unshared: p.Unshared, bounding: p.Bounding, firstFree: len(p.Files), group: -1}
	if p.Inheritable != 0 {
		made.header.Version = unix.LINUX_CAPABILITY_VERSION_3
		for n := range made.sets {
			made.sets[n] = unix.CapUserData{Effective: ^uint32(0), Permitted: ^uint32(0), Inheritable: uint32(p.Inheritable >> (32 * n))}
		}
	}
	if p.Group != nil {
		made.group = int(p.Group.Fd())
	}
	var err error
	if made.path, err = unix.BytePtrFromString(p.Path); err != nil {
		return nil, err
	}
	if made.argv, err = syscall.SlicePtrFromStrings(p.Argv); err != nil {
		return nil, err
	}
	if made.envv, err = syscall.SlicePtrFromStrings(p.Env); err != nil {
		return nil, err
	}
	for _, file := range p.Files {
		fd := int(file.Fd())
		made.files = append(made.files, fd)
		if fd >= made.firstFree {
			made.firstFree = fd + 1
		}
	}
	return made, nil
}

// writeMaps gives the child's user namespace its ids. The child may use setgroups, because its program sets
// the groups of others.
func writeMaps(pid int, ids syscall.SysProcIDMap) error {
	line := fmt.Sprintf("%d %d %d\n", ids.ContainerID, ids.HostID, ids.Size)
	for _, name := range []string{"uid_map", "gid_map"} {
		fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/"+name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			_, err = unix.Write(fd, []byte(line))
			unix.Close(fd)
		}
		if err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

// readFailure returns nil when the pipe closes without a message, which execve does.
func readFailure(fd int) error {
	var message [16]byte
	for {
		n, err := unix.Read(fd, message[:])
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return err
		case n == 0:
			return nil
		case n != len(message):
			return fmt.Errorf("the child wrote %d bytes", n)
		}
		step, errno := binary.LittleEndian.Uint64(message[:8]), binary.LittleEndian.Uint64(message[8:])
		return fmt.Errorf("%s: %w", steps[step], unix.Errno(errno))
	}
}

// ends are the two ends of a pipe, without Go's poller, which would only cost time.
type ends struct{ read, write int }

func pipe() (*ends, error) {
	var fds [2]int
	err := unix.Pipe2(fds[:], unix.O_CLOEXEC)
	return &ends{fds[0], fds[1]}, err
}

func (e *ends) closeWrite() {
	if e.write >= 0 {
		unix.Close(e.write)
		e.write = -1
	}
}

func (e *ends) close() {
	e.closeWrite()
	unix.Close(e.read)
}

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

// stackSize is far more than the child uses.
const stackSize = 16 << 10

// fork returns in the parent only. Without a stack, the child has a copy of the memory, in which other
// threads may hold locks. With one, it runs on that stack beside the parent. In both cases it has one thread
// and makes nothing but raw system calls from clone to execve: no allocation, no stack growth, no lock.
// Package syscall starts programs in the same way.
//
//go:norace
//go:noinline
func fork(p *plan, stack []byte) (pid int, errno syscall.Errno) {
	flags := uintptr(syscall.SIGCHLD) | p.flags
	beforeFork()
	var r uintptr
	if stack == nil {
		r, _, errno = syscall.RawSyscall6(syscall.SYS_CLONE, flags, 0, 0, 0, 0, 0)
		if errno == 0 && r == 0 {
			afterForkInChild()
			child(p)
		}
	} else {
		r, errno = cloneSharing(flags|syscall.CLONE_VM, &stack[stackSize-16], p)
	}
	afterFork()
	return int(r), errno
}

// child never returns.
//
//go:norace
//go:nosplit
func child(p *plan) {
	var message [2]uint64
	message[0], message[1] = become(p)
	syscall.RawSyscall(syscall.SYS_WRITE, uintptr(p.failure), uintptr(unsafe.Pointer(&message)), unsafe.Sizeof(message))
	for {
		syscall.RawSyscall(syscall.SYS_EXIT, 1, 0, 0)
	}
}

// become returns only if a step fails.
//
//go:norace
//go:nosplit
func become(p *plan) (step, failure uint64) {
	var errno syscall.Errno
	var got byte
	// Otherwise the child would wait for itself if the parent is killed.
	syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(p.mapped.write), 0, 0)
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, uintptr(p.mapped.read), uintptr(unsafe.Pointer(&got)), 1)
	if errno != 0 || n != 1 {
		return stepMapped, uint64(errno)
	}
	for _, call := range [...]uintptr{syscall.SYS_SETGROUPS, syscall.SYS_SETGID, syscall.SYS_SETUID} {
		if _, _, errno = syscall.RawSyscall(call, 0, 0, 0); errno != 0 {
			return stepIdentity, uint64(errno)
		}
	}
	if _, _, errno = syscall.RawSyscall(syscall.SYS_SETSID, 0, 0, 0); errno != 0 {
		return stepSession, uint64(errno)
	}
	if p.header.Version != 0 {
		_, _, errno = syscall.RawSyscall(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&p.header)), uintptr(unsafe.Pointer(&p.sets)), 0)
		if errno != 0 {
			return stepInheritable, uint64(errno)
		}
	}
	for c := uint64(0); c < 64; c++ {
		if p.bounding&(1<<c) != 0 {
			continue
		}
		// EINVAL: this kernel does not have the capability.
		_, _, errno = syscall.RawSyscall(syscall.SYS_PRCTL, unix.PR_CAPBSET_DROP, uintptr(c), 0)
		if errno != 0 && errno != syscall.EINVAL {
			return stepBounding, uint64(errno)
		}
	}
	if p.group >= 0 {
		if _, _, errno = syscall.RawSyscall(syscall.SYS_WRITE, uintptr(p.group), uintptr(unsafe.Pointer(&self[0])), 1); errno != 0 {
			return stepGroup, uint64(errno)
		}
	}
	if p.unshared != 0 {
		if _, _, errno = syscall.RawSyscall(syscall.SYS_UNSHARE, p.unshared, 0, 0); errno != 0 {
			return stepUnshare, uint64(errno)
		}
	}
	if errno = passFiles(p); errno != 0 {
		return stepFiles, uint64(errno)
	}
	if _, _, errno = syscall.RawSyscall(syscall.SYS_CHDIR, uintptr(unsafe.Pointer(&root[0])), 0, 0); errno != 0 {
		return stepDirectory, uint64(errno)
	}
	if canShareMemory {
		resetSignals()
	}
	_, _, errno = syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(p.path)), uintptr(unsafe.Pointer(&p.argv[0])), uintptr(unsafe.Pointer(&p.envv[0])))
	return stepExec, uint64(errno)
}

// signalAction is the kernel's struct sigaction. Its zero value is the default action.
type signalAction struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

var (
	defaultAction signalAction
	noSignals     uint64
)

// resetSignals is for a child that shares memory, in which all signals are blocked. Go's handlers must not
// run in it. A child with its own memory leaves this to the runtime.
//
//go:norace
//go:nosplit
func resetSignals() {
	for signal := uintptr(1); signal <= 64; signal++ {
		// EINVAL: SIGKILL and SIGSTOP.
		syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, signal, uintptr(unsafe.Pointer(&defaultAction)), 0, unsafe.Sizeof(noSignals), 0, 0)
	}
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&noSignals)), 0, unsafe.Sizeof(noSignals), 0, 0)
}

var root, self = [...]byte{'/', 0}, [...]byte{'0'}

// passFiles first copies every descriptor out of the way of the others.
//
//go:norace
//go:nosplit
func passFiles(p *plan) syscall.Errno {
	for i := range p.files {
		fd, _, errno := syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(p.files[i]), unix.F_DUPFD_CLOEXEC, uintptr(p.firstFree))
		if errno != 0 {
			return errno
		}
		p.files[i] = int(fd)
	}
	fd, _, errno := syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(p.failure), unix.F_DUPFD_CLOEXEC, uintptr(p.firstFree))
	if errno != 0 {
		return errno
	}
	p.failure = int(fd)
	for i := range p.files {
		if _, _, errno := syscall.RawSyscall(syscall.SYS_DUP3, uintptr(p.files[i]), uintptr(i), 0); errno != 0 {
			return errno
		}
	}
	// SECURITY: LK-02. Go marks its own descriptors to close on exec; this marks those that the program itself
	// inherited without that mark.
	_, _, errno = syscall.RawSyscall(unix.SYS_CLOSE_RANGE, uintptr(len(p.files)), 1<<31-1, unix.CLOSE_RANGE_CLOEXEC)
	return errno
}
