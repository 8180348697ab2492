package host

import (
	"os"
	"sync"
)

// maxOwnLogBytes is the largest size of podhost's log. One earlier file of that size is kept beside it.
const maxOwnLogBytes = 8 << 20

// LogFile appends to a file, and begins a new one when it is full.
type LogFile struct {
	mu   sync.Mutex
	path string
	file *os.File
	size int64
}

// OpenLog opens the log at path, or creates it.
func OpenLog(path string) (*LogFile, error) {
	l := &LogFile{path: path}
	return l, l.open()
}

func (l *LogFile) open() error {
	file, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return err
	}
	l.file, l.size = file, info.Size()
	return nil
}

func (l *LogFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size+int64(len(p)) > maxOwnLogBytes && os.Rename(l.path, l.path+".1") == nil {
		full := l.file
		if err := l.open(); err != nil {
			return 0, err
		}
		full.Close()
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	return n, err
}

// Close closes the file.
func (l *LogFile) Close() error { return l.file.Close() }
