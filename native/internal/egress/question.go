package egress

import (
	"encoding/binary"
	"errors"
	"strings"
)

// Types and codes of DNS that matter here.
const (
	typeA    = 1
	typePTR  = 12
	typeAAAA = 28
	typeOPT  = 41
	typeIXFR = 251
	typeANY  = 255
	classIN  = 1

	codeFormat         = 1
	codeFailure        = 2
	codeNoSuchName     = 3
	codeNotImplemented = 4
	codeRefused        = 5
	// codeBadVersion is for an unknown EDNS version. Its upper bits are in the OPT record.
	codeBadVersion = 16

	headerLength = 12
	maxName      = 253
	maxLabel     = 63
)

// A question is a query that could be parsed.
type question struct {
	id, flags uint16
	// raw is the question as it was sent. It is sent back unchanged, because a program may mix upper and
	// lower case to recognise its answer.
	raw []byte
	// name is in lower case, without the final dot. It is "" for the root and for anything that is not a
	// valid name.
	name        string
	isName      bool
	kind, class uint16
	hasOPT      bool
	version     byte
}

var (
	errSilent = errors.New("not a query")
	errFormat = errors.New("malformed")
)

// parse reads a query. errSilent means that no answer is sent, errFormat that only the header is valid.
func parse(packet []byte) (q question, err error) {
	if len(packet) < headerLength {
		return q, errSilent
	}
	q.id, q.flags = binary.BigEndian.Uint16(packet), binary.BigEndian.Uint16(packet[2:])
	if q.flags&0x8000 != 0 {
		return q, errSilent
	}
	if q.opcode() != 0 {
		return q, nil
	}
	counts := func(i int) uint16 { return binary.BigEndian.Uint16(packet[4+2*i:]) }
	if counts(0) != 1 || counts(1) != 0 || counts(2) != 0 || counts(3) > 1 {
		return q, errFormat
	}
	rest, err := q.readName(packet[headerLength:])
	if err != nil || len(rest) < 4 {
		return q, errFormat
	}
	q.kind, q.class = binary.BigEndian.Uint16(rest), binary.BigEndian.Uint16(rest[2:])
	rest = rest[4:]
	q.raw = packet[headerLength : len(packet)-len(rest)]
	if counts(3) == 1 {
		return q, q.readOPT(rest)
	}
	if len(rest) > 0 {
		return q, errFormat
	}
	return q, nil
}

func (q *question) opcode() uint16 { return q.flags >> 11 & 15 }

// readName reads a name and returns what follows. It refuses compression, which is not used in a question.
func (q *question) readName(data []byte) (rest []byte, err error) {
	var name strings.Builder
	good := true
	for length := 0; ; {
		if len(data) == 0 {
			return nil, errFormat
		}
		size := int(data[0])
		if data = data[1:]; size == 0 {
			break
		}
		if length += 1 + size; size > maxLabel || length > maxName+1 || size > len(data) {
			return nil, errFormat
		}
		if name.Len() > 0 {
			name.WriteByte('.')
		}
		good = writeLabel(&name, data[:size]) && good
		data = data[size:]
	}
	if q.isName = good && name.Len() > 0 && !endsInNumber(name.String()); q.isName {
		q.name = name.String()
	}
	return data, nil
}

// writeLabel writes the label in lower case, and reports whether it is valid.
func writeLabel(to *strings.Builder, label []byte) bool {
	for _, c := range label {
		switch {
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-':
		default:
			return false
		}
		to.WriteByte(c)
	}
	return label[0] != '-' && label[len(label)-1] != '-'
}

// endsInNumber reports whether a careless program would read the name as an IPv4 address: the last label
// consists of digits, or of hexadecimal digits after 0x.
//
// SECURITY: the policy has not checked a name that is dialled as an address (case NW-13).
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	digits := "0123456789"
	if strings.HasPrefix(last, "0x") {
		last, digits = last[2:], "0123456789abcdef"
	}
	return strings.Trim(last, digits) == ""
}

// readOPT reads the one supported additional record, which must be the last in the packet.
func (q *question) readOPT(data []byte) error {
	const fixed = 11
	if len(data) < fixed || data[0] != 0 || binary.BigEndian.Uint16(data[1:]) != typeOPT ||
		len(data) != fixed+int(binary.BigEndian.Uint16(data[9:])) {
		return errFormat
	}
	q.hasOPT, q.version = true, data[6]
	return nil
}
