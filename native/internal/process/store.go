package process

import (
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	memoryLimit = 1 << 20
	spillLimit  = 64 << 20
	// budgetLimit bounds the memory of all journals together. Above it a journal uses its file at once.
	budgetLimit = 16 << 20
)

var budget atomic.Int64

// store is a ring of bytes addressed by absolute offset: in memory while small, then in an unlinked file. It
// holds [start, end). It is not safe for concurrent use; the journal's lock protects it.
type store struct {
	start, end int64
	ring       []byte
	file       *os.File
	broken     bool
	spillDirs  []string
}

// capacity is how many bytes fit before the oldest are dropped.
func (s *store) capacity() int64 {
	if s.broken {
		return memoryLimit
	}
	return spillLimit
}

// put appends at most capacity bytes. It drops the oldest bytes if there is no room.
func (s *store) put(data []byte) {
	if s.file == nil && !s.broken && !s.fitsMemory(len(data)) {
		s.spill()
	}
	if s.file != nil && !s.writeFile(data) {
		// The disk is full or has failed. The bytes in the file are dropped, and the newest bytes stay in
		// memory.
		s.closeFile()
		s.broken = true
		s.start = s.end
	}
	if s.file == nil {
		s.writeMemory(data)
	}
	s.end += int64(len(data))
	if s.end-s.start > s.capacity() {
		s.start = s.end - s.capacity()
	}
}

func (s *store) fitsMemory(more int) bool {
	need := int(s.end) + more
	return need <= len(s.ring) || need <= memoryLimit && budget.Load()+int64(need) <= budgetLimit
}

// writeMemory keeps byte i at i modulo the ring's size. Until the ring has its full size it has never
// wrapped.
func (s *store) writeMemory(data []byte) {
	if len(data) > memoryLimit {
		data = data[len(data)-memoryLimit:]
	}
	if len(s.ring) < memoryLimit {
		s.growRing(int(s.end) + len(data))
	}
	at := int(s.end % int64(len(s.ring)))
	if n := copy(s.ring[at:], data); n < len(data) {
		copy(s.ring, data[n:])
	}
}

func (s *store) growRing(need int) {
	size := 4 << 10
	for size < need && size < memoryLimit {
		size *= 2
	}
	if size <= len(s.ring) {
		return
	}
	grown := make([]byte, size)
	copy(grown, s.ring)
	budget.Add(int64(size - len(s.ring)))
	s.ring = grown
}

func (s *store) spill() {
	file, err := openSpill(s.spillDirs)
	if err != nil {
		s.broken = true
		return
	}
	if _, err := file.WriteAt(s.ring[:s.end], 0); err != nil {
		file.Close()
		s.broken = true
		return
	}
	s.file = file
	s.freeRing()
}

func (s *store) writeFile(data []byte) bool {
	for offset := s.end; len(data) > 0; {
		at := offset % spillLimit
		n := len(data)
		if room := spillLimit - at; int64(n) > room {
			n = int(room)
		}
		if _, err := s.file.WriteAt(data[:n], at); err != nil {
			return false
		}
		data, offset = data[n:], offset+int64(n)
	}
	return true
}

// read copies bytes from an offset inside [start, end). It may stop at the end of the ring.
func (s *store) read(into []byte, offset int64) (int, error) {
	if held := s.end - offset; int64(len(into)) > held {
		into = into[:held]
	}
	if s.file == nil {
		return copy(into, s.ring[offset%int64(len(s.ring)):]), nil
	}
	at := offset % spillLimit
	if room := spillLimit - at; int64(len(into)) > room {
		into = into[:room]
	}
	return s.file.ReadAt(into, at)
}

func (s *store) freeRing() {
	budget.Add(-int64(len(s.ring)))
	s.ring = nil
}

func (s *store) closeFile() {
	s.file.Close()
	s.file = nil
}

func (s *store) close() {
	s.freeRing()
	if s.file != nil {
		s.closeFile()
	}
}

// openSpill makes a file without a name. It counts against the sandbox's own disk limit.
func openSpill(dirs []string) (file *os.File, err error) {
	for _, dir := range dirs {
		fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
		if err == nil {
			return os.NewFile(uintptr(fd), dir), nil
		}
		name := dir + "/.podd-" + strconv.FormatInt(time.Now().UnixNano(), 36)
		file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
		if err == nil {
			return file, os.Remove(name)
		}
	}
	return nil, unix.ENOSPC
}
