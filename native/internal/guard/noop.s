#include "textflag.h"

// noop is a signal handler in C's calling convention: it returns to the kernel's return stub and touches nothing, so
// it may run at any moment on any thread.
TEXT ·noop(SB), NOSPLIT|NOFRAME, $0-0
	RET

// noopAddress is the handler itself. A Go func value would lead to a wrapper that expects to be called from Go.
DATA ·noopAddress+0(SB)/8, $·noop(SB)
GLOBL ·noopAddress(SB), RODATA|NOPTR, $8
