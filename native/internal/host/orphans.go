package host

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// orphanAge is how long an ended child may wait for the goroutine that started it. After that nobody will come.
const orphanAge = 3 * time.Second

// orphans reaps children that podhost did not start: as subreaper it inherits the runtime's helpers, each of which would stay a
// zombie for podhost's whole life.
type orphans struct {
	seen map[int]time.Time
}

func (o *orphans) reap(now time.Time) {
	ended := map[int]time.Time{}
	threads, _ := os.ReadDir("/proc/self/task")
	for _, thread := range threads {
		data, _ := os.ReadFile("/proc/self/task/" + thread.Name() + "/children")
		for _, field := range strings.Fields(string(data)) {
			pid, err := strconv.Atoi(field)
			if err != nil || !isZombie(pid) {
				continue
			}
			since, known := o.seen[pid]
			if !known {
				since = now
			}
			if now.Sub(since) < orphanAge {
				ended[pid] = since
				continue
			}
			unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
	o.seen = ended
}

func isZombie(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	state := data[strings.LastIndexByte(string(data), ')')+1:]
	return len(state) > 1 && state[1] == 'Z'
}
