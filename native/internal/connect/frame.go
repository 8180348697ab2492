package connect

import (
	"encoding/binary"
	"io"
)

// A stream is a sequence of frames: one byte of flags, four bytes of length (big endian), and that many bytes
// of JSON.
const (
	frameHeader    = 5
	flagCompressed = 1
	flagEnd        = 2
)

// MaxMessage bounds one request message. Input for a process comes in messages; files do not.
const MaxMessage = 4 << 20

// readFrame reads one frame. io.EOF means that the stream ended cleanly between frames.
func readFrame(r io.Reader) (flags byte, payload []byte, err error) {
	var header [frameHeader]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		if err == io.ErrUnexpectedEOF {
			err = Errorf(InvalidArgument, "the stream ends inside a frame header")
		}
		return 0, nil, err
	}
	flags = header[0]
	size := binary.BigEndian.Uint32(header[1:])
	if flags&^(flagCompressed|flagEnd) != 0 {
		return 0, nil, Errorf(InvalidArgument, "unknown frame flags %#x", flags)
	}
	if size > MaxMessage {
		return 0, nil, TooLarge("a message of %d bytes is larger than %d", size, MaxMessage)
	}
	// A wrong length must not make podd reserve memory for bytes that never come.
	payload, err = io.ReadAll(io.LimitReader(r, int64(size)))
	if err != nil {
		return 0, nil, err
	}
	if len(payload) != int(size) {
		return 0, nil, Errorf(InvalidArgument, "the stream ends inside a message")
	}
	return flags, payload, nil
}

// beginFrame appends space for a header; endFrame fills it in after the payload is appended.
func beginFrame(buf []byte, flags byte) []byte { return append(buf, flags, 0, 0, 0, 0) }

func endFrame(buf []byte) []byte {
	binary.BigEndian.PutUint32(buf[1:frameHeader], uint32(len(buf)-frameHeader))
	return buf
}
