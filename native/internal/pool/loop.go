package pool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// attachTries bounds the race for a free device with other programs.
const attachTries = 50

// attach returns a loop device on the backing file: the existing one, if sandboxes have kept it since an
// earlier podhost, or a new one. The device disappears with its last user.
//
// INVARIANT: a file has one loop device at most. Two caches over one file would destroy it.
func attach(backing *os.File) (*os.File, error) {
	device, err := attached(backing)
	if device != nil || err != nil {
		return device, err
	}
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("no loop devices: %v", err)
	}
	defer control.Close()
	flags := uint32(unix.LO_FLAGS_AUTOCLEAR | unix.LO_FLAGS_DIRECT_IO)
	for try := 0; try < attachTries; try++ {
		number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, os.NewSyscallError("loop device", err)
		}
		device, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", number), os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		config := unix.LoopConfig{Fd: uint32(backing.Fd()), Info: unix.LoopInfo64{Flags: flags}}
		copy(config.Info.File_name[:len(config.Info.File_name)-1], "agentpod pool")
		if err = unix.IoctlLoopConfigure(int(device.Fd()), &config); err == nil {
			return device, nil
		}
		device.Close()
		switch {
		case errors.Is(err, unix.EBUSY):
			time.Sleep(time.Duration(try+1) * time.Millisecond)
		case errors.Is(err, unix.EINVAL) && flags&unix.LO_FLAGS_DIRECT_IO != 0:
			// Some file systems below cannot bypass the page cache.
			flags &^= unix.LO_FLAGS_DIRECT_IO
		default:
			return nil, os.NewSyscallError("loop device", err)
		}
	}
	return nil, errNoneFree
}

// attached finds the device of the backing file, if there is one.
func attached(backing *os.File) (*os.File, error) {
	var file unix.Stat_t
	if err := unix.Fstat(int(backing.Fd()), &file); err != nil {
		return nil, err
	}
	configured, _ := filepath.Glob("/sys/block/loop*/loop")
	for _, dir := range configured {
		device, err := os.OpenFile("/dev/"+filepath.Base(filepath.Dir(dir)), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		info, err := unix.IoctlLoopGetStatus64(int(device.Fd()))
		if err == nil && info.Device == file.Dev && info.Inode == file.Ino {
			return device, nil
		}
		device.Close()
	}
	return nil, nil
}

// allocate extends the file to size bytes, all of them allocated on the disk: a write to the pool must never
// find the disk full, which would make its file system read-only for every sandbox.
func allocate(file *os.File, size int64) error {
	for {
		err := unix.Fallocate(int(file.Fd()), 0, 0, size)
		if err != unix.EINTR {
			return os.NewSyscallError("fallocate", err)
		}
	}
}

func fileSize(file *os.File) int64 {
	info, err := file.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

// isPassing reports whether an error is temporary and needs no action.
func isPassing(err error) bool {
	for _, passing := range []error{unix.EBUSY, unix.EEXIST, unix.ENOMEM, unix.EAGAIN, unix.ENXIO, unix.ENODEV, unix.EINTR, errNoneFree} {
		if errors.Is(err, passing) {
			return true
		}
	}
	// The device node does not exist yet, because the kernel has just made the device.
	return errors.Is(err, unix.ENOENT)
}

var errNoneFree = errors.New("other programs took every free loop device")
