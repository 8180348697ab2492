package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestASandboxTellsWhatChangedSinceItsSnapshot(t *testing.T) {
	d := start(t)
	c := d.dial()
	defer c.close()
	if kind := c.must("hello", map[string]any{})["pool"].(map[string]any)["kind"]; kind == "copy" {
		t.Skip("needs a btrfs pool")
	}
	made := c.create("first", nil)
	for _, name := range []string{"one", "two"} {
		if err := os.MkdirAll(inside(made, "/home/project/dir"), 0o755); err != nil {
			t.Fatal(err)
		}
		put(t, inside(made, filepath.Join("/home/project/dir", name)), name)
	}
	c.must("snapshot.create", map[string]any{"id": "shot1", "owner": "test", "sandbox": "first"})
	expect := func(want, id, path string) {
		t.Helper()
		answer := c.must("sandbox.changes", map[string]any{"id": id, "path": path})
		if got := fmt.Sprintf("%v %q %v", answer["known"], answer["snapshot"], answer["paths"]); got != want {
			t.Errorf("%s %s: %s, want %s", id, path, got, want)
		}
	}
	expect(`false "" []`, "first", "/home/project")
	fork := c.create("fork1", map[string]any{"snapshot": "shot1"})
	expect(`true "shot1" []`, "fork1", "/home/project")
	put(t, inside(fork, "/home/project/dir/two"), "TWO")
	put(t, inside(fork, "/home/elsewhere"), "x")
	expect(`true "shot1" [dir/two]`, "fork1", "/home/project")
	expect(`true "shot1" [two]`, "fork1", "/home/project/dir")
	// These have uppers of their own.
	expect(`false "" []`, "fork1", "/usr/lib")
	expect(`false "" []`, "fork1", "/home/project/../project")
	c.must("sandbox.stop", id("fork1"))
	c.must("sandbox.start", c.args("fork1", nil))
	expect(`true "shot1" [dir/two]`, "fork1", "/home/project")
	c.must("snapshot.remove", id("shot1"))
	expect(`false "" []`, "fork1", "/home/project")
	if _, code := c.call("sandbox.changes", map[string]any{"id": "absent", "path": "/home"}); code != "not_found" {
		t.Errorf("of an absent one: %s", code)
	}
	c.must("sandbox.destroy", id("first"))
	c.must("sandbox.destroy", id("fork1"))
	d.nothingLeft()
}
