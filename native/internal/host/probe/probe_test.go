package probe

import (
	"math"
	"strings"
	"testing"
)

func TestOpenFilesAreCheckedAgainstTheMachinesMemory(t *testing.T) {
	const gib = 1 << 30
	// The default of the kernel: one file for each 10 KiB of memory.
	if detail, err := openFiles(24*gib/10240, 24*gib); err == nil || !strings.Contains(err.Error(), "fs.file-max is 2516582") {
		t.Errorf("%q, %v", detail, err)
	}
	// The value that systemd sets.
	if detail, err := openFiles(math.MaxInt64, 24*gib); err != nil || !strings.Contains(detail, "reach their memory limits first") {
		t.Errorf("%q, %v", detail, err)
	}
}
