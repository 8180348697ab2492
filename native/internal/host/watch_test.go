package host

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestASignalToPodhostIsNotTakenForASandboxsEnd(t *testing.T) {
	command := exec.Command("sleep", "60")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		command.Process.Kill()
		command.Wait()
	})
	pidfd, err := unix.PidfdOpen(command.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	// The signals go to the thread that polls, which would not notice those that another one takes.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread := unix.Gettid()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				unix.Tgkill(os.Getpid(), thread, unix.SIGCHLD)
			}
		}
	}()
	cut := 0
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end) && cut < 10; {
		if n, _ := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 1); n < 0 {
			cut++
		}
		if hasEnded(pidfd) {
			t.Error("a process that runs is said to have ended")
			break
		}
	}
	close(stop)
	<-stopped
	if cut == 0 {
		t.Error("the control: no poll was cut short")
	}
	command.Process.Kill()
	for end := time.Now().Add(5 * time.Second); !hasEnded(pidfd); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a process that was killed is said to run")
		}
	}
}
