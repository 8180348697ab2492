package inside

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// blankSectors is the size of an empty drive of Firecracker, in sectors of 512 bytes.
const blankSectors = "8"

// virtioDisk returns the device of a disk on a virtio bus, or nothing.
func virtioDisk(number int) string {
	return virtioDiskIn("/sys/block", number, isBootedWith(orderedDisks))
}

// virtioDiskIn looks into a directory of devices. A disk says its number in its serial number, except where
// the order says it. An ordered one is used once it is larger than an empty one.
func virtioDiskIn(dir string, number int, isOrdered bool) string {
	if isOrdered {
		name := "vd" + string(rune('a'+number))
		size := readLine(filepath.Join(dir, name, "size"))
		if number >= 26 || size == "" || size == blankSectors {
			return ""
		}
		return "/dev/" + name
	}
	names, _ := filepath.Glob(filepath.Join(dir, "vd*", "serial"))
	for _, path := range names {
		if readLine(path) == fmt.Sprintf("agentpod-%d", number) {
			return "/dev/" + filepath.Base(filepath.Dir(path))
		}
	}
	return ""
}

func readLine(path string) string {
	text, _ := os.ReadFile(path)
	return strings.TrimSpace(string(text))
}
