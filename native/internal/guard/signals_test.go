package guard

import (
	"os"
	"os/signal"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAFloodOfSignalsIsHandledAndItsQueueIsBounded(t *testing.T) {
	var before, after unix.Rlimit
	unix.Getrlimit(unix.RLIMIT_SIGPENDING, &before)
	if before.Cur <= queueLimit {
		t.Skipf("this process may queue %d signals only", before.Cur)
	}
	if _, err := TakeSignals(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		signal.Reset()
		unix.Setrlimit(unix.RLIMIT_SIGPENDING, &before)
	})
	unix.Getrlimit(unix.RLIMIT_SIGPENDING, &after)
	if after.Cur != queueLimit || after.Max != before.Max {
		t.Fatalf("%+v became %+v", before, after)
	}
	most := 0
	for i := 0; i < 50*queueLimit; i++ {
		for _, number := range []int{32, 34, 40, int(unix.SIGTERM), int(unix.SIGSEGV)} {
			// The test ends here if the signal is not handled.
			if err := unix.Kill(os.Getpid(), unix.Signal(number)); err != nil {
				t.Fatal(err)
			}
		}
		if i%queueLimit == 0 {
			if now := waiting(t); now > most {
				most = now
			}
		}
	}
	// The kernel counts all processes of the user, and its own signals may exceed the limit.
	if most > 2*queueLimit {
		t.Fatalf("%d signals wait", most)
	}
}

// waiting is how many signals are pending for this user.
func waiting(t *testing.T) int {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\nSigQ:\t")
	count, _, _ := strings.Cut(rest, "/")
	n, err := strconv.Atoi(count)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
