package host

import (
	"math"
	"strings"
	"testing"
)

func TestOpenFilesSuffice(t *testing.T) {
	const gib = 1 << 30
	// What kernels choose by themselves, a file for each 10 KiB of memory.
	if said, err := openFiles(24*gib/10240, 24*gib); err == nil || !strings.Contains(err.Error(), "fs.file-max is 2516582") {
		t.Errorf("%q, %v", said, err)
	}
	// What systemd sets.
	if said, err := openFiles(math.MaxInt64, 24*gib); err != nil || !strings.Contains(said, "reach their limits on memory") {
		t.Errorf("%q, %v", said, err)
	}
}
