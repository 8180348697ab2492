package process

import (
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// drainTime is how long output may still come after the process has ended while another process holds its
	// pipe open.
	drainTime = 100 * time.Millisecond
	// drainBytes bounds what is read after that: a pipe holds no more than this.
	drainBytes = 1 << 20
)

var buffers = sync.Pool{New: func() any { return new([ChunkLimit]byte) }}

// pump copies one pipe or terminal into the journal.
type pump struct {
	kind    Kind
	file    *os.File
	journal *Journal
	settled chan struct{} // closed when all relevant output is in the journal
}

func newPump(kind Kind, file *os.File, journal *Journal) *pump {
	return &pump{kind: kind, file: file, journal: journal, settled: make(chan struct{})}
}

// run reads to the end of the file, or until drain's deadline. After the deadline it reads what is in the
// pipe and then counts no more. A background child may hold a pipe open for days: its output is discarded,
// because a closed pipe would kill it. A terminal hangs up with its process.
func (p *pump) run() {
	defer p.file.Close()
	raw, err := p.file.SyscallConn()
	for err == nil {
		_, err = read(raw.Read, p.keep)
	}
	for rest := drainBytes; err == os.ErrDeadlineExceeded && rest > 0; {
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

// readOnce reads without waiting, whatever the deadline.
func readOnce(raw syscall.RawConn) func(func(uintptr) bool) error {
	return func(try func(uintptr) bool) error {
		empty := false
		if err := raw.Control(func(fd uintptr) { empty = !try(fd) }); err != nil || empty {
			return os.ErrDeadlineExceeded
		}
		return nil
	}
}

// read waits for bytes without holding a buffer, so that a thousand idle processes take no memory.
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
	case err != nil: // a terminal returns EIO when its last holder has closed it
		return 0, err
	case n == 0:
		return 0, unix.EPIPE
	}
	take(buffer[:n])
	return n, nil
}

// drain waits until the output of an ended process is complete. A pipe that a background child still holds
// open gets drainTime.
func drain(pumps []*pump) {
	timer := time.NewTimer(drainTime)
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
