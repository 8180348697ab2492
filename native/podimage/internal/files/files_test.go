package files

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"agentpod/podimage/internal/actions"
)

func TestActionsStayInsideTheRoot(t *testing.T) {
	root, source, outside := t.TempDir(), t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(source, "file"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	// The root and the source have links that lead out of them.
	for _, link := range []string{filepath.Join(root, "out"), filepath.Join(source, "out")} {
		if err := os.Symlink(outside, link); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("s"), 0o644); err != nil {
		t.Fatal(err)
	}
	work := Work{Sources: map[int]string{0: source}, Actions: []actions.Action{
		{Copy: &actions.Copy{Src: "/file", Dest: "/out/copied", Mode: -1, CreateDestPath: true, Timestamp: -1}},
		{Mkdir: &actions.Mkdir{Path: "/out/made", Mode: 0o755, Parents: true, Timestamp: -1}},
		{Mkfile: &actions.Mkfile{Path: "/../../written", Mode: 0o644, Data: []byte("x"), Timestamp: -1}},
	}}
	if err := Apply(context.Background(), root, work); err != nil {
		t.Fatal(err)
	}
	if found, _ := os.ReadDir(outside); len(found) != 1 {
		t.Errorf("files were made outside: %v", found)
	}
	if _, err := os.Stat(filepath.Join(root, "written")); err != nil {
		t.Errorf("the file is not in the root: %v", err)
	}
	through := Work{Sources: map[int]string{0: source}, Actions: []actions.Action{
		{Copy: &actions.Copy{Src: "/out/secret", Dest: "/got", Mode: -1, FollowSymlink: true, CreateDestPath: true, Timestamp: -1}},
	}}
	if err := Apply(context.Background(), root, through); err == nil {
		t.Error("a file outside the source was copied")
	}
}
