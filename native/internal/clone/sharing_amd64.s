#include "textflag.h"

// func cloneSharing(flags uintptr, stack *byte, p *plan) (pid uintptr, errno syscall.Errno)
//
// R12 survives the system call, in both processes. The child keeps the thread pointer of the caller, and so
// the g that Go's functions find there.
TEXT ·cloneSharing(SB), NOSPLIT, $0-40
	MOVQ flags+0(FP), DI
	MOVQ stack+8(FP), SI
	MOVQ p+16(FP), R12
	XORQ DX, DX
	XORQ R10, R10
	XORQ R8, R8
	MOVQ $56, AX // SYS_clone
	SYSCALL
	TESTQ AX, AX
	JZ   inChild
	CMPQ AX, $0xfffffffffffff001
	JCS  started
	NEGQ AX
	MOVQ $0, pid+24(FP)
	MOVQ AX, errno+32(FP)
	RET
started:
	MOVQ AX, pid+24(FP)
	MOVQ $0, errno+32(FP)
	RET
inChild:
	ANDQ $~15, SP
	SUBQ $16, SP
	MOVQ R12, 0(SP)
	CALL ·child(SB)
	INT  $3 // child does not return.
