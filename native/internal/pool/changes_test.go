package pool

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A change is made to the files of a sandbox; below is the directory that is asked about.
type change struct {
	name string
	do   func(t *testing.T, below string)
	want []string
	// unknown: the answer is that it is not known.
	unknown bool
}

var someChanges = []change{
	{name: "nothing", do: func(*testing.T, string) {}},
	{name: "a read file", do: func(t *testing.T, below string) {
		_, err := os.ReadFile(filepath.Join(below, "a/one"))
		must(t, err)
	}},
	{name: "a file with the same size and times", do: func(t *testing.T, below string) {
		path := filepath.Join(below, "a/one")
		info, err := os.Lstat(path)
		must(t, err)
		must(t, os.WriteFile(path, []byte("ONE"), 0o600))
		must(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
	}, want: []string{"a/one"}},
	{name: "one byte through a mapping", do: func(t *testing.T, below string) {
		file, err := os.OpenFile(filepath.Join(below, "a/one"), os.O_RDWR, 0)
		must(t, err)
		defer file.Close()
		memory, err := unix.Mmap(int(file.Fd()), 0, 3, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		must(t, err)
		memory[0] = 'x'
		must(t, unix.Munmap(memory))
	}, want: []string{"a/one"}},
	{name: "a new mode", do: func(t *testing.T, below string) {
		must(t, os.Chmod(filepath.Join(below, "a/two"), 0o755))
	}, want: []string{"a/two"}},
	{name: "only times", do: func(t *testing.T, below string) {
		must(t, os.Chtimes(filepath.Join(below, "a/two"), time.Now(), time.Now()))
	}},
	{name: "a removed file and a new one", do: func(t *testing.T, below string) {
		must(t, os.Remove(filepath.Join(below, "a/one")))
		must(t, os.WriteFile(filepath.Join(below, "a/three"), []byte("three"), 0o600))
	}, want: []string{"a/one", "a/three"}},
	{name: "a renamed directory", do: func(t *testing.T, below string) {
		must(t, os.Rename(filepath.Join(below, "a"), filepath.Join(below, "b")))
	}, want: []string{"a", "b"}},
	{name: "a removed directory", do: func(t *testing.T, below string) {
		must(t, os.RemoveAll(filepath.Join(below, "a")))
	}, want: []string{"a"}},
	{name: "two directories that change places", do: func(t *testing.T, below string) {
		a, c, x := filepath.Join(below, "a"), filepath.Join(below, "c"), filepath.Join(below, "x")
		must(t, os.Rename(a, x))
		must(t, os.Rename(c, a))
		must(t, os.Rename(x, c))
	}, want: []string{"a", "c"}},
	{name: "a link in place of a directory", do: func(t *testing.T, below string) {
		must(t, os.RemoveAll(filepath.Join(below, "c")))
		must(t, os.Symlink("/etc", filepath.Join(below, "c")))
	}, want: []string{"c"}},
	{name: "a device in place of a file, as overlay hides one", do: func(t *testing.T, below string) {
		must(t, os.Remove(filepath.Join(below, "a/one")))
		must(t, unix.Mknod(filepath.Join(below, "a/one"), unix.S_IFCHR, 0))
	}, want: []string{"a/one"}},
	{name: "a second name, and then other content", do: func(t *testing.T, below string) {
		must(t, os.Link(filepath.Join(below, "a/one"), filepath.Join(below, "a/again")))
		must(t, os.WriteFile(filepath.Join(below, "a/again"), []byte("other"), 0o600))
	}, unknown: true},
	{name: "a name elsewhere, and then other content", do: func(t *testing.T, below string) {
		must(t, os.Link(filepath.Join(below, "a/one"), filepath.Join(below, "../away")))
		must(t, os.WriteFile(filepath.Join(below, "../away"), []byte("other"), 0o600))
	}, unknown: true},
	{name: "files elsewhere, new ones with two names too", do: func(t *testing.T, below string) {
		away := filepath.Join(below, "../away")
		must(t, os.WriteFile(away, []byte("away"), 0o600))
		must(t, os.Link(away, filepath.Join(below, "../away-2")))
	}},
	{name: "the directory itself is replaced", do: func(t *testing.T, below string) {
		must(t, os.Rename(below, below+"-old"))
		must(t, os.Mkdir(below, 0o700))
	}, unknown: true},
	{name: "a name with a line break", do: func(t *testing.T, below string) {
		must(t, os.WriteFile(filepath.Join(below, "x\ny"), nil, 0o600))
	}, unknown: true},
	{name: "a name that is not text", do: func(t *testing.T, below string) {
		must(t, os.WriteFile(filepath.Join(below, "x\xff"), nil, 0o600))
	}, unknown: true},
	{name: "very many files", do: func(t *testing.T, below string) {
		for i := 0; i <= maxChanges; i++ {
			must(t, os.WriteFile(filepath.Join(below, fmt.Sprint("n", i)), nil, 0o600))
		}
	}, unknown: true},
}

func TestThePoolTellsWhatChangedSinceAClone(t *testing.T) {
	home := t.TempDir()
	inOwnNamespace(t, func() {
		p := open(t, home)
		defer p.Close()
		first, kept := entry(t, p, Sandboxes, "first"), entry(t, p, Snapshots, "kept")
		must(t, p.Create(first, 0))
		const directory = "upper/root/home/project"
		below := filepath.Join(p.Path(first), directory)
		for path, text := range map[string]string{"a/one": "one", "a/two": "two", "a/deep/three": "3", "c/four": "4"} {
			must(t, os.MkdirAll(filepath.Dir(filepath.Join(below, path)), 0o700))
			must(t, os.WriteFile(filepath.Join(below, path), []byte(text), 0o600))
		}
		must(t, p.Clone(first, kept, 0))
		for i, step := range someChanges {
			box := entry(t, p, Sandboxes, fmt.Sprint("box", i))
			must(t, p.Clone(kept, box, 0))
			step.do(t, filepath.Join(p.Path(box), directory))
			found, err := p.Changes(box, kept, directory)
			if step.unknown {
				if !errors.Is(err, ErrUnknown) {
					t.Errorf("%s: %v, %v, want that it is not known", step.name, found, err)
				}
			} else if sort.Strings(found); err != nil || strings.Join(found, " ") != strings.Join(step.want, " ") {
				t.Errorf("%s: %v, %v, want %v", step.name, found, err, step.want)
			}
		}
		if ids := p.IDs(Snapshots); len(ids) != 1 {
			t.Errorf("left behind: %v", ids)
		}
	})
}

func TestAStreamThatIsCutShortIsAnError(t *testing.T) {
	whole := append([]byte(sendMagic+"\x01\x00\x00\x00"),
		9, 0, 0, 0, commandMakeFile, 0, 0, 0, 0, 0, attributePath, 0, 5, 0, 'a', '/', 'o', 'n', 'e',
		0, 0, 0, 0, commandEnd, 0, 0, 0, 0, 0)
	var found []string
	visit := func(command sendCommand) bool {
		found = append(found, command.paths...)
		return true
	}
	if err := readCommands(bytes.NewReader(whole), visit); err != nil || len(found) != 1 || found[0] != "a/one" {
		t.Fatalf("%v, %v", found, err)
	}
	for length := range whole {
		if err := readCommands(bytes.NewReader(whole[:length]), visit); err == nil {
			t.Errorf("%d bytes of %d are accepted", length, len(whole))
		}
	}
	whole[len(sendMagic)+4+12] = 200
	if err := readCommands(bytes.NewReader(whole), visit); err == nil {
		t.Error("an attribute that is longer than its command is accepted")
	}
}
