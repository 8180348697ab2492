package connect

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestProto3ScalarsParse(t *testing.T) {
	var message struct {
		N Int64 `json:"n"`
		B Bytes `json:"b"`
	}
	for text, want := range map[string]struct {
		n int64
		b string
	}{
		`{"n":"12","b":"aGk="}`:          {12, "hi"},
		`{"n":-3,"b":"aGk"}`:             {-3, "hi"},
		`{"n":null,"b":"-_8","other":1}`: {-3, "\xfb\xff"},
	} {
		if strings.Contains(text, "null") {
			message.N = -3
		}
		if err := Decode([]byte(text), &message); err != nil || int64(message.N) != want.n || string(message.B) != want.b {
			t.Errorf("%s: %v %q %v", text, message.N, message.B, err)
		}
	}
	for _, text := range []string{`{"n":"x"}`, `{"n":1.5}`, `{"b":5}`, `{"b":"*"}`, `{} {}`, `[`, "{\"b\":\"\xff\"}"} {
		if err := Decode([]byte(text), &message); err == nil || AsError(err).Code != InvalidArgument {
			t.Errorf("%q passes: %v", text, err)
		}
	}
	if out, _ := json.Marshal(Int64(7)); string(out) != `"7"` {
		t.Errorf("int64 leaves as %s", out)
	}
}

func TestOtherContentTypesAnswer415(t *testing.T) {
	r := httptest.NewRequest("POST", "/", strings.NewReader("{}"))
	r.Header.Set("Content-Type", "application/proto")
	if err := ReadUnary(r, new(struct{})); err == nil || AsError(err).HTTPStatus() != 415 {
		t.Fatal(err)
	}
	if err := ReadStream(r, new(struct{})); err == nil || AsError(err).HTTPStatus() != 415 {
		t.Fatal(err)
	}
}

func TestErrnoBecomesACode(t *testing.T) {
	for errno, want := range map[syscall.Errno]Code{
		syscall.ENOENT: NotFound, syscall.EEXIST: AlreadyExists, syscall.EACCES: PermissionDenied,
		syscall.ENOSPC: ResourceExhausted, syscall.ENOTDIR: InvalidArgument, syscall.EROFS: FailedPrecondition, syscall.EIO: Internal,
	} {
		if e := AsError(&os.PathError{Op: "open", Path: "x", Err: errno}); e.Code != want || e.HTTPStatus() == 0 {
			t.Errorf("%v is %v with %d", errno, e.Code, e.HTTPStatus())
		}
	}
}
