package process

import (
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// settleTime is how long output may trickle in after the process has ended while something else holds its pipe.
	settleTime = 100 * time.Millisecond
	// settleBytes bounds what is taken after that: a pipe holds no more than this.
	settleBytes = 1 << 20
)

var buffers = sync.Pool{New: func() any { return new([ChunkLimit]byte) }}

// pump moves one pipe or terminal into the journal.
type pump struct {
	kind    Kind
	file    *os.File
	journal *Journal
	settled chan struct{} // closed when all output that counts is in the journal
}

func newPump(kind Kind, file *os.File, journal *Journal) *pump {
	return &pump{kind: kind, file: file, journal: journal, settled: make(chan struct{})}
}

// run reads to the end of the file, or until settle's deadline. After the deadline it takes what the pipe holds and
// counts no more. A background child may hold a pipe for days after that: its output is thrown away, because a closed
// pipe would kill it. A terminal hangs up with its process.
func (p *pump) run() {
	defer p.file.Close()
	raw, err := p.file.SyscallConn()
	for err == nil {
		_, err = read(raw.Read, p.keep)
	}
	for rest := settleBytes; err == os.ErrDeadlineExceeded && rest > 0; {
		n, drained := read(readOnce(raw), p.keep)
		if drained != nil {
			break
		}
		rest -= n
	}
	close(p.settled)
	if err != os.ErrDeadlineExceeded || p.kind == Pty {
		return
	}
	p.file.SetReadDeadline(time.Time{})
	for err = nil; err == nil; {
		_, err = read(raw.Read, func([]byte) {})
	}
}

func (p *pump) keep(data []byte) { p.journal.Append(p.kind, data) }

// readOnce tries without waiting, whatever the deadline.
func readOnce(raw syscall.RawConn) func(func(uintptr) bool) error {
	return func(try func(uintptr) bool) error {
		empty := false
		if err := raw.Control(func(fd uintptr) { empty = !try(fd) }); err != nil || empty {
			return os.ErrDeadlineExceeded
		}
		return nil
	}
}

// read waits for bytes without holding a buffer, so that a thousand quiet processes cost no memory.
func read(wait func(func(uintptr) bool) error, take func([]byte)) (n int, err error) {
	buffer := buffers.Get().(*[ChunkLimit]byte)
	waitErr := wait(func(fd uintptr) bool {
		if buffer == nil {
			buffer = buffers.Get().(*[ChunkLimit]byte)
		}
		for {
			n, err = unix.Read(int(fd), buffer[:])
			if err != unix.EINTR {
				break
			}
		}
		if err == unix.EAGAIN {
			buffers.Put(buffer)
			buffer = nil
			return false
		}
		return true
	})
	if buffer != nil {
		defer buffers.Put(buffer)
	}
	switch {
	case waitErr != nil:
		return 0, os.ErrDeadlineExceeded
	case err != nil: // a terminal answers EIO when its last holder is gone
		return 0, err
	case n == 0:
		return 0, unix.EPIPE
	}
	take(buffer[:n])
	return n, nil
}

// settle waits until the output of a process that has ended is complete. A pipe that a background child still holds
// open is given settleTime.
func settle(pumps []*pump) {
	timer := time.NewTimer(settleTime)
	defer timer.Stop()
	for _, p := range pumps {
		select {
		case <-p.settled:
		case <-timer.C:
			for _, each := range pumps {
				each.file.SetReadDeadline(time.Now())
			}
			<-p.settled
		}
	}
}
