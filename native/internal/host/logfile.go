package host

import (
	"os"
	"sync"
)

// maxOwnLogBytes bounds podhost's log; one earlier file of the same length is kept beside it.
const maxOwnLogBytes = 8 << 20

// LogFile appends to a file that begins anew when it is full.
type LogFile struct {
	mu   sync.Mutex
	path string
	file *os.File
	size int64
}

// OpenLog opens path, or makes it.
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

// Close ends the log.
func (l *LogFile) Close() error { return l.file.Close() }
