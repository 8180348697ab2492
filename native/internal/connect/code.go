// Package connect is the part of the Connect protocol that envd's clients use: JSON over HTTP/1.1, unary
// calls, server streams and client streams.
package connect

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"syscall"
)

// Code is one of Connect's error codes.
type Code string

const (
	Canceled           Code = "canceled"
	InvalidArgument    Code = "invalid_argument"
	DeadlineExceeded   Code = "deadline_exceeded"
	NotFound           Code = "not_found"
	AlreadyExists      Code = "already_exists"
	PermissionDenied   Code = "permission_denied"
	ResourceExhausted  Code = "resource_exhausted"
	FailedPrecondition Code = "failed_precondition"
	Unimplemented      Code = "unimplemented"
	Internal           Code = "internal"
	Unavailable        Code = "unavailable"
	DataLoss           Code = "data_loss"
	Unauthenticated    Code = "unauthenticated"
)

var statusOf = map[Code]int{
	Canceled:           499,
	InvalidArgument:    http.StatusBadRequest,
	DeadlineExceeded:   http.StatusGatewayTimeout,
	NotFound:           http.StatusNotFound,
	AlreadyExists:      http.StatusConflict,
	PermissionDenied:   http.StatusForbidden,
	ResourceExhausted:  http.StatusTooManyRequests,
	FailedPrecondition: http.StatusBadRequest,
	Unimplemented:      http.StatusNotImplemented,
	Internal:           http.StatusInternalServerError,
	Unavailable:        http.StatusServiceUnavailable,
	DataLoss:           http.StatusInternalServerError,
	Unauthenticated:    http.StatusUnauthorized,
}

// Error is what a caller sees. Status replaces the code's own HTTP status if plain HTTP has a better one.
type Error struct {
	Code    Code
	Message string
	Status  int
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// HTTPStatus is the status of a unary or plain answer that carries the error.
func (e *Error) HTTPStatus() int {
	if e.Status != 0 {
		return e.Status
	}
	return statusOf[e.Code]
}

// Errorf makes an Error.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// TooLarge is the error for a body or an archive above a limit.
func TooLarge(format string, args ...any) *Error {
	e := Errorf(ResourceExhausted, format, args...)
	e.Status = http.StatusRequestEntityTooLarge
	return e
}

// AsError gives any error a code: an Error passes through, an errno becomes a code that a caller can act on,
// and everything else is internal.
func AsError(err error) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return TooLarge("the body is larger than %d bytes", tooLarge.Limit)
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return Errorf(Internal, "%v", err)
	}
	e := Errorf(codeOfErrno(errno), "%v", err)
	if errno == syscall.ENOSPC || errno == syscall.EDQUOT {
		e.Status = http.StatusInsufficientStorage
	}
	return e
}

func codeOfErrno(errno syscall.Errno) Code {
	switch errno {
	case syscall.ENOTDIR, syscall.EISDIR, syscall.ELOOP, syscall.ENAMETOOLONG, syscall.EINVAL, syscall.ENXIO, syscall.EXDEV:
		return InvalidArgument
	case syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EAGAIN, syscall.EFBIG:
		return ResourceExhausted
	case syscall.EROFS, syscall.EBUSY, syscall.ENOTEMPTY, syscall.ETXTBSY:
		return FailedPrecondition
	case syscall.ENOTSUP, syscall.ENOSYS:
		return Unimplemented
	}
	switch {
	case errno.Is(fs.ErrNotExist):
		return NotFound
	case errno.Is(fs.ErrExist):
		return AlreadyExists
	case errno.Is(fs.ErrPermission):
		return PermissionDenied
	}
	return Internal
}
