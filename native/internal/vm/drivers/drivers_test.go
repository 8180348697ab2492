package drivers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentpod/native/internal/hostproto"
)

// script makes a program that says its version.
func script(t *testing.T, name, output string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: a program has to belong to it")
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho '"+output+"'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func installed(t *testing.T, name string, programs Programs) *Installed {
	t.Helper()
	kind, err := Named(name)
	if err != nil {
		t.Fatal(err)
	}
	// These tests are about programs. Whether there is KVM differs from machine to machine.
	kind.NeedsKVM = false
	return At(kind, programs)
}

func TestTheVersionOfEachProgramIsFound(t *testing.T) {
	for _, c := range []struct{ name, output, version, problem string }{
		{QEMU, "QEMU emulator version 7.2.19 (Debian 1:7.2)", "7.2.19 (Debian 1:7.2)", ""},
		{QEMU, "QEMU emulator version 7.1.0", "7.1.0", "QEMU is of version 7.1; virtual machines need 7.2 or later"},
		{QEMU, "QEMU emulator version 10.0.0", "10.0.0", ""},
		{CloudHypervisor, "cloud-hypervisor v51.1.0", "51.1.0", ""},
		{CloudHypervisor, "cloud-hypervisor v50.2", "50.2", "Cloud Hypervisor is of version 50.2; virtual machines need 51.0 or later"},
		{CloudHypervisor, "hello", "", "does not say its version"},
		{Firecracker, "Firecracker v1.12.1", "1.12.1", ""},
		{Firecracker, "Firecracker v1.9.0", "1.9.0", "Firecracker is of version 1.9; virtual machines need 1.12 or later"},
	} {
		programs := Programs{Main: script(t, c.name, c.output), Jailer: script(t, "jailer", "Jailer v"+c.version)}
		version, err := installed(t, c.name, programs).Version()
		if version != c.version || (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%s: %q, %v", c.output, version, err)
		}
	}
}

func TestAMissingProgramIsNamedWithAHint(t *testing.T) {
	for name, variable := range map[string]string{CloudHypervisor: "AGENTPOD_CLOUD_HYPERVISOR", Firecracker: "AGENTPOD_FIRECRACKER"} {
		kind, _ := Named(name)
		_, err := At(kind, Programs{Main: "/does/not/exist"}).Version()
		if failure := hostproto.AsError(err); failure.Message != kind.Title+" is not installed" || !strings.Contains(failure.Hint, variable) {
			t.Errorf("%+v", failure)
		}
	}
}

func TestFirecrackerNeedsTheJailerOfTheSameRelease(t *testing.T) {
	main := script(t, "firecracker", "Firecracker v1.12.1")
	if _, err := installed(t, Firecracker, Programs{Main: main}).Version(); err == nil || !strings.Contains(err.Error(), "jailer is not installed") {
		t.Errorf("%v", err)
	}
	other := Programs{Main: main, Jailer: script(t, "jailer", "Jailer v1.13.0")}
	if _, err := installed(t, Firecracker, other).Version(); err == nil || !strings.Contains(err.Error(), "its jailer of version 1.13.0") {
		t.Errorf("%v", err)
	}
	renamed := Programs{Main: script(t, "fc", "Firecracker v1.12.1"), Jailer: script(t, "jailer", "Jailer v1.12.1")}
	if _, err := installed(t, Firecracker, renamed).Version(); err == nil || !strings.Contains(err.Error(), "does not start") {
		t.Errorf("%v", err)
	}
	// The jailer looks at the file that a link leads to, and not at the link.
	for name, target := range map[string]string{"firecracker": renamed.Main, "fc": main} {
		link := filepath.Join(t.TempDir(), name)
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
		linked := Programs{Main: link, Jailer: renamed.Jailer}
		if _, err := installed(t, Firecracker, linked).Version(); (err == nil) != (target == main) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAReleaseNamesTheProgramAndItsVersion(t *testing.T) {
	seen := map[string]bool{}
	for _, kind := range kinds {
		for _, version := range []string{"1.12.0", "1.12.1"} {
			seen[At(kind, Programs{}).Release(version, "kvm")] = true
		}
	}
	if len(seen) != 2*len(kinds) {
		t.Errorf("%v", seen)
	}
	if found := At(kinds[0], Programs{}).Release("7.2.19", "tcg"); found != fmt.Sprintf("QEMU 7.2.19, devices %d, tcg", kinds[0].Devices) {
		t.Errorf("%s", found)
	}
}

func TestAnUnknownNameIsRefused(t *testing.T) {
	if _, err := Named("xen"); err == nil {
		t.Error("there is a driver for xen")
	}
}
