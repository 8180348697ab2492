// Package hostproto is the wire form of spec/host-protocol.md: requests, answers and errors.
package hostproto

import (
	"errors"
	"fmt"
	"syscall"
)

// Error codes, the closed list shared with every other part of AgentPod.
const (
	InvalidArgument    = "invalid_argument"
	NotFound           = "not_found"
	AlreadyExists      = "already_exists"
	Conflict           = "conflict"
	FailedPrecondition = "failed_precondition"
	Unsupported        = "unsupported"
	ResourceExhausted  = "resource_exhausted"
	DeadlineExceeded   = "deadline_exceeded"
	DataLoss           = "data_loss"
	Unavailable        = "unavailable"
	Internal           = "internal"
)

// Error is the answer to a failed request.
type Error struct {
	Code    string `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// Errorf makes an Error; reason is a stable dotted string.
func Errorf(code, reason, format string, args ...any) *Error {
	return &Error{Code: code, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// WithHint adds advice.
func (e *Error) WithHint(hint string) *Error {
	e.Hint = hint
	return e
}

// AsError gives any error a code. A full disk has its own code wherever it happens; an error without a better
// code is internal.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return Errorf(ResourceExhausted, "disk.full", "%v", err).WithHint("free space on the disk that holds the state directory")
	}
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return Errorf(ResourceExhausted, "host.files", "%v", err).WithHint("raise the limit on open files and start podhost again")
	}
	return Errorf(Internal, "host.failed", "%v", err)
}
