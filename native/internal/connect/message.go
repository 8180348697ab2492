package connect

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	unaryType  = "application/json"
	streamType = "application/connect+json"
)

// Int64 is a proto3 int64. It is written as a string, and read from a string or a number.
type Int64 int64

func (n Int64) MarshalJSON() ([]byte, error) {
	return strconv.AppendQuote(nil, strconv.FormatInt(int64(n), 10)), nil
}

func (n *Int64) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	parsed, err := strconv.ParseInt(strings.Trim(string(text), `"`), 10, 64)
	if err != nil {
		return Errorf(InvalidArgument, "%.40s is not a 64 bit integer", text)
	}
	*n = Int64(parsed)
	return nil
}

// Bytes is a proto3 bytes field. proto3 JSON writes standard base64 and reads both alphabets, padded or not.
type Bytes []byte

func (b *Bytes) UnmarshalJSON(text []byte) error {
	var encoded string
	if err := json.Unmarshal(text, &encoded); err != nil {
		return err
	}
	encoded = strings.TrimRight(encoded, "=")
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(encoded, "-_") {
		encoding = base64.RawURLEncoding
	}
	decoded, err := encoding.DecodeString(encoded)
	if err != nil {
		return Errorf(InvalidArgument, "bytes are not base64")
	}
	*b = decoded
	return nil
}

// Decode parses one message. It accepts unknown fields, as proto3 JSON does for newer clients, and refuses
// wrong types.
func Decode(text []byte, into any) error {
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}")
	}
	if !utf8.Valid(text) {
		return Errorf(InvalidArgument, "the message is not UTF-8")
	}
	if err := json.Unmarshal(text, into); err != nil {
		return Errorf(InvalidArgument, "the message cannot be parsed: %v", err)
	}
	return nil
}

// ReadUnary checks the content type of a unary call and parses its body.
func ReadUnary(r *http.Request, into any) error {
	if err := requireType(r, unaryType); err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, MaxMessage+1))
	if err != nil {
		return Errorf(Canceled, "the body ended early: %v", err)
	}
	if len(text) > MaxMessage {
		return TooLarge("the message is larger than %d bytes", MaxMessage)
	}
	if text, err = decompress(text, r.Header.Get("Content-Encoding")); err != nil {
		return err
	}
	return Decode(text, into)
}

// WriteUnary answers a unary call.
func WriteUnary(w http.ResponseWriter, message any, err error) {
	if err != nil {
		WriteError(w, err)
		return
	}
	WriteJSON(w, http.StatusOK, message)
}

// WriteError answers with {"code","message"} and the status of the code.
func WriteError(w http.ResponseWriter, err error) {
	e := AsError(err)
	WriteJSON(w, e.HTTPStatus(), wireError{e.Code, e.Message})
}

// WriteJSON answers with one JSON value and its length, because some clients misread an empty chunked body.
func WriteJSON(w http.ResponseWriter, status int, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"code":"internal"}`)
	}
	w.Header().Set("Content-Type", unaryType)
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	w.Write(text)
}

type wireError struct {
	Code    Code   `json:"code"`
	Message string `json:"message,omitempty"`
}

func requireType(r *http.Request, want string) error {
	got, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if strings.EqualFold(strings.TrimSpace(got), want) {
		return nil
	}
	e := Errorf(Unimplemented, "content type %.80q is not supported; use %s", got, want)
	e.Status = http.StatusUnsupportedMediaType
	return e
}

func decompress(data []byte, encoding string) ([]byte, error) {
	switch encoding {
	case "", "identity":
		return data, nil
	case "gzip":
	default:
		return nil, Errorf(Unimplemented, "encoding %.40q is not supported; use gzip", encoding)
	}
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, Errorf(InvalidArgument, "the message is not valid gzip")
	}
	plain, err := io.ReadAll(io.LimitReader(reader, MaxMessage+1))
	if err != nil {
		return nil, Errorf(InvalidArgument, "the message is not valid gzip")
	}
	if len(plain) > MaxMessage {
		return nil, TooLarge("the message is larger than %d bytes", MaxMessage)
	}
	return plain, nil
}
