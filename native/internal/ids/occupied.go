package ids

import (
	"bufio"
	"os"
	"strconv"
	"strings"

	"agentpod/native/internal/mount"
)

// Occupied lists the ids that this machine's files assign: subordinate ranges, users and groups. A missing
// file counts as empty.
func Occupied() []mount.Range {
	occupied := append(readRanges("/etc/subuid", 1, 2), readRanges("/etc/subgid", 1, 2)...)
	occupied = append(occupied, readRanges("/etc/passwd", 2, -1)...)
	return append(occupied, readRanges("/etc/group", 2, -1)...)
}

// readRanges reads a range from each line of a file with colon-separated fields: it starts at the field
// `base` and has as many ids as the field `count` says, or one. It ignores lines of another form.
func readRanges(file string, base, count int) []mount.Range {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	var ranges []mount.Range
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) <= base || len(fields) <= count {
			continue
		}
		r := mount.Range{Count: 1}
		if r.Base, err = strconv.Atoi(fields[base]); err == nil && count >= 0 {
			r.Count, err = strconv.Atoi(fields[count])
		}
		if err == nil {
			ranges = append(ranges, r)
		}
	}
	return ranges
}

// Overlaps reports whether any of the ranges has an id of the Count from base on.
func Overlaps(ranges []mount.Range, base int) bool {
	for _, r := range ranges {
		if base < r.Base+r.Count && r.Base < base+Count {
			return true
		}
	}
	return false
}
