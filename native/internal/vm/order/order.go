// Package order has what the supervisor of a virtual machine asks of its first process, vminit. Each request
// is one line of JSON on a stream of its own, and so is the answer.
package order

import (
	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/netns"
)

// Operations.
const (
	// Begin gives a machine in its blank root the files, the name and the limits of a sandbox.
	Begin = "begin"
	// Renew gives a machine that continues from saved memory an identity of its own.
	Renew = "renew"
	// Prepare gives it one for the time until Renew. Its programs stay frozen.
	Prepare = "prepare"
	// Sync writes to the disk what programs have written. A Freeze right after it takes less time.
	Sync = "sync"
	// Freeze stops every program and writes everything to the disk. Programs continue after Thaw or Renew.
	Freeze = "freeze"
	Thaw   = "thaw"
	// Wait is answered when podd has ended.
	Wait = "wait"
	// Ping does nothing.
	Ping = "ping"
)

// A Request has an operation and what it needs.
type Request struct {
	Op string `json:"op"`
	// Identity is for Begin, Renew, Prepare and Thaw.
	Identity *Identity `json:"identity,omitempty"`
	// Sandbox is for Begin.
	Sandbox *Sandbox `json:"sandbox,omitempty"`
}

// Identity is what no two machines share. Thaw uses only the clock.
type Identity struct {
	ClockNs  int64  `json:"clockNs"`
	Seed     []byte `json:"seed,omitempty"`
	BootID   string `json:"bootId,omitempty"`
	Hostname string `json:"hostname,omitempty"`
	// IsSame: the sandbox is the one whose memory was saved, and not a copy.
	IsSame bool `json:"isSame,omitempty"`
}

// A Sandbox says what a machine becomes.
type Sandbox struct {
	// Lowers are the numbers of the read-only disks of the root, topmost first. A layer is a tree. A snapshot
	// has the files of a sandbox, as the upper has.
	Lowers []Lower `json:"lowers"`
	// Upper is the number of the disk that the sandbox writes to. UpperBytes is how large it is.
	Upper      int   `json:"upper"`
	UpperBytes int64 `json:"upperBytes"`
	// Files says whose files are on it: NewFiles, OwnFiles or CopiedFiles of package rootfs.
	Files int `json:"files"`
	// Keep are the mount points of the blank root that move to the sandbox's root. Sizes are the sizes of
	// temporary file systems.
	Keep  []string         `json:"keep"`
	Sizes map[string]int64 `json:"sizes"`
	// Tmpfs are more temporary file systems.
	Tmpfs  []Tmpfs       `json:"tmpfs,omitempty"`
	Limits cgroup.Limits `json:"limits"`
	// OpenFiles is the limit on open files; 0 for none.
	OpenFiles int64 `json:"openFiles,omitempty"`
	// PreparesRoot: podd prepares the root for its settings at once, because other machines continue from
	// this one.
	PreparesRoot bool `json:"preparesRoot,omitempty"`
}

// A Lower is one read-only disk of a root.
type Lower struct {
	Disk       int  `json:"disk"`
	IsSnapshot bool `json:"isSnapshot,omitempty"`
}

// A Tmpfs is a temporary file system at a path of the root.
type Tmpfs struct {
	Path       string `json:"path"`
	SizeBytes  int64  `json:"sizeBytes,omitempty"`
	TakesOwner bool   `json:"takesOwner,omitempty"`
}

// An Answer is the answer to every request.
type Answer struct {
	Error string `json:"error,omitempty"`
	// Network is how connections leave, after Begin and Renew.
	Network netns.Level `json:"network"`
	// Levels are the limits that hold inside, after Begin.
	Levels map[string]cgroup.Level `json:"levels,omitempty"`
	// Code is podd's exit code, after Wait.
	Code int `json:"code"`
}
