package gvisor

import (
	"errors"
	"strings"
	"testing"
)

func TestTheCauseIsOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"runsc checkpoint: exit status 128: checkpoint failed: encoding error: gofer.dentry(\"root/home/user/pipe\").beforeSave: " +
			"dead dentry is not saved in fs.savedDeletedOpenDentries (deleted=true, synthetic=true):\ngoroutine 147 [running]:\nmore": //
		"a program has /home/user/pipe open, a named pipe or socket that was removed",
		"runsc checkpoint: exit status 128: encoding error: host.inode is not savable:\ngoroutine 1 [running]:"://
		"runsc checkpoint: exit status 128: encoding error: host.inode is not savable",
		strings.Repeat("x", 5000): strings.Repeat("x", maxCause),
	} {
		if got := CauseOf(errors.New(text)); got != want {
			t.Errorf("%q", got)
		}
	}
}

func TestASummaryHasTheCauseWhereverItIs(t *testing.T) {
	long := strings.Repeat("(*wire.Struct)(0xc06ff39bf0), ", 200)
	for output, want := range map[string]string{
		"error serializing object " + long + ": write: no space left on device\ngoroutine 1:":              "no space left on device",
		long + `gofer.dentry("root/tmp/pipe").beforeSave: dead dentry is not saved, synthetic=true` + long: `gofer.dentry("root/tmp/pipe").beforeSave: dead dentry is not saved, synthetic=true`,
		"\nanother failure\n": "another failure",
	} {
		if got := summary(output); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := summary(long); len(got) > maxSummary {
		t.Errorf("%d bytes", len(got))
	}
}
