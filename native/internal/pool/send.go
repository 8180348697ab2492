package pool

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What the kernel writes about the difference between two subvolumes: linux/btrfs.h and fs/btrfs/send.h.
const (
	iocSend        = 0x40489426
	sendNoFileData = 1 << 0
	sendMagic      = "btrfs-stream\x00"

	commandSubvolume    = 1
	commandSnapshot     = 2
	commandMakeFile     = 3
	commandRename       = 9
	commandSetXattr     = 13
	commandRemoveXattr  = 14
	commandWrite        = 15
	commandClone        = 16
	commandTruncate     = 17
	commandChmod        = 18
	commandChown        = 19
	commandUtimes       = 20
	commandEnd          = 21
	commandUpdateExtent = 22

	attributePath     = 15
	attributePathTo   = 16
	attributePathLink = 17

	// maxCommandBytes is more than a command without file data has: paths, and the target of a link.
	maxCommandBytes = 64 << 10
)

type sendArgs struct {
	to           int64
	sourcesCount uint64
	sources      unsafe.Pointer
	parent       uint64
	flags        uint64
	_            [32]byte
}

// A sendCommand is one step from the old files to the new ones.
type sendCommand struct {
	kind uint16
	// paths are relative to the subvolume: those that the step names.
	paths []string
}

// sendDifference has the kernel write the difference between two read-only subvolumes to a pipe. visit gets
// each command and returns false to end this early.
func sendDifference(parent, volume int, visit func(sendCommand) bool) error {
	number, err := subvolumeID(parent)
	if err != nil {
		return err
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	sent := make(chan error, 1)
	go func() {
		sources := [1]uint64{number}
		args := sendArgs{to: int64(writer.Fd()), sourcesCount: 1, sources: unsafe.Pointer(&sources[0]), parent: number, flags: sendNoFileData}
		err := ioctl(volume, iocSend, unsafe.Pointer(&args))
		writer.Close()
		sent <- err
	}()
	read := readCommands(bufio.NewReaderSize(reader, maxCommandBytes), visit)
	// The kernel stops at its next write if nobody reads.
	reader.Close()
	err = <-sent
	if errors.Is(read, errStopped) {
		return nil
	}
	if err != nil {
		return os.NewSyscallError("send", err)
	}
	return read
}

var errStopped = errors.New("stopped")

func readCommands(stream io.Reader, visit func(sendCommand) bool) error {
	var magic [len(sendMagic) + 4]byte
	if _, err := io.ReadFull(stream, magic[:]); err != nil {
		return err
	}
	if string(magic[:len(sendMagic)]) != sendMagic {
		return errors.New("not a stream of btrfs")
	}
	for {
		var head [10]byte
		if _, err := io.ReadFull(stream, head[:]); err != nil {
			return err
		}
		length, kind := binary.LittleEndian.Uint32(head[:4]), binary.LittleEndian.Uint16(head[4:6])
		if kind == commandEnd {
			return nil
		}
		if length > maxCommandBytes {
			return fmt.Errorf("a command of btrfs has %d bytes", length)
		}
		body := make([]byte, length)
		if _, err := io.ReadFull(stream, body); err != nil {
			return err
		}
		command, err := parseCommand(kind, body)
		if err != nil {
			return err
		}
		if !visit(command) {
			return errStopped
		}
	}
}

func parseCommand(kind uint16, body []byte) (sendCommand, error) {
	command := sendCommand{kind: kind}
	for len(body) > 0 {
		if len(body) < 4 {
			return command, io.ErrUnexpectedEOF
		}
		attribute, length := binary.LittleEndian.Uint16(body), int(binary.LittleEndian.Uint16(body[2:]))
		if len(body) < 4+length {
			return command, io.ErrUnexpectedEOF
		}
		if attribute == attributePath || attribute == attributePathTo || attribute == attributePathLink {
			command.paths = append(command.paths, string(body[4:4+length]))
		}
		body = body[4+length:]
	}
	return command, nil
}

// isHardLinked reports whether a file has several names, or cannot be found under this one.
func isHardLinked(volume int, path string) bool {
	fd, err := openBeneath(volume, path)
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	return unix.Fstat(fd, &stat) != nil || (stat.Mode&unix.S_IFMT != unix.S_IFDIR && stat.Nlink > 1)
}
