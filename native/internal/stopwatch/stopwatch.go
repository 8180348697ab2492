// Package stopwatch measures the steps of an operation for the log.
package stopwatch

import (
	"fmt"
	"strings"
	"time"
)

// A Stopwatch records how long each step of an operation takes.
type Stopwatch struct {
	start, last time.Time
	laps        []string
}

// New starts a stopwatch.
func New() *Stopwatch {
	now := time.Now()
	return &Stopwatch{start: now, last: now}
}

// Lap ends the current step and names it.
func (s *Stopwatch) Lap(name string) {
	now := time.Now()
	s.laps = append(s.laps, fmt.Sprintf("%s %.2f", name, now.Sub(s.last).Seconds()*1e3))
	s.last = now
}

func (s *Stopwatch) String() string {
	return fmt.Sprintf("%.2f ms (%s)", time.Since(s.start).Seconds()*1e3, strings.Join(s.laps, ", "))
}
