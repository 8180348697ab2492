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
