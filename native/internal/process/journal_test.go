package process

import (
	"bytes"
	"math/rand"
	"testing"
	"time"
)

// readAll reads everything that is available, and the gap before it.
func readAll(r *Reader) (out []byte, gap int64) {
	buf := make([]byte, ChunkLimit)
	for {
		chunk := r.Next(buf)
		switch {
		case chunk.Ended:
			return out, gap
		case chunk.Wait != nil:
			r.Waited()
			return out, gap
		case chunk.GapTo > 0:
			gap += chunk.GapTo - chunk.GapFrom
		default:
			out = append(out, chunk.Data...)
		}
	}
}

// pattern is output whose every byte depends on its offset.
func pattern(from, size int) []byte {
	out := make([]byte, size)
	for i := range out {
		out[i] = byte((from + i) * 7 >> 3)
	}
	return out
}

func TestAJournalCanBeReadFromAnyOffset(t *testing.T) {
	j := NewJournal(t.TempDir())
	defer j.Discard()
	random := rand.New(rand.NewSource(1))
	size := 0
	for size < 5<<20 {
		n := 1 + random.Intn(40_000)
		kind := Stdout
		if random.Intn(3) == 0 {
			kind = Stderr
		}
		j.Append(kind, pattern(size, n))
		size += n
		if random.Intn(20) == 0 {
			offset := random.Intn(size)
			r := j.Reader(int64(offset))
			got, gap := readAll(r)
			delete(j.readers, r)
			if gap != 0 || !bytes.Equal(got, pattern(offset, size-offset)) {
				t.Fatalf("from %d of %d: %d bytes, gap %d", offset, size, len(got), gap)
			}
		}
	}
	if j.store.file == nil || j.store.ring != nil {
		t.Fatal("a large journal stays in memory")
	}
}

func TestWithoutAReaderTheOldestBytesAreDroppedAndTheGapIsReported(t *testing.T) {
	j := NewJournal("/nonexistent")
	defer j.Discard()
	size := 0
	for size < 3<<20 {
		j.Append(Stdout, pattern(size, 10_000))
		size += 10_000
	}
	got, gap := readAll(j.Reader(0))
	if int(gap)+len(got) != size || len(got) != memoryLimit || !bytes.Equal(got, pattern(int(gap), len(got))) {
		t.Fatalf("%d bytes after a gap of %d", len(got), gap)
	}
}

func TestAFullDiskCostsAJournalOnlyItsOldBytes(t *testing.T) {
	j := NewJournal(t.TempDir())
	defer j.Discard()
	j.Append(Stdout, pattern(0, 2<<20))
	j.store.file.Close() // every later write fails
	j.Append(Stdout, pattern(2<<20, 100))
	got, gap := readAll(j.Reader(0))
	if gap != 2<<20 || !bytes.Equal(got, pattern(2<<20, 100)) {
		t.Fatalf("%d bytes after a gap of %d", len(got), gap)
	}
}

func TestAReaderBlocksTheWriterUntilItsGraceEnds(t *testing.T) {
	j := NewJournal("/nonexistent")
	defer j.Discard()
	now := time.Now()
	j.now = func() time.Time { return now }
	r := j.Reader(0)
	written := make(chan int, 1000)
	go func() {
		for i := 0; i < 300; i++ {
			j.Append(Stdout, make([]byte, 10_000))
			written <- i
		}
		close(written)
	}()
	time.Sleep(50 * time.Millisecond)
	if n := len(written); n > 110 {
		t.Fatalf("%d appends pass a reader that does not read", n)
	}
	r.Close()
	time.Sleep(20 * time.Millisecond)
	if n := len(written); n > 110 {
		t.Fatalf("%d appends pass a reader that has just left", n)
	}
	j.mu.Lock()
	now = now.Add(graceAfterReader)
	j.wake()
	j.mu.Unlock()
	for range written {
	}
}

func TestAlternatingStreamsDoNotGrowTheIndex(t *testing.T) {
	j := NewJournal(t.TempDir())
	defer j.Discard()
	for i := 0; i < runLimit+1000; i++ {
		j.Append([]Kind{Stdout, Stderr}[i%2], []byte{1})
	}
	if len(j.runs) > runLimit {
		t.Fatalf("%d runs", len(j.runs))
	}
	got, gap := readAll(j.Reader(0))
	if len(got)+int(gap) != runLimit+1000 || gap == 0 {
		t.Fatalf("%d bytes, gap %d", len(got), gap)
	}
}

func TestAJournalCanBeReadFromAnOffsetInStdout(t *testing.T) {
	for name, dir := range map[string]string{"all held": t.TempDir(), "the oldest gone": "/nonexistent"} {
		t.Run(name, func(t *testing.T) {
			j := NewJournal(dir)
			defer j.Discard()
			random := rand.New(rand.NewSource(2))
			stdout := 0
			for total := 0; total < 3<<20; {
				n := 1 + random.Intn(4000)
				if random.Intn(3) == 0 {
					j.Append(Stderr, bytes.Repeat([]byte("e"), n))
				} else {
					j.Append(Stdout, pattern(stdout, n))
					stdout += n
				}
				total += n
			}
			for i := 0; i < 300; i++ {
				from := random.Intn(stdout + 1)
				if i == 0 {
					from = 0
				}
				r := j.StdoutReader(int64(from))
				got, begin, buf := []byte{}, int64(from), make([]byte, ChunkLimit)
				for chunk := r.Next(buf); chunk.Wait == nil; chunk = r.Next(buf) {
					if chunk.GapTo > 0 {
						begin = chunk.Stdout
					} else if chunk.Kind == Stdout {
						got = append(got, chunk.Data...)
					}
				}
				r.Waited()
				delete(j.readers, r)
				if int(begin)+len(got) != stdout || !bytes.Equal(got, pattern(int(begin), len(got))) {
					t.Fatalf("from %d of %d: %d bytes after %d", from, stdout, len(got), begin)
				}
				if isGone := int64(from) < j.stdoutBefore(j.store.start); isGone != (begin != int64(from)) {
					t.Fatalf("from %d of %d, gone: %t, a gap up to %d", from, stdout, isGone, begin)
				}
			}
			if j.StdoutReader(int64(stdout)+1) != nil || j.StdoutReader(-1) != nil {
				t.Error("bytes that never came are waited for")
			}
		})
	}
}

func TestAReaderFromAStdoutOffsetGetsTheStderrAfterIt(t *testing.T) {
	j := NewJournal(t.TempDir())
	defer j.Discard()
	j.Append(Stderr, []byte("0"))
	j.Append(Stdout, []byte("ab"))
	j.Append(Stderr, []byte("12"))
	j.Append(Stdout, []byte("cd"))
	for count, want := range []string{"0ab12cd", "b12cd", "12cd", "d", ""} {
		if got, gap := readAll(j.StdoutReader(int64(count))); string(got) != want || gap != 0 {
			t.Errorf("after %d: %q", count, got)
		}
	}
}

func TestDiscardedJournalsFreeTheirMemory(t *testing.T) {
	before := budget.Load()
	for i := 0; i < 40; i++ {
		j := NewJournal(t.TempDir())
		j.Append(Stdout, make([]byte, 700_000))
		defer func() { j.Discard() }()
		if budget.Load() > budgetLimit+memoryLimit {
			t.Fatalf("journals hold %d bytes", budget.Load())
		}
	}
	t.Cleanup(func() {
		if budget.Load() != before {
			t.Errorf("%d bytes are still accounted for", budget.Load()-before)
		}
	})
}
