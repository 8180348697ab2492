package supervise

import (
	"os"
	"time"
)

const (
	// outputRate is how much of what a machine logs is kept, in each outputSpan.
	outputRate = 64 << 10
	outputSpan = time.Second
)

// logOutput copies what vminit and podd log. SECURITY: a machine may log as fast as it can. What exceeds the
// rate is read and dropped, so that the host's disk and the machine's own programs are not affected.
func (s *machineSupervisor) logOutput() {
	buffer := make([]byte, 16<<10)
	left, begin := outputRate, time.Now()
	for {
		n, err := s.machine.Output().Read(buffer)
		if err != nil {
			return
		}
		if now := time.Now(); now.Sub(begin) > outputSpan {
			left, begin = outputRate, now
		}
		if n > left {
			n = left
		}
		left -= n
		os.Stderr.Write(buffer[:n])
	}
}
