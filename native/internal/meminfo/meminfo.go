// Package meminfo reads how much memory the machine has left.
package meminfo

import (
	"bufio"
	"math"
	"os"
	"strconv"
	"strings"
)

// AvailableKiB is how much memory programs can still use, in KiB. If the kernel does not report it, there is
// enough.
func AvailableKiB() int64 {
	file, err := os.Open("/proc/meminfo")
	if err != nil {
		return math.MaxInt64
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if name, value, _ := strings.Cut(lines.Text(), ":"); name == "MemAvailable" {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kib
		}
	}
	return math.MaxInt64
}
