package cgroup

import "runtime"

// Group.Start ends the thread that it uses. Go cannot end the main thread, so the main goroutine keeps it.
func init() { runtime.LockOSThread() }
