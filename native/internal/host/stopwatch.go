package host

import (
	"fmt"
	"strings"
	"time"
)

// stopwatch notes how long the steps of an operation take, for the log.
type stopwatch struct {
	start, last time.Time
	laps        []string
}

func newStopwatch() *stopwatch {
	now := time.Now()
	return &stopwatch{start: now, last: now}
}

func (s *stopwatch) lap(name string) {
	now := time.Now()
	s.laps = append(s.laps, fmt.Sprintf("%s %.2f", name, now.Sub(s.last).Seconds()*1e3))
	s.last = now
}

func (s *stopwatch) String() string {
	return fmt.Sprintf("%.2f ms (%s)", time.Since(s.start).Seconds()*1e3, strings.Join(s.laps, ", "))
}
