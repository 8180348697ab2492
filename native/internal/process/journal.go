package process

import (
	"sort"
	"sync"
	"time"
)

// Kind says which stream a run of output bytes belongs to; its text is the field of envd's data event.
type Kind string

const (
	Stdout Kind = "stdout"
	Stderr Kind = "stderr"
	Pty    Kind = "pty"
)

const (
	// ChunkLimit bounds the bytes of one output event.
	ChunkLimit = 64 << 10
	// graceAfterReader is how long the position of a reader that has disconnected still blocks the process.
	graceAfterReader = 2 * time.Minute
	// inFlight is how far before its position a reader may start again: bytes in sockets may never have
	// arrived.
	inFlight = 8 << 20
	// runLimit bounds the index if a process alternates between its streams byte by byte.
	runLimit = 1 << 16
)

// run is a stretch of output of one kind. It begins at the end of the run before it. stdout counts the bytes
// of stdout in all output up to its end.
type run struct {
	kind   Kind
	end    int64
	stdout int64
}

// Journal keeps the output of one process so that readers can reconnect. Any number of readers follow one
// writer.
type Journal struct {
	mu      sync.Mutex
	store   store
	runs    []run
	stdout  int64 // bytes of stdout ever appended
	readers map[*Reader]struct{}
	left    struct {
		position int64
		at       time.Time
	}
	closed  bool
	changed chan struct{} // closed and replaced when something changes and somebody waits
	waiting int
	now     func() time.Time
}

// NewJournal makes an empty journal that spills into one of the directories.
func NewJournal(spillDirs ...string) *Journal {
	return &Journal{
		store:   store{spillDirs: spillDirs},
		readers: map[*Reader]struct{}{},
		changed: make(chan struct{}),
		now:     time.Now,
	}
}

// Append adds output. It blocks while the journal is full of bytes that a reader still needs, which blocks
// the process.
func (j *Journal) Append(kind Kind, data []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for !j.closed && !j.hasRoom(int64(len(data))) {
		j.wait()
	}
	if j.closed {
		return
	}
	j.store.put(data)
	if kind == Stdout {
		j.stdout += int64(len(data))
	}
	if last := len(j.runs) - 1; last >= 0 && j.runs[last].kind == kind {
		j.runs[last].end, j.runs[last].stdout = j.store.end, j.stdout
	} else {
		j.runs = append(j.runs, run{kind, j.store.end, j.stdout})
	}
	j.trim()
	j.wake()
}

// wait releases the lock until something changes or a reader's grace may have ended.
func (j *Journal) wait() {
	j.waiting++
	changed := j.changed
	j.mu.Unlock()
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	}
	j.mu.Lock()
	j.waiting--
}

func (j *Journal) wake() {
	if j.waiting > 0 {
		close(j.changed)
		j.changed = make(chan struct{})
	}
}

// hasRoom reports whether size more bytes fit without dropping bytes that a reader may still need.
func (j *Journal) hasRoom(size int64) bool {
	floor, held := j.floor()
	if !held {
		return true
	}
	oldest := j.store.end + size - j.store.capacity()
	if len(j.runs) >= runLimit && j.runs[0].end > oldest {
		oldest = j.runs[0].end
	}
	return oldest <= floor
}

// floor is the offset below which no reader needs a byte; held is false if there is no reader.
func (j *Journal) floor() (floor int64, held bool) {
	floor = j.store.end
	for reader := range j.readers {
		held = true
		if reader.position < floor {
			floor = reader.position
		}
	}
	if !j.left.at.IsZero() && j.now().Sub(j.left.at) < graceAfterReader {
		held = true
		if j.left.position < floor {
			floor = j.left.position
		}
	}
	// A store that is too small for the slack gets less.
	slack := int64(inFlight)
	if quarter := j.store.capacity() / 4; slack > quarter {
		slack = quarter
	}
	return floor - slack, held
}

// trim drops runs whose bytes are dropped, and the oldest bytes if there are too many runs.
func (j *Journal) trim() {
	gone := 0
	for len(j.runs)-gone > runLimit || len(j.runs) > gone && j.runs[gone].end <= j.store.start {
		if j.runs[gone].end > j.store.start {
			j.store.start = j.runs[gone].end
		}
		gone++
	}
	if gone > 0 {
		j.runs = append(j.runs[:0], j.runs[gone:]...)
	}
}

// Close marks the end of the output. Readers still get what the journal has.
func (j *Journal) Close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	j.wake()
}

// Discard frees the journal. Readers find a gap.
func (j *Journal) Discard() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	j.store.start = j.store.end
	j.store.close()
	j.runs = nil
	j.wake()
}

// Size is the number of bytes ever appended.
func (j *Journal) Size() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.store.end
}

// Reader follows a journal. It belongs to one goroutine, which closes it.
type Reader struct {
	journal  *Journal
	position int64
}

// Reader starts reading at an offset, which may not exist yet.
func (j *Journal) Reader(offset int64) *Reader {
	j.mu.Lock()
	defer j.mu.Unlock()
	reader := &Reader{journal: j, position: offset}
	j.readers[reader] = struct{}{}
	j.left.at = time.Time{} // the reader that disconnected is back
	return reader
}

// StdoutReader starts reading after this many bytes of stdout, and includes the other output between them and
// the next byte of stdout. It is nil if there are fewer yet.
func (j *Journal) StdoutReader(count int64) *Reader {
	j.mu.Lock()
	if count < 0 || count > j.stdout {
		j.mu.Unlock()
		return nil
	}
	position := j.afterStdout(count)
	j.mu.Unlock()
	// Meanwhile bytes can be dropped but not inserted, so this stays the right position or becomes a gap.
	return j.Reader(position)
}

// afterStdout is the first available position after this many bytes of stdout. If those bytes were dropped,
// it is some position before the available ones.
func (j *Journal) afterStdout(count int64) int64 {
	if count < j.stdoutBefore(j.store.start) {
		return count
	}
	i := sort.Search(len(j.runs), func(i int) bool { return j.runs[i].stdout >= count })
	if i == len(j.runs) {
		return j.store.end
	}
	if position := j.runs[i].end - (j.runs[i].stdout - count); j.runs[i].kind == Stdout && position > j.store.start {
		return position
	}
	return j.store.start
}

// stdoutBefore counts the bytes of stdout before an available position, or the end.
func (j *Journal) stdoutBefore(position int64) int64 {
	if position >= j.store.end || len(j.runs) == 0 {
		return j.stdout
	}
	at := j.runAt(position)
	if at.kind == Stdout {
		return at.stdout - (at.end - position)
	}
	return at.stdout
}

// Close detaches the reader; its position still counts for a while.
func (r *Reader) Close() {
	j := r.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.readers, r)
	j.left.position, j.left.at = r.position, j.now()
	j.wake()
}

// Chunk is the result of Next: bytes of one kind, a gap, the end, or a channel to wait on.
type Chunk struct {
	Kind    Kind
	Data    []byte
	GapTo   int64 // bytes from GapFrom to GapTo were dropped
	GapFrom int64
	Stdout  int64 // of a gap: how many bytes of stdout came before its end
	Ended   bool
	Wait    <-chan struct{}
}

// Next never blocks. After waiting on Wait, the caller calls Waited and then Next again.
func (r *Reader) Next(buf []byte) (chunk Chunk) {
	j := r.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case r.position < j.store.start:
		chunk = Chunk{GapFrom: r.position, GapTo: j.store.start, Stdout: j.stdoutBefore(j.store.start)}
		r.position = j.store.start
		return chunk
	case r.position >= j.store.end && j.closed:
		return Chunk{Ended: true}
	case r.position >= j.store.end:
		j.waiting++
		return Chunk{Wait: j.changed}
	}
	current := j.runAt(r.position)
	if limit := current.end - r.position; int64(len(buf)) > limit {
		buf = buf[:limit]
	}
	n, err := j.store.read(buf, r.position)
	if err != nil || n == 0 {
		// The file cannot be read, so these bytes count as dropped.
		chunk = Chunk{GapFrom: r.position, GapTo: current.end, Stdout: current.stdout}
		r.position = current.end
		return chunk
	}
	r.position += int64(n)
	j.wake()
	return Chunk{Kind: current.kind, Data: buf[:n]}
}

// Waited belongs to a chunk that had Wait.
func (r *Reader) Waited() {
	r.journal.mu.Lock()
	r.journal.waiting--
	r.journal.mu.Unlock()
}

func (j *Journal) runAt(position int64) run {
	low, high := 0, len(j.runs)-1
	for low < high {
		middle := (low + high) / 2
		if j.runs[middle].end > position {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return j.runs[low]
}
