// Package rootfs assembles a sandbox's root: this machine's tools without its secrets, or a stack of layers.
package rootfs

import (
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// A View is the part of this machine that a `host` root shows: directories mounted at their own paths, single
// files that are copied, and the variables by which tools find each other.
type View struct {
	Dirs  []string
	Files []string
	Links map[string]string
	Env   map[string]string
}

// toolchain is a directory below a user's home that contains installed programs and nothing personal. It is
// shown if the PATH leads into it. extra is shown with it; variable, if set, tells the tools where the
// directory is.
type toolchain struct {
	dir, variable string
	extra         []string
}

// SECURITY: LK-05. This is an allow-list. Of directories with both credentials and programs (~/.cargo,
// ~/.config, ~/.npm), only the parts with programs are shown.
var toolchains = []toolchain{
	{dir: ".pyenv", variable: "PYENV_ROOT"},
	{dir: ".rbenv", variable: "RBENV_ROOT"},
	{dir: ".nvm/versions"},
	{dir: ".volta/bin", extra: []string{".volta/tools"}},
	{dir: ".cargo/bin", extra: []string{".rustup/toolchains", ".rustup/settings.toml"}},
	{dir: "go/bin"},
	{dir: ".bun/bin"},
	{dir: ".deno/bin"},
	{dir: ".sdkman/candidates"},
	{dir: ".asdf/shims", extra: []string{".asdf/installs", ".asdf/bin"}},
	{dir: ".local/share/mise/installs"},
	{dir: ".local/share/pnpm"},
	{dir: ".ghcup/bin", extra: []string{".ghcup/ghc"}},
	{dir: ".dotnet", variable: "DOTNET_ROOT"},
}

// carried are variables that are copied from the environment if they point at something visible.
var carried = []string{"JAVA_HOME", "GOROOT", "DOTNET_ROOT", "RUSTUP_HOME", "PYENV_ROOT", "RBENV_ROOT", "VOLTA_HOME"}

// FindView looks at the host as getenv describes it.
func FindView(getenv func(string) string) View {
	v := View{Links: map[string]string{}, Env: map[string]string{}}
	for _, dir := range []string{"/usr", "/opt"} {
		v.addDir(dir)
	}
	for _, name := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		if target, err := os.Readlink(name); err == nil {
			v.Links[name] = target
		} else {
			v.addDir(name)
		}
	}
	path := filepath.SplitList(getenv("PATH"))
	if home := getenv("HOME"); filepath.IsAbs(home) && home != "/" {
		path = v.addToolchains(filepath.Clean(home), path)
	}
	sort.Strings(v.Dirs)
	v.setEnv(getenv, path)
	return v
}

func (v *View) addDir(path string) bool {
	if info, err := os.Stat(path); err != nil || !info.IsDir() || v.Shows(path) {
		return false
	}
	v.Dirs = append(v.Dirs, path)
	return true
}

// addToolchains returns the part of PATH that is useful inside.
func (v *View) addToolchains(home string, path []string) []string {
	for _, t := range toolchains {
		dir := filepath.Join(home, t.dir)
		used := false
		for _, entry := range path {
			used = used || within(filepath.Clean(entry), dir)
		}
		if !used || !v.addDir(dir) {
			continue
		}
		if t.variable != "" {
			v.Env[t.variable] = dir
		}
		for _, extra := range t.extra {
			file := filepath.Join(home, extra)
			if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
				v.Files = append(v.Files, file)
			} else {
				v.addDir(file)
			}
		}
		if t.dir == ".cargo/bin" {
			v.Env["RUSTUP_HOME"] = filepath.Join(home, ".rustup")
			path = append(rustPrograms(home), path...)
		}
	}
	return path
}

// rustPrograms is the directory of the default toolchain's own programs. rustup's proxies in ~/.cargo/bin
// write to ~/.rustup at every start, which no user inside owns.
func rustPrograms(home string) []string {
	toolchains := filepath.Join(home, ".rustup/toolchains")
	settings, _ := os.ReadFile(filepath.Join(home, ".rustup/settings.toml"))
	for _, line := range strings.Split(string(settings), "\n") {
		key, value, found := strings.Cut(line, "=")
		name := strings.Trim(strings.TrimSpace(value), `"`)
		if found && strings.TrimSpace(key) == "default_toolchain" && name != "" && !strings.Contains(name, "/") {
			return []string{filepath.Join(toolchains, name, "bin")}
		}
	}
	return nil
}

func (v *View) setEnv(getenv func(string) string, path []string) {
	var visible []string
	seen := map[string]bool{}
	for _, entry := range path {
		entry = filepath.Clean(entry)
		if !seen[entry] && v.Shows(entry) {
			visible = append(visible, entry)
		}
		seen[entry] = true
	}
	for _, entry := range []string{"/usr/local/bin", "/usr/bin", "/bin"} {
		if !seen[entry] {
			visible = append(visible, entry)
		}
	}
	v.Env["PATH"] = strings.Join(visible, ":")
	for _, name := range carried {
		if value := getenv(name); value != "" && v.Env[name] == "" && v.Shows(filepath.Clean(value)) {
			v.Env[name] = value
		}
	}
}

// Shows reports whether an absolute path is in the view.
func (v *View) Shows(path string) bool {
	for _, dir := range v.Dirs {
		if within(path, dir) {
			return true
		}
	}
	for link := range v.Links {
		if within(path, link) {
			return true
		}
	}
	return false
}

func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir+"/")
}
