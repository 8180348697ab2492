package processes

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestASignalToPodhostIsNotMistakenForTheEndOfAProcess(t *testing.T) {
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
	// The signals must go to the thread that polls: a signal that another thread takes does not interrupt the
	// poll.
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
		if HasEnded(pidfd) {
			t.Error("HasEnded is true for a running process")
			break
		}
	}
	close(stop)
	<-stopped
	if cut == 0 {
		t.Error("the control failed: no poll was interrupted")
	}
	command.Process.Kill()
	for end := time.Now().Add(5 * time.Second); !HasEnded(pidfd); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("HasEnded is false for a killed process")
		}
	}
}

func TestAProcessIsKnownByItsStartTime(t *testing.T) {
	if StartTime(os.Getpid()) == 0 || StartTime(os.Getpid()) != StartTime(os.Getpid()) {
		t.Fatal("this process has no start time")
	}
	if StartTime(1<<30) != 0 {
		t.Fatal("a process that does not exist has a start time")
	}
}

func TestAProcessIsNotAliveFromTheMomentItIsKilled(t *testing.T) {
	for i := 0; i < 50; i++ {
		command := exec.Command("sleep", "60")
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		pid := command.Process.Pid
		started := StartTime(pid)
		if !IsAlive(pid, started) || IsAlive(pid, started+1) {
			t.Error("a running process is not alive, or is taken for another one")
		}
		unix.Kill(pid, unix.SIGKILL)
		if IsAlive(pid, started) {
			t.Error("a killed process is alive")
		}
		command.Wait()
	}
}
