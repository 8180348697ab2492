package seccomp

import (
	"testing"

	"golang.org/x/sys/unix"
)

// run interprets the instructions that Program uses, as the kernel does.
func run(t *testing.T, program []unix.SockFilter, data map[uint32]uint32) uint32 {
	t.Helper()
	var word uint32
	for pc := 0; pc < len(program); pc++ {
		in := program[pc]
		taken := false
		switch in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			word = data[in.K]
			continue
		case unix.BPF_RET | unix.BPF_K:
			return in.K
		case unix.BPF_JMP | unix.BPF_JA:
			pc += int(in.K)
			continue
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			taken = word == in.K
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			taken = word >= in.K
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			taken = word&in.K != 0
		default:
			t.Fatalf("instruction %d has code %#x", pc, in.Code)
		}
		if taken {
			pc += int(in.Jt)
		} else {
			pc += int(in.Jf)
		}
	}
	t.Fatal("the program runs off its end")
	return 0
}

func TestTheFilterDecidesAsTheTablesSay(t *testing.T) {
	program := Program()
	if len(program) > 4096 {
		t.Fatalf("%d instructions", len(program))
	}
	eperm, enosys := uint32(retErrno|unix.EPERM), uint32(retErrno|unix.ENOSYS)
	verdicts := special()
	for number := 0; number < 600; number++ {
		want := enosys
		for _, n := range append(append([]int{}, allowed...), archAllowed...) {
			if n == number {
				want = retAllow
			}
		}
		for _, n := range append(append([]int{}, denied...), archDenied...) {
			if n == number {
				if want == retAllow {
					t.Fatalf("call %d is in both tables", n)
				}
				want = eperm
			}
		}
		if _, judged := verdicts[number]; judged {
			continue
		}
		if got := run(t, program, map[uint32]uint32{offsetNumber: uint32(number), offsetArch: auditArch}); got != want {
			t.Errorf("call %d: %#x, want %#x", number, got, want)
		}
	}
}

func TestArgumentsDecideTheSpecialCalls(t *testing.T) {
	const allow = retAllow
	eperm, enosys, family := uint32(retErrno|unix.EPERM), uint32(retErrno|unix.ENOSYS), uint32(retErrno|unix.EAFNOSUPPORT)
	einval := uint32(retErrno | unix.EINVAL)
	arg := func(i uint32) uint32 { return offsetArgs + 8*i }
	for _, c := range []struct {
		name   string
		number int
		args   map[uint32]uint32
		want   uint32
	}{
		{"a thread", unix.SYS_CLONE, map[uint32]uint32{arg(0): unix.CLONE_VM | unix.CLONE_THREAD}, allow},
		{"a child", unix.SYS_CLONE, map[uint32]uint32{arg(0): uint32(unix.SIGCHLD)}, allow},
		{"a user namespace", unix.SYS_CLONE, map[uint32]uint32{arg(0): unix.CLONE_NEWUSER | uint32(unix.SIGCHLD)}, eperm},
		{"a network namespace", unix.SYS_CLONE, map[uint32]uint32{arg(0): unix.CLONE_NEWNET}, eperm},
		{"clone3", unix.SYS_CLONE3, nil, enosys},
		{"unix socket", unix.SYS_SOCKET, map[uint32]uint32{arg(0): unix.AF_UNIX}, allow},
		{"tcp6 socket", unix.SYS_SOCKET, map[uint32]uint32{arg(0): unix.AF_INET6}, allow},
		{"route netlink", unix.SYS_SOCKET, map[uint32]uint32{arg(0): unix.AF_NETLINK, arg(2): 0}, allow},
		{"audit netlink", unix.SYS_SOCKET, map[uint32]uint32{arg(0): unix.AF_NETLINK, arg(2): unix.NETLINK_AUDIT}, family},
		{"packet socket", unix.SYS_SOCKET, map[uint32]uint32{arg(0): unix.AF_PACKET}, family},
		{"vsock", unix.SYS_SOCKET, map[uint32]uint32{arg(0): unix.AF_VSOCK}, family},
		{"alg socketpair", unix.SYS_SOCKETPAIR, map[uint32]uint32{arg(0): unix.AF_ALG}, family},
		{"window size", unix.SYS_IOCTL, map[uint32]uint32{arg(1): unix.TIOCGWINSZ}, allow},
		{"typing into a terminal", unix.SYS_IOCTL, map[uint32]uint32{arg(1): unix.TIOCSTI}, eperm},
		{"the same with high bits set", unix.SYS_IOCTL, map[uint32]uint32{arg(1): unix.TIOCSTI, arg(1) + 4: 1}, eperm},
		{"console selection", unix.SYS_IOCTL, map[uint32]uint32{arg(1): unix.TIOCLINUX}, eperm},
		{"a socket's filter", unix.SYS_SETSOCKOPT, map[uint32]uint32{arg(1): unix.SOL_SOCKET, arg(2): unix.SO_ATTACH_FILTER}, eperm},
		{"a socket's bpf program", unix.SYS_SETSOCKOPT, map[uint32]uint32{arg(1): unix.SOL_SOCKET, arg(2): unix.SO_ATTACH_BPF}, eperm},
		{"a filter over sockets of one port", unix.SYS_SETSOCKOPT, map[uint32]uint32{arg(1): unix.SOL_SOCKET, arg(2): unix.SO_ATTACH_REUSEPORT_CBPF}, eperm},
		{"the same with high bits set", unix.SYS_SETSOCKOPT, map[uint32]uint32{arg(1): unix.SOL_SOCKET, arg(1) + 4: 1, arg(2): unix.SO_ATTACH_FILTER, arg(2) + 4: 1}, eperm},
		{"a socket's buffer", unix.SYS_SETSOCKOPT, map[uint32]uint32{arg(1): unix.SOL_SOCKET, arg(2): unix.SO_RCVBUF}, allow},
		{"an option of another level", unix.SYS_SETSOCKOPT, map[uint32]uint32{arg(1): unix.IPPROTO_TCP, arg(2): unix.SO_ATTACH_FILTER}, allow},
		{"a filter by seccomp", unix.SYS_SECCOMP, map[uint32]uint32{arg(0): seccompSetFilter}, einval},
		{"strict mode by seccomp", unix.SYS_SECCOMP, map[uint32]uint32{arg(0): 0}, allow},
		{"a filter by prctl", unix.SYS_PRCTL, map[uint32]uint32{arg(0): prSetSeccomp, arg(1): seccompModeFilter}, einval},
		{"strict mode by prctl", unix.SYS_PRCTL, map[uint32]uint32{arg(0): prSetSeccomp, arg(1): 1}, allow},
		{"a name by prctl", unix.SYS_PRCTL, map[uint32]uint32{arg(0): unix.PR_SET_NAME, arg(1): 2}, allow},
		{"personality query", unix.SYS_PERSONALITY, map[uint32]uint32{arg(0): 0xffffffff}, allow},
		{"no address randomisation", unix.SYS_PERSONALITY, map[uint32]uint32{arg(0): 0x0040000}, eperm},
	} {
		data := map[uint32]uint32{offsetNumber: uint32(c.number), offsetArch: auditArch}
		for offset, value := range c.args {
			data[offset] = value
		}
		if got := run(t, Program(), data); got != c.want {
			t.Errorf("%s: %#x, want %#x", c.name, got, c.want)
		}
	}
	for name, data := range map[string]map[uint32]uint32{
		"another architecture": {offsetNumber: unix.SYS_READ, offsetArch: unix.AUDIT_ARCH_I386},
		"the x32 interface":    {offsetNumber: unix.SYS_READ | x32Bit, offsetArch: auditArch},
	} {
		if got := run(t, Program(), data); got != enosys {
			t.Errorf("%s: %#x", name, got)
		}
	}
}
