package pool

import (
	"encoding/hex"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Requests of linux/btrfs.h, which x/sys does not name.
const (
	btrfsMagic = 0x9123683e

	iocResize       = 0x50009403
	iocSync         = 0x9408
	iocSubvolCreate = 0x5000940e
	iocSnapDestroy  = 0x5000940f
	iocSnapCreateV2 = 0x50009417
	iocSetFlags     = 0x4008941a
	iocInoLookup    = 0xd0009412
	iocFsInfo       = 0x8400941f
	iocQuotaCtl     = 0xc0109428
	iocQgroupCreate = 0x4010942a
	iocQgroupLimit  = 0x8030942b

	volumeReadOnly    = 1 << 1
	quotaEnableSimple = 4
	limitReferenced   = 1 << 0
	firstInode        = 256
)

type volArgs struct {
	fd   int64
	name [4088]byte
}

type volArgsV2 struct {
	fd, transid, flags int64
	_                  [4]uint64
	name               [4040]byte
}

type inoLookupArgs struct {
	treeid, objectid uint64
	name             [4080]byte
}

type fsInfoArgs struct {
	maxID, devices uint64
	fsid           [16]byte
	_              [992]byte
}

type quotaCtlArgs struct{ cmd, status uint64 }

type qgroupCreateArgs struct{ create, qgroup uint64 }

type qgroupLimitArgs struct {
	qgroup, flags, maxReferenced, maxExclusive, reservedReferenced, reservedExclusive uint64
}

func ioctl(fd int, request uintptr, args unsafe.Pointer) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(args))
		runtime.KeepAlive(args)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return errno
		}
		return nil
	}
}

// createSubvolume makes name in the directory dir. The name is one component: the kernel refuses a slash in
// it.
func createSubvolume(dir int, name string) error {
	var args volArgs
	copy(args.name[:len(args.name)-1], name)
	return os.NewSyscallError("subvolume create", ioctl(dir, iocSubvolCreate, unsafe.Pointer(&args)))
}

// snapshotSubvolume makes name in the directory dir a snapshot of the subvolume that source is open on.
func snapshotSubvolume(source, dir int, name string, readOnly bool) error {
	args := volArgsV2{fd: int64(source)}
	if readOnly {
		args.flags = volumeReadOnly
	}
	copy(args.name[:len(args.name)-1], name)
	return os.NewSyscallError("snapshot create", ioctl(dir, iocSnapCreateV2, unsafe.Pointer(&args)))
}

func setReadOnly(volume int) error {
	flags := uint64(volumeReadOnly)
	return os.NewSyscallError("subvolume flags", ioctl(volume, iocSetFlags, unsafe.Pointer(&flags)))
}

// deleteSubvolume removes the name at once; the file system frees the space later.
func deleteSubvolume(dir int, name string) error {
	var args volArgs
	copy(args.name[:len(args.name)-1], name)
	return os.NewSyscallError("subvolume delete", ioctl(dir, iocSnapDestroy, unsafe.Pointer(&args)))
}

// isSubvolume distinguishes a subvolume from a directory, which a copy of a subvolume is.
func isSubvolume(fd int) bool {
	var stat unix.Stat_t
	var fs unix.Statfs_t
	return unix.Fstat(fd, &stat) == nil && stat.Ino == firstInode && unix.Fstatfs(fd, &fs) == nil && fs.Type == btrfsMagic
}

// subvolumeID is the id of the subvolume that contains fd.
func subvolumeID(fd int) (uint64, error) {
	args := inoLookupArgs{objectid: firstInode}
	err := ioctl(fd, iocInoLookup, unsafe.Pointer(&args))
	return args.treeid, os.NewSyscallError("subvolume id", err)
}

// resizeToDevice lets the file system use all of its device.
func resizeToDevice(fd int) error {
	var args volArgs
	copy(args.name[:], "max")
	return os.NewSyscallError("resize", ioctl(fd, iocResize, unsafe.Pointer(&args)))
}

// freeDeleted makes the file system free the space of deleted subvolumes, which it otherwise does twice a
// minute.
func freeDeleted(fd int) error { return ioctl(fd, iocSync, nil) }

// fileSystemID is the name of fd's file system in /sys/fs/btrfs.
func fileSystemID(fd int) (string, error) {
	var args fsInfoArgs
	if err := ioctl(fd, iocFsInfo, unsafe.Pointer(&args)); err != nil {
		return "", os.NewSyscallError("file system info", err)
	}
	x := hex.EncodeToString(args.fsid[:])
	return x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-" + x[16:20] + "-" + x[20:], nil
}

func enableSimpleQuotas(fd int) error {
	args := quotaCtlArgs{cmd: quotaEnableSimple}
	return os.NewSyscallError("simple quotas", ioctl(fd, iocQuotaCtl, unsafe.Pointer(&args)))
}

// limitSubvolume limits what is charged to a subvolume: with simple quotas, everything that was written
// through it, including metadata.
func limitSubvolume(fd int, id uint64, bytes int64) error {
	args := qgroupLimitArgs{qgroup: id, flags: limitReferenced, maxReferenced: uint64(bytes)}
	if bytes == 0 {
		args.maxReferenced = ^uint64(0)
	}
	return os.NewSyscallError("quota limit", ioctl(fd, iocQgroupLimit, unsafe.Pointer(&args)))
}

// removeQgroup removes the count of a subvolume. The kernel refuses as long as the count is not zero.
func removeQgroup(fd int, id uint64) error {
	args := qgroupCreateArgs{qgroup: id}
	return ioctl(fd, iocQgroupCreate, unsafe.Pointer(&args))
}
