"""Starts the peers of the benchmarks and measures them, without the time that Node's spawn adds.

Reads one JSON request a line and answers each with one line. Programs are started with posix_spawn, which
uses vfork. A request with "bundle" gets for each run a bundle of its own: an overlay on "lower" as its root
and a cgroup below "group"; the words {id} and {bundle} of "argv" are replaced. Making and removing these is
part of the time.

    {"do": "life", "argv": [...]}                   -> {"firstOutputMs": 1.5, "lifeMs": 1.7}
    {"do": "command", "argv": [...]}                -> {"lifeMs": 1.7}, without waiting for output
    {"do": "together", "argv": [...], "count": 100} -> both times, until the last of them
    {"do": "loop", "argv": [...], "count": 50}      -> {"eachMs": 1.7, "processorMs": 1.1}

At the end of its input it removes everything that is left. It ignores the signals of a terminal, because the
benchmark decides when to end.
"""

import ctypes
import json
import os
import resource
import select
import shutil
import signal
import sys
import time

LIBC = ctypes.CDLL(None, use_errno=True)
MNT_DETACH = 2
IGNORED = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
CGROUPS = "/sys/fs/cgroup"
# Standard error of whichever programs run; shown if one fails.
COMPLAINTS = os.memfd_create("complaints")

running = set()
groups = set()
count = 0


def now():
    return time.monotonic() * 1000


def mount_overlay(lower, directory):
    options = f"lowerdir={lower},upperdir={directory}/upper,workdir={directory}/workdir"
    target = f"{directory}/rootfs"
    if LIBC.mount(b"overlay", target.encode(), b"overlay", 0, options.encode()) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"mount of an overlay: {os.strerror(number)}")


def unmount(target):
    if LIBC.umount2(target.encode(), 0) != 0:
        LIBC.umount2(target.encode(), MNT_DETACH)


class Run:
    """One program from its preparation until it is gone."""

    def __init__(self, request):
        global count
        count += 1
        self.start = now()
        self.pid = None
        self.output = None
        self.directory = None
        running.add(self)
        name = f"bench-{os.getpid()}-{count}"
        bundle = request.get("bundle")
        if bundle:
            self.make(bundle, name)
        words = {"{id}": name, "{bundle}": self.directory}
        argv = [words.get(word, word) for word in request["argv"]]
        self.output, writer = os.pipe()
        try:
            self.pid = os.posix_spawn(
                argv[0],
                argv,
                {**os.environ, **request.get("env", {})},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, writer, 1),
                    (os.POSIX_SPAWN_DUP2, COMPLAINTS, 2),
                ],
                setsigdef=IGNORED,
            )
        finally:
            os.close(writer)

    def make(self, bundle, name):
        self.directory = f"{bundle['directory']}/{name}"
        for part in ("", "/rootfs", "/upper", "/workdir"):
            os.mkdir(self.directory + part)
        # The root of the container may write to its root.
        os.chown(f"{self.directory}/upper", bundle["owner"], bundle["owner"])
        mount_overlay(bundle["lower"], self.directory)
        groups.add(bundle["group"])
        config = bundle["config"]
        linux = {**config["linux"], "cgroupsPath": f"/{bundle['group']}/{name}"}
        with open(f"{self.directory}/config.json", "w") as file:
            json.dump({**config, "linux": linux}, file)

    def read(self):
        return os.read(self.output, 65536)

    def finish(self):
        """Waits for the end and removes everything. Returns the exit code."""
        while self.read():
            pass
        _, status = os.waitpid(self.pid, 0)
        self.pid = None
        self.remove()
        return os.waitstatus_to_exitcode(status)

    def remove(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = None
        if self.output is not None:
            os.close(self.output)
            self.output = None
        if self.directory:
            unmount(f"{self.directory}/rootfs")
            shutil.rmtree(self.directory)
        running.discard(self)


def expect(code, request):
    if code != 0:
        text = os.pread(COMPLAINTS, 2000, 0).decode(errors="replace").strip()
        raise RuntimeError(f"{os.path.basename(request['argv'][0])} gave {code}: {text}")


def life(request):
    run = Run(request)
    has_output = bool(run.read())
    first = now() - run.start
    expect(run.finish(), request)
    if not has_output:
        raise RuntimeError("no output")
    return {"firstOutputMs": first, "lifeMs": now() - run.start}


def command(request):
    run = Run(request)
    expect(run.finish(), request)
    return {"lifeMs": now() - run.start}


def together(request):
    start = now()
    waiting = {}
    poll = select.poll()
    for _ in range(request["count"]):
        run = Run(request)
        waiting[run.output] = run
        poll.register(run.output, select.POLLIN)
    silent = set(waiting)
    first = None
    while waiting:
        for output, _ in poll.poll():
            if waiting[output].read():
                silent.discard(output)
                if not silent and first is None:
                    first = now() - start
                continue
            poll.unregister(output)
            expect(waiting.pop(output).finish(), request)
    if first is None:
        raise RuntimeError("no output")
    return {"firstOutputMs": first, "lifeMs": now() - start}


def processor_ms():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used) * 1000


def loop(request):
    lives = request["count"]
    before, start = processor_ms(), now()
    for _ in range(lives):
        life(request)
    return {"eachMs": (now() - start) / lives, "processorMs": (processor_ms() - before) / lives}


def remove_groups():
    """In every hierarchy. Where one is hidden, crun makes plain directories instead."""
    for name in groups:
        for parent in [CGROUPS, *(entry.path for entry in os.scandir(CGROUPS) if entry.is_dir())]:
            if not os.path.ismount(parent):
                shutil.rmtree(f"{parent}/{name}", ignore_errors=True)
            for directory, _, _ in os.walk(f"{parent}/{name}", topdown=False):
                try:
                    os.rmdir(directory)
                except OSError as error:
                    print(f"{directory}: {error.strerror}", file=sys.stderr)


def main():
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    verbs = {"life": life, "command": command, "together": together, "loop": loop}
    try:
        for line in sys.stdin:
            os.ftruncate(COMPLAINTS, 0)
            os.lseek(COMPLAINTS, 0, os.SEEK_SET)
            request = json.loads(line)
            try:
                answer = verbs[request["do"]](request)
            except (OSError, RuntimeError) as error:
                answer = {"error": str(error)}
                for run in list(running):
                    run.remove()
            print(json.dumps(answer), flush=True)
    finally:
        for run in list(running):
            run.remove()
        remove_groups()


main()
