package spare

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const record = "record"

func open(t *testing.T) (d *Directories, used string) {
	t.Helper()
	home := t.TempDir()
	used = filepath.Join(home, "used")
	must(t, os.Mkdir(used, 0o700))
	must(t, os.MkdirAll(filepath.Join(home, "spare", "of an earlier process"), 0o700))
	d, err := Open(filepath.Join(home, "spare"), record)
	must(t, err)
	return d, used
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func makeUsed(t *testing.T, used, name, text string) {
	t.Helper()
	must(t, os.Mkdir(filepath.Join(used, name), 0o700))
	must(t, os.WriteFile(filepath.Join(used, name, record), []byte(text), 0o600))
}

func writes(text string) func(string) error {
	return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
}

func spares(t *testing.T, d *Directories) int {
	t.Helper()
	entries, err := os.ReadDir(d.parent)
	must(t, err)
	return len(entries)
}

func TestADirectoryIsKeptErasedAndTakenWithANewRecord(t *testing.T) {
	d, used := open(t)
	if taken, err := d.Take(filepath.Join(used, "a"), writes("new")); taken || err != nil {
		t.Fatalf("taken %v, %v: there is none yet", taken, err)
	}
	makeUsed(t, used, "a", "old and secret")
	if !d.Keep(used, "a") {
		t.Fatal("it was not kept")
	}
	if _, err := os.Lstat(filepath.Join(used, "a")); !os.IsNotExist(err) {
		t.Fatal("it is still there")
	}
	text, err := os.ReadFile(filepath.Join(d.parent, "a", record))
	if must(t, err); strings.TrimSpace(string(text)) != "" {
		t.Fatalf("its record has %q", text)
	}
	taken, err := d.Take(filepath.Join(used, "b"), writes("new"))
	if must(t, err); !taken {
		t.Fatal("it was not taken")
	}
	text, err = os.ReadFile(filepath.Join(used, "b", record))
	if must(t, err); string(text) != "new" || spares(t, d) != 0 {
		t.Fatalf("record %q, %d spares", text, spares(t, d))
	}
}

func TestADirectoryIsNotTakenOverAnother(t *testing.T) {
	d, used := open(t)
	makeUsed(t, used, "a", "one")
	d.Keep(used, "a")
	makeUsed(t, used, "b", "two")
	if taken, err := d.Take(filepath.Join(used, "b"), writes("new")); taken || !errors.Is(err, os.ErrExist) {
		t.Fatalf("taken %v, %v", taken, err)
	}
	text, err := os.ReadFile(filepath.Join(used, "b", record))
	if must(t, err); string(text) != "two" || spares(t, d) != 0 {
		t.Fatalf("record %q, %d spares", text, spares(t, d))
	}
}

func TestARecordThatCannotBeWrittenLeavesNothing(t *testing.T) {
	d, used := open(t)
	makeUsed(t, used, "a", "one")
	d.Keep(used, "a")
	full := func(string) error { return errors.New("no space") }
	if taken, err := d.Take(filepath.Join(used, "b"), full); taken || err != nil {
		t.Fatalf("taken %v, %v", taken, err)
	}
	if _, err := os.Lstat(filepath.Join(used, "b")); !os.IsNotExist(err) || spares(t, d) != 0 {
		t.Fatal("something is left")
	}
}

func TestADirectoryWithMoreThanARecordIsNotKept(t *testing.T) {
	d, used := open(t)
	makeUsed(t, used, "more", "one")
	must(t, os.WriteFile(filepath.Join(used, "more", "exit"), nil, 0o600))
	must(t, os.Mkdir(filepath.Join(used, "empty"), 0o700))
	must(t, os.Mkdir(filepath.Join(used, "link"), 0o700))
	must(t, os.Symlink("/etc/hostname", filepath.Join(used, "link", record)))
	for _, name := range []string{"more", "empty", "link", "absent"} {
		if d.Keep(used, name) || spares(t, d) != 0 {
			t.Errorf("%s was kept", name)
		}
	}
}

func TestALongRecordIsNotKeptForLater(t *testing.T) {
	d, used := open(t)
	makeUsed(t, used, "a", strings.Repeat("x", longest+1))
	if !d.Keep(used, "a") || spares(t, d) != 0 {
		t.Fatal("it must be removed")
	}
	if taken, _ := d.Take(filepath.Join(used, "b"), writes("new")); taken {
		t.Fatal("it was taken")
	}
}

func TestOnlySoManyAreKept(t *testing.T) {
	d, used := open(t)
	for n := 0; n <= most; n++ {
		name := strings.Repeat("n", n+1)
		makeUsed(t, used, name, "one")
		if d.Keep(used, name) != (n < most) {
			t.Fatalf("number %d", n)
		}
	}
}
