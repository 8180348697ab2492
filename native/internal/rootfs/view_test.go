package rootfs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"
)

func TestTheHostViewShowsProgramsAndNoPersonalFiles(t *testing.T) {
	home := t.TempDir()
	for _, file := range []string{".cargo/bin/cargo", ".cargo/credentials.toml", ".rustup/settings.toml", ".rustup/toolchains/x/bin/rustc",
		".pyenv/shims/python", ".nvm/versions/node/bin/node", ".ssh/id_ed25519", ".npmrc", ".local/bin/tool"} {
		path := filepath.Join(home, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("canary"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{"HOME": home, "PATH": strings.Join([]string{home + "/.cargo/bin", home + "/.pyenv/shims", home + "/.local/bin", "/snap/bin", "/usr/bin", "relative"}, ":"),
		"JAVA_HOME": "/usr/lib/jvm/x", "GOROOT": "/home/somebody/go"}
	view := FindView(func(name string) string { return env[name] })
	for path, shown := range map[string]bool{
		"/usr/bin": true, "/bin/sh": true, home + "/.cargo/bin/cargo": true, home + "/.rustup/toolchains/x": true, home + "/.pyenv/shims": true,
		home + "/.cargo/credentials.toml": false, home + "/.cargo": false, home + "/.nvm/versions": false, home + "/.ssh": false, home + "/.npmrc": false,
		home + "/.local/bin": false, "/etc": false, "/root": false, "/": false, "/usrx": false,
	} {
		if view.Shows(path) != shown {
			t.Errorf("%s: shown %v", path, !shown)
		}
	}
	if want := home + "/.cargo/bin:" + home + "/.pyenv/shims:/usr/bin:/usr/local/bin:/bin"; view.Env["PATH"] != want {
		t.Errorf("PATH is %s", view.Env["PATH"])
	}
	if view.Env["JAVA_HOME"] == "" || view.Env["GOROOT"] != "" || view.Env["RUSTUP_HOME"] != home+"/.rustup" || view.Env["PYENV_ROOT"] != home+"/.pyenv" {
		t.Errorf("environment %v", view.Env)
	}
	if len(view.Files) != 1 || view.Files[0] != home+"/.rustup/settings.toml" {
		t.Errorf("files %v", view.Files)
	}
}

func TestTheBaseTreeHoldsNothingPrivate(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: the tree has several owners")
	}
	top := t.TempDir()
	secret := filepath.Join(top, "source")
	if err := os.Mkdir(secret, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"public": 0o644, "private": 0o640} {
		if err := os.WriteFile(filepath.Join(secret, name), []byte("canary"), mode); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(top, "base")
	view := FindView(func(string) string { return "" })
	view.Files = []string{filepath.Join(secret, "public"), filepath.Join(secret, "private")}
	if err := buildBase(dir, view, 0, nil); err != nil {
		t.Fatal(err)
	}
	dir += "/" + rootTree
	if _, err := os.Stat(dir + secret + "/public"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{secret + "/private", "/etc/ssl/private", "/etc/gitconfig", "/etc/apt", "/etc/sudoers", "/etc/ssh"} {
		if _, err := os.Lstat(dir + name); err == nil {
			t.Errorf("%s is in the tree", name)
		}
	}
	if data, err := os.ReadFile(dir + "/etc/passwd"); err != nil || string(data) != etcWritten["passwd"] {
		t.Errorf("passwd is not ours: %v", err)
	}
	if before := view.fingerprint(0); before != view.fingerprint(0) || before == view.fingerprint(1) {
		t.Error("the fingerprint is not one")
	}
}

func TestFilesThatNotEveryUserMayReadAreHidden(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("whiteouts need root")
	}
	top := t.TempDir()
	shown := filepath.Join(top, "opt")
	for path, mode := range map[string]os.FileMode{"a/public": 0o644, "a/private": 0o600, "a/group": 0o640, "closed/public": 0o644, "tool": 0o755} {
		full := filepath.Join(shown, path)
		os.MkdirAll(filepath.Dir(full), 0o755)
		if err := os.WriteFile(full, []byte("canary"), mode); err != nil {
			t.Fatal(err)
		}
	}
	os.Symlink("a/private", filepath.Join(shown, "link"))
	os.Chmod(filepath.Join(shown, "closed"), 0o750)
	os.Chmod(filepath.Join(shown, "a"), 0o775)
	hidden, err := FindHidden([]string{shown})
	if err != nil {
		t.Fatal(err)
	}
	sort.Strings(hidden[shown])
	if got := strings.Join(hidden[shown], " "); got != "/a/group /a/private /closed" {
		t.Fatalf("hidden: %s", got)
	}
	mask := filepath.Join(top, "mask")
	if err := buildMask(mask, shown, append(hidden[shown], "/gone/since/file")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/a/private", "/a/group", "/closed"} {
		if info, err := os.Lstat(mask + path); err != nil || info.Mode()&os.ModeCharDevice == 0 {
			t.Errorf("%s is not covered: %v", path, err)
		}
	}
	if info, err := os.Lstat(mask + "/a"); err != nil || info.Mode().Perm() != 0o775 {
		t.Errorf("the way to it looks different: %v", info)
	}
	if _, err := os.Lstat(mask + "/tool"); err == nil {
		t.Error("what everybody may read is covered")
	}
}

func TestPodhostsShareARecentWalk(t *testing.T) {
	shown, walks := t.TempDir(), filepath.Join(t.TempDir(), "walks")
	if err := os.WriteFile(filepath.Join(shown, "private"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	first := &Builder{View: View{Dirs: []string{shown}}, Walks: walks}
	if _, found := first.recentWalk(); found {
		t.Fatal("a walk was found before there was one")
	}
	walked, err := first.walk(func() (Hidden, error) { return findHiddenQuietly([]string{shown}, nil) })
	if err != nil {
		t.Fatal(err)
	}
	second := &Builder{View: View{Dirs: []string{shown}}, Walks: walks}
	if recent, found := second.recentWalk(); !found || recent.Hidden.digest() != walked.Hidden.digest() || len(recent.Hidden[shown]) != 1 {
		t.Errorf("the second podhost found %v of %v", recent, walked)
	}
	other := &Builder{View: View{Dirs: []string{shown, walks}}, Walks: walks}
	if _, found := other.recentWalk(); found {
		t.Error("a podhost that shows other directories took it")
	}
	for name, began := range map[string]time.Time{"old": time.Now().Add(-refreshEvery), "future": time.Now().Add(time.Hour)} {
		data, _ := json.Marshal(walkRecord{Began: began, Hidden: walked.Hidden})
		if err := os.WriteFile(second.walkFile(), data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, found := second.recentWalk(); found {
			t.Errorf("%s: it counts as recent", name)
		}
	}
}
