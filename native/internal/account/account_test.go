package account

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const passwd = `root:x:0:0:root:/root:/bin/bash
# a comment
user:x:1000:1000::/home/user:/bin/bash
short:x:5
user:x:0:0::/second:/bin/sh
huge:x:99999999999:1::/:/bin/sh
minus:x:-1:0::/:/bin/sh
lost:x:7:7::relative:sh
`

func TestOnlyExactLinesOfPasswdCount(t *testing.T) {
	for name, want := range map[string]*User{
		"root":    {UID: 0, Home: "/root"},
		"user":    {UID: 1000, GID: 1000, Home: "/home/user"},
		"lost":    {UID: 7, GID: 7, Home: "/"},
		"short":   nil,
		"huge":    nil,
		"minus":   nil,
		"nobody":  nil,
		"":        nil,
		"ro\not":  nil,
		"root:x":  nil,
		"# a com": nil,
	} {
		got := findUser(strings.NewReader(passwd), name)
		if (got == nil) != (want == nil) {
			t.Errorf("%q: %+v", name, got)
		} else if got != nil && (got.UID != want.UID || got.GID != want.GID || got.Home != want.Home) {
			t.Errorf("%q: %+v", name, got)
		}
	}
}

// IMG-5.
func TestUsersOfImagesMayBeNumbersWithoutAnEntry(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "passwd")
	if err := os.WriteFile(file, []byte(passwd), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, passwd string
		want         *User
	}{
		{"1000", file, &User{Name: "user", UID: 1000, GID: 1000, Home: "/home/user"}},
		{"1000:50", file, &User{Name: "user", UID: 1000, GID: 50, Home: "/home/user"}},
		{"4242", file, &User{Name: "4242", UID: 4242, Home: "/"}},
		{"4242:7", dir + "/none", &User{Name: "4242", UID: 4242, GID: 7, Home: "/"}},
		{"root", dir + "/none", &User{Name: "root", Home: "/root"}},
		{"user", dir + "/none", nil},
		{"nobody", file, nil},
		{"1:2:3", file, nil},
		{"1:", file, nil},
		{"99999999999", file, nil},
	} {
		got, err := lookup(c.name, c.passwd, dir+"/none")
		if (err != nil) != (c.want == nil) {
			t.Errorf("%q: %+v %v", c.name, got, err)
		} else if c.want != nil && (got.Name != c.want.Name || got.UID != c.want.UID || got.GID != c.want.GID || got.Home != c.want.Home) {
			t.Errorf("%q: %+v", c.name, got)
		}
	}
}

func TestGroupsNameTheirMembersExactly(t *testing.T) {
	const group = "sudo:x:27:user,other\nuserx:x:28:userx\nusers:x:100:other,user\nbad:x:oops:user\n"
	got := findGroups(strings.NewReader(group), "user")
	if len(got) != 2 || got[0] != 27 || got[1] != 100 {
		t.Fatalf("%v", got)
	}
}

func TestPathsResolveAsInEnvd(t *testing.T) {
	u := &User{Home: "/home/user"}
	for _, c := range []struct{ name, base, want string }{
		{"", "", "/home/user"},
		{"a/b", "", "/home/user/a/b"},
		{"a", "/srv", "/srv/a"},
		{"~", "/srv", "/home/user"},
		{"~/x/../y", "", "/home/user/y"},
		{"/etc//passwd", "", "/etc/passwd"},
		{"../../..", "", "/"},
	} {
		if got, err := u.Resolve(c.name, c.base); err != nil || got != c.want {
			t.Errorf("%q from %q: %q %v", c.name, c.base, got, err)
		}
	}
	for _, name := range []string{"~root/x", "a\x00b", strings.Repeat("x", 5000)} {
		if got, err := u.Resolve(name, ""); err == nil {
			t.Errorf("%.10q resolves to %.10q", name, got)
		}
	}
}

func FuzzPasswd(f *testing.F) {
	f.Add(passwd, "user")
	f.Fuzz(func(t *testing.T, text, name string) {
		u := findUser(strings.NewReader(text), name)
		if u == nil {
			return
		}
		if u.Name != name || u.UID < 0 || u.GID < 0 || u.Home[0] != '/' || u.Shell[0] != '/' {
			t.Fatalf("%+v", u)
		}
		if full, err := u.Resolve("x", ""); err == nil && full[0] != '/' {
			t.Fatalf("%q", full)
		}
		findGroups(strings.NewReader(text), name)
	})
}
