// Package seccomp holds the one filter that podd and every payload run under.
package seccomp

import (
	"sort"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data. Arguments are 64 bits wide; the low half of each comes first on both
// architectures.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

const (
	retAllow = 0x7fff0000
	retErrno = 0x00050000
	// x32Bit marks the calls of the x32 interface, which shares the architecture number of amd64.
	x32Bit = 0x40000000
)

// namespaceFlags are the CLONE_NEW* flags that clone takes.
const namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// personalities are those that change nothing about protection: Linux, Linux 32, each with UNAME26; and the
// query.
var personalities = []uint32{0, 0x0008, 0x20000, 0x20008, 0xffffffff}

type code = []unix.SockFilter

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func loadArg(index uint32) unix.SockFilter { return load(offsetArgs + 8*index) }

func answer(value uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: value}
}

func fail(errno unix.Errno) unix.SockFilter { return answer(retErrno | uint32(errno)) }

func jump(test uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | test, Jt: yes, Jf: no, K: k}
}

// when returns match if the loaded word equals one of the values, and rest otherwise.
func when(values []uint32, match unix.SockFilter, rest ...unix.SockFilter) code {
	var out code
	for _, value := range values {
		out = append(out, jump(unix.BPF_JEQ, value, 0, 1), match)
	}
	return append(out, rest...)
}

const (
	prSetSeccomp       = 22
	seccompSetFilter   = 1
	seccompModeFilter  = 2
	setsockoptLevelArg = 1
	setsockoptNameArg  = 2
)

// programOptions attach a program of the caller to a socket.
var programOptions = []uint32{unix.SO_ATTACH_FILTER, unix.SO_ATTACH_BPF, unix.SO_ATTACH_REUSEPORT_CBPF, unix.SO_ATTACH_REUSEPORT_EBPF}

// special are the calls whose arguments decide.
func special() map[int]code {
	allow, refuse := answer(retAllow), fail(unix.EPERM)
	// SECURITY: attack case PR-11; the kernel loads no module for a family that nobody can use. Netlink is
	// only for the routing tables, which name resolution and `ip` read.
	family := append(code{loadArg(0)}, when([]uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6}, allow,
		jump(unix.BPF_JEQ, unix.AF_NETLINK, 1, 0), fail(unix.EAFNOSUPPORT),
		loadArg(2), jump(unix.BPF_JEQ, unix.NETLINK_ROUTE, 0, 1), allow, fail(unix.EAFNOSUPPORT))...)
	// SECURITY: RS-14. The kernel compiles every filter of a socket or a process, and one limit for the whole
	// machine (net.core.bpf_jit_limit) counts the result. If a payload filled it, no sandbox could start and
	// no program of an ordinary user could filter. So a payload cannot install filters. seccomp and prctl
	// answer like a kernel that was built without filters (EINVAL), which programs can handle.
	noFilters := fail(unix.EINVAL)
	return map[int]code{
		unix.SYS_SETSOCKOPT: append(code{loadArg(setsockoptLevelArg), jump(unix.BPF_JEQ, unix.SOL_SOCKET, 1, 0), allow,
			loadArg(setsockoptNameArg)}, when(programOptions, refuse, allow)...),
		unix.SYS_SECCOMP: append(code{loadArg(0)}, when([]uint32{seccompSetFilter}, noFilters, allow)...),
		unix.SYS_PRCTL: append(code{loadArg(0), jump(unix.BPF_JEQ, prSetSeccomp, 1, 0), allow,
			loadArg(1)}, when([]uint32{seccompModeFilter}, noFilters, allow)...),
		// SECURITY: attack case PR-03.
		unix.SYS_CLONE: {loadArg(0), jump(unix.BPF_JSET, namespaceFlags, 1, 0), allow, refuse},
		// clone3 has its flags in memory, which a filter cannot read; libraries fall back to clone.
		unix.SYS_CLONE3:     {fail(unix.ENOSYS)},
		unix.SYS_SOCKET:     family,
		unix.SYS_SOCKETPAIR: family,
		// SECURITY: attack case PR-16. The kernel reads only the low 32 bits of the request, and so does
		// this.
		unix.SYS_IOCTL:       append(code{loadArg(1)}, when([]uint32{unix.TIOCSTI, unix.TIOCLINUX}, refuse, allow)...),
		unix.SYS_PERSONALITY: append(code{loadArg(0)}, when(personalities, allow, refuse)...),
	}
}

// stretch is a range of call numbers from first on that have the same answer.
type stretch struct {
	first   uint32
	verdict code
}

// stretches covers all numbers in order.
func stretches(also []int) []stretch {
	verdicts := special()
	for _, list := range [][]int{allowed, archAllowed} {
		for _, number := range list {
			verdicts[number] = code{answer(retAllow)}
		}
	}
	for _, list := range [][]int{denied, archDenied} {
		for _, number := range list {
			verdicts[number] = code{fail(unix.EPERM)}
		}
	}
	for _, number := range also {
		verdicts[number] = code{answer(retAllow)}
	}
	numbers := make([]int, 0, len(verdicts))
	for number := range verdicts {
		numbers = append(numbers, number)
	}
	sort.Ints(numbers)
	out := []stretch{{0, code{fail(unix.ENOSYS)}}}
	add := func(first int, verdict code) {
		last := &out[len(out)-1]
		switch {
		case same(last.verdict, verdict):
		case int(last.first) == first:
			last.verdict = verdict
		default:
			out = append(out, stretch{uint32(first), verdict})
		}
	}
	for i, number := range numbers {
		add(number, verdicts[number])
		if i+1 == len(numbers) || numbers[i+1] != number+1 {
			add(number+1, code{fail(unix.ENOSYS)})
		}
	}
	return out
}

func same(a, b code) bool {
	return len(a) == 1 && len(b) == 1 && a[0] == b[0]
}

// search is a binary search over the stretches, because the filter runs on every system call.
func search(from []stretch) code {
	if len(from) == 1 {
		return from[0].verdict
	}
	middle := len(from) / 2
	low, high := search(from[:middle]), search(from[middle:])
	var out code
	if len(low) <= 255 {
		out = append(out, jump(unix.BPF_JGE, from[middle].first, uint8(len(low)), 0))
	} else {
		out = append(out, jump(unix.BPF_JGE, from[middle].first, 0, 1),
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA, K: uint32(len(low))})
	}
	return append(append(out, low...), high...)
}

// Program is the filter. It also allows these calls.
func Program(also ...int) []unix.SockFilter {
	out := code{
		load(offsetArch), jump(unix.BPF_JEQ, auditArch, 1, 0), fail(unix.ENOSYS),
		load(offsetNumber), jump(unix.BPF_JGE, x32Bit, 0, 1), fail(unix.ENOSYS),
	}
	return append(out, search(stretches(also))...)
}
