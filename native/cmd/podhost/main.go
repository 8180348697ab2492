// podhost is AgentPod's privileged helper on the host. spec/host-protocol.md describes its protocol.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"

	"agentpod/native/internal/cgroup"
	"agentpod/native/internal/descriptor"
	"agentpod/native/internal/enter"
	"agentpod/native/internal/gvisor"
	"agentpod/native/internal/host"
	"agentpod/native/internal/host/lifecycle"
	"agentpod/native/internal/host/shells"
	"agentpod/native/internal/mount"
	"agentpod/native/internal/vm/confine"
	"agentpod/native/internal/vm/drivers"
	"agentpod/native/internal/vm/supervise"

	"golang.org/x/sys/unix"
)

// version is set by the linker.
var version = "dev"

const (
	exitFailure = 1
	exitUsage   = 2
	// exitUnable: this host, or this user on it, lacks something that sandboxes need.
	exitUnable = 3
)

// The main goroutine keeps the main thread to itself. Some goroutines change their thread (into a sandbox's
// namespaces, or to another user) and then let it end. Go cannot end the main thread, and would give it to
// the next goroutine in its changed state.
func init() { runtime.LockOSThread() }

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	args := os.Args[2:]
	var err error
	switch os.Args[1] {
	case "serve":
		err = serve(args)
	case "serve-mapped":
		err = enter.Mapped(append([]string{"serve-inside"}, args...))
	case "serve-joined":
		err = enter.MountNamespace(append([]string{"serve-inside"}, args...))
	case "serve-inside":
		err = serveInside(args)
	case gvisor.SupervisorCommand:
		var code int
		if code, err = gvisor.Supervise(args); err == nil {
			os.Exit(code)
		}
	case supervise.Command:
		var code int
		if code, err = supervise.Supervise(args); err == nil {
			os.Exit(code)
		}
	case confine.Command:
		err = confine.Enter(args)
	case mount.UserNamespaceHelper:
		if len(args) != 1 {
			usage()
		}
		err = mount.RunUserNamespaceHelper(args[0])
	case "version", "--version":
		fmt.Println("podhost", version)
	default:
		usage()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "podhost:", err)
		if unable := (enter.Unable{}); errors.As(err, &unable) {
			os.Exit(exitUnable)
		}
		os.Exit(exitFailure)
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: podhost serve --home DIR --podd FILE [--log FILE] [--shells N] [--runsc FILE] [--kernel DIR --vminit FILE] [--vmm NAME] [--qemu FILE] [--cloud-hypervisor FILE] [--firecracker FILE --jailer FILE]")
	os.Exit(exitUsage)
}

type options struct {
	home, podd, log string
	// runsc is the path of gVisor's program; empty for none.
	runsc string
	// kernel and vminit are what virtual machines need; empty for none.
	kernel, vminit string
	// vmm names the program that runs them, one of vmms by its path. jailer is Firecracker's.
	vmm, jailer string
	vmms        map[string]*string
	rootless    bool
	// noCgroup is the reason why the user's systemd gave no cgroup.
	noCgroup string
	shells   uint
}

func parse(args []string) options {
	var o options
	flags := flag.NewFlagSet("podhost serve", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.home, "home", "", "")
	flags.StringVar(&o.podd, "podd", "", "")
	flags.StringVar(&o.log, "log", "", "")
	flags.StringVar(&o.runsc, "runsc", "", "")
	flags.StringVar(&o.vmm, "vmm", drivers.QEMU, "")
	o.vmms = map[string]*string{}
	for _, name := range []string{drivers.QEMU, drivers.CloudHypervisor, drivers.Firecracker} {
		o.vmms[name] = flags.String(name, "", "")
	}
	flags.StringVar(&o.jailer, "jailer", "", "")
	flags.StringVar(&o.kernel, "kernel", "", "")
	flags.StringVar(&o.vminit, "vminit", "", "")
	flags.BoolVar(&o.rootless, "rootless", false, "")
	flags.StringVar(&o.noCgroup, "no-cgroup", "", "")
	flags.UintVar(&o.shells, "shells", 0, "")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 || !filepath.IsAbs(o.home) || !filepath.IsAbs(o.podd) ||
		filepath.Clean(o.home) == "/" || o.shells > shells.Most {
		usage()
	}
	paths := []string{o.runsc, o.kernel, o.vminit, o.jailer}
	for _, path := range o.vmms {
		paths = append(paths, *path)
	}
	for _, path := range paths {
		if path != "" && !filepath.IsAbs(path) {
			usage()
		}
	}
	o.home, o.podd = filepath.Clean(o.home), filepath.Clean(o.podd)
	return o
}

// serve moves into namespaces of podhost's own, where serveInside continues.
func serve(args []string) error {
	o := parse(args)
	if os.Geteuid() == 0 {
		return enter.MountNamespace(append([]string{"serve-inside"}, args...))
	}
	args = append(args, "--rootless")
	if err := cgroup.AskForScope(os.Getuid()); err != nil {
		args = append(args, "--no-cgroup", err.Error())
	}
	if err := enter.Rejoin(lifecycle.RunningPids(o.home), append([]string{"serve-joined"}, args...)); err != nil {
		return err
	}
	code, err := enter.UserNamespace(append([]string{"serve-mapped"}, args...))
	if err == nil && code != 0 {
		os.Exit(code)
	}
	return err
}

func serveInside(args []string) error {
	// The program that starts podhost may have descriptors that no supervisor and no machine should have.
	if err := descriptor.SealInherited(); err != nil {
		return err
	}
	o := parse(args)
	unix.Umask(0o022)
	lock, err := host.Lock(o.home)
	if err != nil {
		return err
	}
	defer lock.Close()
	output := io.Writer(os.Stderr)
	if o.log != "" {
		file, err := host.OpenLog(o.log)
		if err != nil {
			return err
		}
		defer file.Close()
		output = file
	}
	logger := log.New(output, "", log.LstdFlags|log.Lmicroseconds|log.LUTC)
	if err := enter.PrepareMounts(o.rootless); err != nil {
		return err
	}
	kind, err := drivers.Named(o.vmm)
	if err != nil {
		return err
	}
	vmm := drivers.At(kind, drivers.Programs{Main: *o.vmms[o.vmm], Jailer: o.jailer})
	h, err := host.New(host.Config{Home: o.home, Podd: o.podd, Rootless: o.rootless, NoCgroup: o.noCgroup, Shells: int(o.shells), Runsc: o.runsc,
		VMM: vmm, Kernel: o.kernel, Init: o.vminit, Version: version}, logger)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT)
	signal.Ignore(unix.SIGHUP, unix.SIGPIPE)
	go func() {
		<-signals
		h.Stop()
	}()
	return h.Run(func() { fmt.Println("ready") })
}
