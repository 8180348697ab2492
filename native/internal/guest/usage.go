package guest

import (
	"bytes"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"agentpod/native/internal/connect"
)

// tick is the unit of times in /proc/<pid>/stat; Linux reports it as 1/100 s to every program.
const tick = 10 * time.Millisecond

// sample is what /proc reports about the sandbox.
type sample struct {
	cpu  time.Duration
	mem  int64
	pids int
}

// takeSample adds up all processes. podd is PID 1 and reaps every orphan, so the time of ended processes is
// in its own count of children.
func takeSample() (sum sample) {
	dir, err := os.Open("/proc")
	if err != nil {
		return sum
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	page := int64(os.Getpagesize())
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		text, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		// After the name, field 0 is the state, and 11 to 14 are user and system time, own and of reaped
		// children.
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) < 22 {
			continue
		}
		sum.pids++
		for _, field := range fields[11:15] {
			sum.cpu += time.Duration(number(field)) * tick
		}
		statm, err := os.ReadFile("/proc/" + name + "/statm")
		if pages := bytes.Fields(statm); err == nil && len(pages) > 2 {
			sum.mem += (number(pages[1]) - number(pages[2])) * page
		}
	}
	return sum
}

func number(text []byte) int64 {
	n, _ := strconv.ParseInt(string(text), 10, 64)
	return n
}

// memory uses the control group's count if a group is mounted. Otherwise it uses the processes' private pages
// and the machine's size.
func memory(private int64) (used, limit, cache int64) {
	used, limit = private, memInfo("MemTotal:")
	for _, names := range [][2]string{
		{"/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.max"},
		{"/sys/fs/cgroup/memory/memory.usage_in_bytes", "/sys/fs/cgroup/memory/memory.limit_in_bytes"},
	} {
		text, err := os.ReadFile(names[0])
		if err != nil {
			continue
		}
		used = number(bytes.TrimSpace(text))
		text, _ = os.ReadFile(names[1])
		if n := number(bytes.TrimSpace(text)); n > 0 && n < limit {
			limit = n
		}
		break
	}
	return used, limit, memInfo("Cached:")
}

func memInfo(field string) int64 {
	text, _ := os.ReadFile("/proc/meminfo")
	for _, line := range strings.Split(string(text), "\n") {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == field {
			return number([]byte(fields[1])) << 10
		}
	}
	return 0
}

func disk() (used, total int64) {
	var fs unix.Statfs_t
	if unix.Statfs("/", &fs) != nil {
		return 0, 0
	}
	return int64(fs.Blocks-fs.Bfree) * fs.Bsize, int64(fs.Blocks) * fs.Bsize
}

// cpuMeter turns processor time into a share of the time since the last call.
type cpuMeter struct {
	mu   sync.Mutex
	at   time.Time
	used time.Duration
}

func (m *cpuMeter) percent(used time.Duration, now, started time.Time) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	since := m.at
	if since.IsZero() {
		since = started
	}
	elapsed, spent := now.Sub(since), used-m.used
	m.at, m.used = now, used
	if elapsed <= 0 || spent < 0 {
		return 0
	}
	return float64(spent*10000/elapsed/time.Duration(runtime.NumCPU())) / 100
}

// metrics answers in envd's format.
func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	now, sum := time.Now(), takeSample()
	used, limit, cache := memory(sum.mem)
	diskUsed, diskTotal := disk()
	connect.WriteJSON(w, http.StatusOK, map[string]any{
		"ts": now.Unix(), "cpu_count": runtime.NumCPU(), "cpu_used_pct": s.cpu.percent(sum.cpu, now, *s.started.Load()),
		"mem_used": used, "mem_total": limit, "mem_cache": cache, "disk_used": diskUsed, "disk_total": diskTotal,
	})
}

func (s *Server) usage(w http.ResponseWriter, _ *http.Request) {
	sum := takeSample()
	used, limit, _ := memory(sum.mem)
	diskUsed, diskTotal := disk()
	alive := 0
	for _, p := range s.processes.All() {
		if p.Exit() == nil {
			alive++
		}
	}
	connect.WriteJSON(w, http.StatusOK, map[string]int64{
		"cpuMs": sum.cpu.Milliseconds(), "memBytes": used, "memLimitBytes": limit,
		"pids": int64(sum.pids), "processes": int64(alive), "diskUsedBytes": diskUsed, "diskTotalBytes": diskTotal,
		"uptimeMs": time.Since(*s.started.Load()).Milliseconds(), "idleForMs": s.Lease.IdleFor().Milliseconds(),
	})
}
