"""Drives the Python SDK over the same ground as js/ and prints a line of JSON for each case. The names are those of js/, so that
the page of results has one row for both."""

import json
import os
import subprocess
import sys
import threading
import time
import traceback
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone

import e2b
from e2b import (
    AuthenticationException,
    CommandExitException,
    InvalidArgumentException,
    NotFoundException,
    PtySize,
    Sandbox,
    SandboxException,
    SandboxQuery,
    SandboxState,
    TimeoutException,
)

OTHER_KEY = os.environ["OTHER_API_KEY"]
SCHEME = os.environ.get("PREVIEW_SCHEME", "http")
AT_ONCE = 4
CASES = []
MADE = []
BYTES = bytes([0, 255, 10, 13, 128, 0])


def case(name):
    def keep(work):
        CASES.append((name, work))
        return work

    return keep


def create(*args, **options):
    sandbox = Sandbox.create(*args, **options)
    MADE.append(sandbox)
    return sandbox


def fails(error_class, words, work, *args, **options):
    try:
        value = work(*args, **options)
    except error_class as error:
        assert words in str(error), f"{words!r} is not in {error}"
        return error
    raise AssertionError(f"it succeeded with {value!r}")


def until(what, condition, limit=10):
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, f"still waiting after {limit} s: {what}"
        time.sleep(0.025)


def inside(sandbox, command, **options):
    return sandbox.commands.run(command, **options).stdout.rstrip("\n")


def curl(url, *options):
    command = ["curl", "-sS", "--max-time", "10", "-w", "\n%{http_code}", *options, url]
    body, _, status = subprocess.run(command, capture_output=True, text=True, check=True).stdout.rpartition("\n")
    return int(status), body


def upload(url, body, content_type):
    return curl(url, "--data-binary", body, "-H", f"content-type: {content_type}")[0]


def seconds_left(sandbox):
    return (sandbox.get_info().end_at - datetime.now(timezone.utc)).total_seconds()


def every(paginator):
    pages = []
    while paginator.has_next:
        pages.append(paginator.next_items())
    return pages


COUNTER = iter(range(1_000_000))


def fresh(name):
    return f"/home/user/python-{next(COUNTER)}/{name}"


def mark():
    return f"mark-{os.getpid()}-{time.monotonic_ns()}"


# Sandboxes


@case("Sandbox.create")
def _(shared):
    sandbox = create()
    assert inside(sandbox, "id -un; pwd; sudo id -un") == "user\n/home/user\nroot"
    assert 280 < seconds_left(sandbox) <= 301


@case("Sandbox.create: template by name")
def _(shared):
    assert create("base", timeout=60).get_info().template_id == "base"


@case("Sandbox.create: timeoutMs ends it")
def _(shared):
    sandbox = create(timeout=2)
    assert sandbox.is_running()
    until("the sandbox ends", lambda: not sandbox.is_running(), 15)


@case("Sandbox.create: metadata")
def _(shared):
    metadata = {"mark": mark(), "odd key/&=%+": "odd value &=%+ ü\n"}
    sandbox = create(metadata=metadata)
    assert sandbox.get_info().metadata == metadata
    [page] = every(Sandbox.list(query=SandboxQuery(metadata=metadata)))
    assert [one.sandbox_id for one in page] == [sandbox.sandbox_id]


@case("Sandbox.create: envs")
def _(shared):
    sandbox = create(envs={"GREETING": "it's $HOME"})
    assert inside(sandbox, 'echo "$GREETING"') == "it's $HOME"
    assert inside(sandbox, 'echo "$GREETING"', envs={"GREETING": "own"}) == "own"


ALLOWED, OTHER = "allowed.example.invalid-tld.example", "other.example.org"
CLOSED = ["0.0.0.0/0"]


def reached(sandbox, host):
    """What the way out says: a host that may be reached has no address here (502), one that may not is refused (403)."""
    return int(inside(sandbox, f"curl -s -m 20 -o /dev/null -w '%{{http_code}}' http://{host}/"))


@case("network: allowInternetAccess false")
def _(shared):
    sandbox = create(allow_internet_access=False)
    assert sandbox.get_info().allow_internet_access is False
    assert reached(sandbox, OTHER) == 403


@case("network: allowOut and denyOut")
def _(shared):
    sandbox = create(network={"allow_out": [ALLOWED], "deny_out": CLOSED})
    assert [reached(sandbox, ALLOWED), reached(sandbox, OTHER)] == [502, 403]


@case("network: live update")
def _(shared):
    sandbox = create(network={"allow_out": [ALLOWED], "deny_out": CLOSED})
    sandbox.update_network({"allow_out": [OTHER], "deny_out": CLOSED})
    assert [reached(sandbox, ALLOWED), reached(sandbox, OTHER)] == [403, 502]


@case("network: header transforms")
def _(shared):
    rules = {ALLOWED: [{"transform": {"headers": {"X-Team": "web"}}}]}
    create(network={"allow_out": [ALLOWED], "deny_out": CLOSED, "rules": rules})


@case("Sandbox.connect")
def _(shared):
    sandbox = create()
    sandbox.files.write("kept.txt", "kept")
    again = Sandbox.connect(sandbox.sandbox_id)
    assert again.files.read("kept.txt") == "kept"
    assert again.get_host(80) == sandbox.get_host(80)


@case("Sandbox.connect: only ever extends")
def _(shared):
    sandbox = create(timeout=600)
    Sandbox.connect(sandbox.sandbox_id, timeout=60)
    assert seconds_left(sandbox) > 500
    Sandbox.connect(sandbox.sandbox_id, timeout=1200)
    assert seconds_left(sandbox) > 1100


@case("Sandbox.list: pages")
def _(shared):
    metadata = {"mark": mark()}
    made = [create(metadata=metadata) for _ in range(3)]
    pages = every(Sandbox.list(query=SandboxQuery(metadata=metadata), limit=2))
    assert [len(page) for page in pages] == [2, 1]
    seen = [one for page in pages for one in page]
    assert {one.sandbox_id for one in seen} == {one.sandbox_id for one in made}
    times = [one.started_at for one in seen]
    assert times == sorted(times, reverse=True), "newest first"


@case("Sandbox.list: metadata and state")
def _(shared):
    metadata = {"mark": mark()}
    sandbox = create(metadata=metadata)

    def ids(**query):
        return [one.sandbox_id for page in every(Sandbox.list(query=SandboxQuery(**query))) for one in page]

    assert ids(metadata=metadata, state=[SandboxState.RUNNING]) == [sandbox.sandbox_id]
    assert ids(metadata=metadata, state=[SandboxState.RUNNING, SandboxState.PAUSED]) == [sandbox.sandbox_id]
    assert ids(metadata=metadata, state=[SandboxState.PAUSED]) == []
    assert ids(metadata={**metadata, "more": "x"}) == []
    sandbox.kill()
    assert ids(metadata=metadata) == []


@case("Sandbox.getInfo")
def _(shared):
    sandbox = create(timeout=120)
    info = sandbox.get_info()
    assert (info.sandbox_id, info.state, info.cpu_count) == (sandbox.sandbox_id, SandboxState.RUNNING, 2)
    assert info.memory_mb == 4096
    assert Sandbox.get_info(sandbox.sandbox_id).end_at == info.end_at


@case("sandbox.setTimeout: longer and shorter")
def _(shared):
    sandbox = create(timeout=60)
    sandbox.set_timeout(600)
    assert seconds_left(sandbox) > 500
    sandbox.set_timeout(1)
    until("the sandbox ends", lambda: not sandbox.is_running(), 15)


@case("sandbox.kill")
def _(shared):
    sandbox = create()
    assert sandbox.kill() is True
    assert not sandbox.is_running()
    assert sandbox.kill() is False
    assert Sandbox.kill(sandbox.sandbox_id) is False


@case("sandbox.kill: cuts what runs")
def _(shared):
    sandbox = create()
    command = sandbox.commands.run("echo up; sleep 60", background=True)
    threading.Timer(0.5, sandbox.kill).start()
    fails(TimeoutException, "", command.wait)
    fails((TimeoutException, NotFoundException), "", sandbox.commands.run, "true")
    fails(TimeoutException, "", sandbox.files.read, "x")


@case("sandbox.isRunning")
def _(shared):
    sandbox = create()
    assert sandbox.is_running() is True
    sandbox.kill()
    assert sandbox.is_running() is False


@case("sandbox.getMetrics")
def _(shared):
    sandbox = create()
    busy = sandbox.commands.run("while :; do :; done", background=True)
    # On a busy machine the loop takes a while to begin.
    for _ in range(30):
        time.sleep(0.3)
        [metric] = sandbox.get_metrics()
        if metric.cpu_used_pct > 2:
            break
    busy.kill()
    assert 2 < metric.cpu_used_pct <= 100, metric
    assert metric.cpu_count == 2
    assert 0 < metric.mem_used < metric.mem_total


@case("sandbox.getHost")
def _(shared):
    sandbox = create()
    url = f"{SCHEME}://{sandbox.get_host(8000)}/page.txt"
    status, body = curl(url)
    assert status == 502 and "port is not open" in body
    sandbox.files.write("page.txt", "from inside")
    sandbox.commands.run("python3 -m http.server 8000", background=True)
    until("the page is served", lambda: curl(url)[0] == 200)
    assert curl(url)[1] == "from inside"
    sandbox.kill()
    assert curl(url)[0] == 502


@case("sandbox.getHost: allowPublicTraffic false")
def _(shared):
    sandbox = create(network={"allow_public_traffic": False})
    url = f"{SCHEME}://{sandbox.get_host(8000)}/"
    sandbox.commands.run("python3 -m http.server 8000", background=True)
    header = ["-H", f"e2b-traffic-access-token: {sandbox.traffic_access_token}"]
    until("the page is served", lambda: curl(url, *header)[0] == 200)
    assert curl(url)[0] == 403


@case("sandbox.downloadUrl")
def _(shared):
    shared.files.write("down load.txt", "downloaded")
    url = shared.download_url("down load.txt")
    assert curl(url) == (200, "downloaded")
    assert curl(url.replace("path=down", "path=up"))[0] == 401


@case("sandbox.downloadUrl: expires")
def _(shared):
    shared.files.write("brief.txt", "brief")
    url = shared.download_url("brief.txt", use_signature_expiration=1)
    assert curl(url) == (200, "brief")
    time.sleep(2.1)
    assert curl(url)[0] == 401


@case("sandbox.uploadUrl")
def _(shared):
    url = shared.upload_url("up.txt")
    body = '--b\r\nContent-Disposition: form-data; name="file"; filename="up.txt"\r\n\r\nuploaded\r\n--b--\r\n'
    assert upload(url, body, "multipart/form-data; boundary=b") == 200
    assert shared.files.read("up.txt") == "uploaded"
    assert curl(url)[0] == 401


# Pausing, snapshots and forks


def is_paused(sandbox):
    return sandbox.get_info().state == SandboxState.PAUSED


def is_there(sandbox, pid):
    return pid in [one.pid for one in sandbox.commands.list()]


@case("sandbox.pause: memory and files are kept")
def _(shared):
    sandbox = create(timeout=120)
    sandbox.files.write("kept.txt", "kept")
    pid = sandbox.commands.run("sleep 300", background=True).pid
    assert sandbox.pause() is True
    assert sandbox.pause() is False
    assert not sandbox.is_running()
    assert is_paused(sandbox)
    again = Sandbox.connect(sandbox.sandbox_id, timeout=60)
    assert again.is_running()
    assert again.files.read("kept.txt") == "kept"
    assert is_there(again, pid)
    assert 40 < seconds_left(again) <= 61


@case("sandbox.pause: keepMemory false")
def _(shared):
    sandbox = create()
    sandbox.files.write("kept.txt", "kept")
    pid = sandbox.commands.run("sleep 300", background=True).pid
    assert sandbox.pause(mode="filesystem") is True
    assert sandbox.pause() is False
    assert not sandbox.is_running()
    sandbox.connect()
    assert sandbox.files.read("kept.txt") == "kept"
    assert not is_there(sandbox, pid)


@case("sandbox.pause: nothing gets in meanwhile")
def _(shared):
    sandbox = create()
    sandbox.pause()
    fails((TimeoutException, NotFoundException), "", sandbox.commands.run, "true")
    fails(TimeoutException, "", sandbox.files.read, "x")
    assert curl(f"{SCHEME}://{sandbox.get_host(8000)}/")[0] == 502
    assert is_paused(sandbox)
    sandbox.connect()
    assert inside(sandbox, "echo back") == "back"


@case("Sandbox.connect: onResume reboot")
def _(shared):
    sandbox = create()
    sandbox.files.write("kept.txt", "kept")
    pid = sandbox.commands.run("sleep 300", background=True).pid
    sandbox.pause()
    sandbox.connect(on_resume="reboot")
    assert sandbox.files.read("kept.txt") == "kept"
    assert not is_there(sandbox, pid)


@case("Sandbox.create: lifecycle onTimeout pause")
def _(shared):
    sandbox = create(timeout=2, lifecycle={"on_timeout": "pause"})
    assert sandbox.get_info().lifecycle["on_timeout"] == "pause"
    pid = sandbox.commands.run("sleep 300", background=True).pid
    until("it is paused", lambda: is_paused(sandbox), 15)
    assert not sandbox.is_running()
    sandbox.connect()
    assert is_there(sandbox, pid)


@case("Sandbox.create: lifecycle onTimeout pause without memory")
def _(shared):
    sandbox = create(timeout=2, lifecycle={"on_timeout": {"action": "pause", "mode": "filesystem"}})
    sandbox.files.write("kept.txt", "kept")
    until("it is paused", lambda: is_paused(sandbox), 15)
    sandbox.connect()
    assert sandbox.files.read("kept.txt") == "kept"


@case("Sandbox.create: lifecycle autoResume")
def _(shared):
    sandbox = create(timeout=10, lifecycle={"on_timeout": "pause", "auto_resume": True})
    url = f"{SCHEME}://{sandbox.get_host(8000)}/page.txt"
    sandbox.files.write("page.txt", "from inside")
    sandbox.commands.run("python3 -m http.server 8000", background=True)
    until("the page is served", lambda: curl(url)[0] == 200)
    sandbox.pause()
    assert inside(sandbox, "cat page.txt") == "from inside", "a command wakes it"
    sandbox.pause()
    assert sandbox.files.read("page.txt") == "from inside", "a file wakes it"
    sandbox.pause()
    assert curl(url)[1] == "from inside", "traffic wakes it"
    sandbox.pause()
    assert not sandbox.is_running(), "the question does not"
    assert is_paused(sandbox)


@case("Sandbox.list: paused ones")
def _(shared):
    metadata = {"mark": mark()}
    sandbox = create(metadata=metadata)
    sandbox.pause()

    def states(**query):
        found = every(Sandbox.list(query=SandboxQuery(metadata=metadata, **query)))
        return [one.state for page in found for one in page]

    assert states(state=[SandboxState.PAUSED]) == [SandboxState.PAUSED]
    assert states(state=[SandboxState.RUNNING]) == []
    assert states() == [SandboxState.PAUSED]
    sandbox.connect()
    assert states(state=[SandboxState.RUNNING]) == [SandboxState.RUNNING]


@case("sandbox.kill: a paused one")
def _(shared):
    for mode in ["full", "filesystem"]:
        sandbox = create()
        sandbox.pause(mode=mode)
        assert sandbox.kill() is True
        assert sandbox.kill() is False
        fails(NotFoundException, "", Sandbox.connect, sandbox.sandbox_id)
        fails(NotFoundException, "", sandbox.pause)


@case("sandbox.createSnapshot, Sandbox.create from it")
def _(shared):
    sandbox = create()
    sandbox.files.write("state.txt", "one")
    snapshot = sandbox.create_snapshot()
    assert sandbox.is_running()
    sandbox.files.write("state.txt", "two")
    sandbox.kill()
    copies = [create(snapshot.snapshot_id), create(snapshot.snapshot_id)]
    assert [copy.files.read("state.txt") for copy in copies] == ["one", "one"]
    assert inside(copies[0], "id -un; sudo id -un") == "user\nroot"
    assert Sandbox.delete_snapshot(snapshot.snapshot_id) is True
    assert Sandbox.delete_snapshot(snapshot.snapshot_id) is False
    assert copies[1].files.read("state.txt") == "one"
    fails(SandboxException, "not found", Sandbox.create, snapshot.snapshot_id)


@case("sandbox.createSnapshot: by name")
def _(shared):
    sandbox = create()
    name = f"named-{os.getpid()}-{time.monotonic_ns()}"
    sandbox.files.write("state.txt", "one")
    snapshot = sandbox.create_snapshot(name=name)
    assert snapshot.names == [name]
    assert create(name).files.read("state.txt") == "one"
    Sandbox.delete_snapshot(snapshot.snapshot_id)


@case("Sandbox.listSnapshots")
def _(shared):
    sandbox = create()
    taken = {sandbox.create_snapshot().snapshot_id for _ in range(2)}

    def ids(paginator):
        return {one.snapshot_id for page in every(paginator) for one in page}

    assert ids(sandbox.list_snapshots()) == taken
    assert ids(sandbox.list_snapshots(limit=1)) == taken
    assert taken <= ids(Sandbox.list_snapshots())
    for one in taken:
        Sandbox.delete_snapshot(one)
    assert ids(sandbox.list_snapshots()) == set()


@case("sandbox.fork")
def _(shared):
    sandbox = create()
    sandbox.files.write("state.txt", "one")
    forks = sandbox.fork(count=2, timeout=60)
    MADE.extend(forks)
    sandbox.files.write("state.txt", "two")
    for fork in forks:
        assert fork.files.read("state.txt") == "one"
        assert 40 < seconds_left(fork) <= 61
        fork.files.write("state.txt", "own")
    assert sandbox.files.read("state.txt") == "two"
    assert sandbox.is_running()


@case("error: pausing and forking what is not there")
def _(shared):
    for sandbox_id, options in [("nosuchsandbox000", {}), (shared.sandbox_id, {"api_key": OTHER_KEY})]:
        fails(NotFoundException, "", Sandbox.pause, sandbox_id, **options)
        fails(NotFoundException, "", Sandbox.create_snapshot, sandbox_id, **options)
        fails(NotFoundException, "", Sandbox.fork, sandbox_id, **options)
    assert shared.is_running()


# Commands


@case("commands.run")
def _(shared):
    result = shared.commands.run("echo out; echo err >&2")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "out\n", "err\n")


@case("commands.run: onStdout, onStderr")
def _(shared):
    heard = []
    shared.commands.run(
        "echo one; sleep 0.3; echo two; sleep 0.3; echo three >&2",
        on_stdout=lambda text: heard.append((text, time.monotonic())),
        on_stderr=lambda text: heard.append((f"err {text}", time.monotonic())),
    )
    assert [text for text, _ in heard] == ["one\n", "two\n", "err three\n"], heard
    assert heard[-1][1] - heard[0][1] > 0.4, "output comes while the command runs"


@case("commands.run: CommandExitError")
def _(shared):
    error = fails(CommandExitException, "", shared.commands.run, "echo out; echo err >&2; exit 7")
    assert (error.exit_code, error.stdout, error.stderr) == (7, "out\n", "err\n")


@case("commands.run: cwd, envs, user")
def _(shared):
    assert inside(shared, "pwd", cwd="/tmp") == "/tmp"
    assert inside(shared, "echo $A", envs={"A": "b"}) == "b"
    assert inside(shared, "id -un; echo $HOME; pwd", user="root") == "root\n/root\n/root"


@case("commands.run: timeoutMs")
def _(shared):
    fails(TimeoutException, "", shared.commands.run, "sleep 60", timeout=0.5)


@case("commands.run: large and binary output")
def _(shared):
    assert len(shared.commands.run('head -c 3000000 /dev/zero | tr "\\0" x').stdout) == 3_000_000
    assert inside(shared, "printf 'grüße €'") == "grüße €"


@case("commands.run: in the background")
def _(shared):
    command = shared.commands.run("sleep 0.3; echo done", background=True)
    assert command.pid > 0
    assert command.wait().stdout == "done\n"


@case("commands.kill")
def _(shared):
    command = shared.commands.run("sleep 60", background=True)
    assert command.kill() is True
    fails(CommandExitException, "", command.wait)
    assert shared.commands.kill(command.pid) is False


@case("commands.connect")
def _(shared):
    command = shared.commands.run("for i in 1 2 3 4 5; do sleep 0.2; echo $i; done", background=True)
    command.disconnect()
    assert shared.commands.connect(command.pid).wait().stdout.endswith("5\n")


@case("commands.sendStdin")
def _(shared):
    command = shared.commands.run("head -n 1", background=True, stdin=True)
    shared.commands.send_stdin(command.pid, "a line\n")
    assert command.wait().stdout == "a line\n"


@case("commands.closeStdin")
def _(shared):
    command = shared.commands.run("cat; echo end", background=True, stdin=True)
    shared.commands.send_stdin(command.pid, "all of it")
    shared.commands.close_stdin(command.pid)
    assert command.wait().stdout == "all of itend\n"


@case("commands.streamInput (Python)")
def _(shared):
    command = shared.commands.run("head -n 2", background=True, stdin=True)
    shared.commands.stream_input(command.pid, iter(["one\n", "two\n"]))
    assert command.wait().stdout == "one\ntwo\n"


@case("commands.list")
def _(shared):
    command = shared.commands.run("sleep 59.5", background=True, envs={"SEEN": "yes"}, cwd="/tmp")
    [found] = [one for one in shared.commands.list() if one.pid == command.pid]
    assert (found.cmd, found.args, found.cwd) == ("/bin/bash", ["-l", "-c", "sleep 59.5"], "/tmp")
    assert found.envs["SEEN"] == "yes"
    command.kill()
    until("it is gone from the list", lambda: all(one.pid != command.pid for one in shared.commands.list()))


# Terminals


def read_until(terminal, words):
    screen = ""
    for _, _, output in terminal:
        screen += (output or b"").decode(errors="replace")
        if words in screen:
            return
    raise AssertionError(f"{words!r} is not on the screen: {screen!r}")


@case("pty.create, pty.sendInput")
def _(shared):
    terminal = shared.pty.create(PtySize(rows=24, cols=80), envs={"SEEN": "yes"}, cwd="/tmp")
    shared.pty.send_stdin(terminal.pid, b'echo "[$SEEN $(pwd) $(stty size)]"\n')
    read_until(terminal, "[yes /tmp 24 80]")
    shared.pty.send_stdin(terminal.pid, b"exit\n")
    assert terminal.wait().exit_code == 0


@case("pty.resize")
def _(shared):
    terminal = shared.pty.create(PtySize(rows=24, cols=80))
    shared.pty.resize(terminal.pid, PtySize(rows=43, cols=132))
    shared.pty.send_stdin(terminal.pid, b"stty size\n")
    read_until(terminal, "43 132")
    terminal.kill()


@case("pty.kill")
def _(shared):
    terminal = shared.pty.create(PtySize(rows=24, cols=80))
    assert shared.pty.kill(terminal.pid) is True
    fails(CommandExitException, "", terminal.wait)
    assert shared.pty.kill(terminal.pid) is False


@case("pty.connect")
def _(shared):
    terminal = shared.pty.create(PtySize(rows=24, cols=80))
    terminal.disconnect()
    again = shared.pty.connect(terminal.pid)
    shared.pty.send_stdin(again.pid, b"echo $((20 + 22))\n")
    read_until(again, "42")
    again.kill()


# Files


@case("files.write, files.read: text")
def _(shared):
    path = fresh("new directory/text.txt")
    info = shared.files.write(path, "first: grüße")
    assert (info.path, info.name) == (path, "text.txt")
    assert shared.files.read(path) == "first: grüße"
    shared.files.write(path, "second")
    assert inside(shared, f"cat '{path}'; stat -c %U '{path}'") == "seconduser"


@case("files.write, files.read: bytes")
def _(shared):
    path = fresh("bytes")
    shared.files.write(path, BYTES)
    assert bytes(shared.files.read(path, format="bytes")) == BYTES


@case("files.write, files.read: stream")
def _(shared):
    import io

    path = fresh("stream")
    shared.files.write(path, io.BytesIO(BYTES))
    assert b"".join(shared.files.read(path, format="stream")) == BYTES


@case("files.write: empty and large")
def _(shared):
    path = fresh("large")
    shared.files.write(path, "")
    assert shared.files.read(path) == ""
    large = "x" * (20 * 1024 * 1024)
    shared.files.write(path, large)
    assert inside(shared, f"stat -c %s {path}") == str(len(large))
    assert len(shared.files.read(path)) == len(large)


@case("files.write: many at once")
def _(shared):
    one, two = fresh("one.txt"), fresh("deep/two.txt")
    infos = shared.files.write_files([{"path": one, "data": "one"}, {"path": two, "data": "two"}])
    assert [info.path for info in infos] == [one, two]
    assert inside(shared, f"cat {one} {two}") == "onetwo"


@case("files: relative paths and users")
def _(shared):
    shared.files.write("relative.txt", "of the user")
    assert shared.files.read("/home/user/relative.txt") == "of the user"
    shared.files.write("relative.txt", "of root", user="root")
    assert shared.files.read("/root/relative.txt", user="root") == "of root"


@case("files.list: depth")
def _(shared):
    path = fresh("tree")
    shared.files.write(f"{path}/a/b/c.txt", "c")
    shared.files.write(f"{path}/d.txt", "d")

    def names(**options):
        return sorted(one.path[len(path) + 1 :] for one in shared.files.list(path, **options))

    assert names() == ["a", "d.txt"]
    assert names(depth=3) == ["a", "a/b", "a/b/c.txt", "d.txt"]


@case("files.exists")
def _(shared):
    path = fresh("maybe")
    assert shared.files.exists(path) is False
    shared.files.write(path, "x")
    assert shared.files.exists(path) is True


@case("files.getInfo")
def _(shared):
    path = fresh("info.txt")
    shared.files.write(path, "12345")
    shared.commands.run(f"chmod 640 {path}; ln -s {path} {path}.link")
    info = shared.files.get_info(path)
    assert (info.name, info.path, info.size) == ("info.txt", path, 5)
    assert (info.owner, info.group, info.mode & 0o777) == ("user", "user", 0o640)
    assert shared.files.get_info(f"{path}.link").symlink_target == path


@case("files.rename")
def _(shared):
    old, new = fresh("old"), fresh("new")
    shared.files.write(old, "moved")
    shared.files.make_dir(os.path.dirname(new))
    assert shared.files.rename(old, new).path == new
    assert inside(shared, f"cat {new}; ls {old} 2>/dev/null || echo gone") == "movedgone"
    fails(NotFoundException, "", shared.files.rename, old, new)


@case("files.remove")
def _(shared):
    path = fresh("tree")
    shared.files.write(f"{path}/a/b.txt", "x")
    shared.files.remove(path)
    assert shared.files.exists(path) is False


@case("files.makeDir")
def _(shared):
    path = fresh("a/b/c")
    assert shared.files.make_dir(path) is True
    assert shared.files.make_dir(path) is False
    assert inside(shared, f"stat -c '%F %U' {path}") == "directory user"


def watched(shared, path, wanted, **options):
    shared.files.make_dir(f"{path}/sub")
    handle = shared.files.watch_dir(path, **options)
    seen = []

    def heard():
        seen.extend(f"{one.type.value} {one.name}" for one in handle.get_new_events())
        return all(one in seen for one in wanted)

    return handle, heard


@case("files.watchDir")
def _(shared):
    path = fresh("watched")
    handle, heard = watched(shared, path, ["create new.txt", "write new.txt", "remove new.txt"])
    shared.files.write(f"{path}/new.txt", "x")
    shared.files.remove(f"{path}/new.txt")
    until("the events", heard)
    handle.stop()


@case("files.watchDir: recursive")
def _(shared):
    path = fresh("watched")
    handle, heard = watched(shared, path, ["create sub/deep.txt"], recursive=True)
    shared.files.write(f"{path}/sub/deep.txt", "x")
    until("the deep file", heard)
    handle.stop()


@case("git")
def _(shared):
    path = "/home/user/python-repository"
    shared.git.init(path, initial_branch="main")
    shared.git.configure_user("A Person", "person@example.org")
    shared.files.write(f"{path}/a.txt", "a")
    shared.git.add(path)
    shared.git.commit(path, "first")
    assert inside(shared, f"git -C {path} log --oneline").endswith(" first")


# Errors


@case("error: a wrong key")
def _(shared):
    wrong = "e2b_" + "0" * 40
    fails(AuthenticationException, "key", Sandbox.create, api_key=wrong)
    fails(AuthenticationException, "", Sandbox.get_info, shared.sandbox_id, api_key=wrong)
    fails(AuthenticationException, "", Sandbox.kill, shared.sandbox_id, api_key=wrong)
    assert shared.is_running()


@case("error: another key’s sandbox is not there")
def _(shared):
    fails(NotFoundException, "", Sandbox.get_info, shared.sandbox_id, api_key=OTHER_KEY)
    fails(NotFoundException, "", Sandbox.connect, shared.sandbox_id, api_key=OTHER_KEY)
    fails(NotFoundException, "", Sandbox.set_timeout, shared.sandbox_id, 1, api_key=OTHER_KEY)
    assert Sandbox.kill(shared.sandbox_id, api_key=OTHER_KEY) is False
    assert shared.is_running()


@case("error: a sandbox that never was")
def _(shared):
    fails(NotFoundException, "", Sandbox.get_info, "nosuchsandbox000")
    fails(NotFoundException, "", Sandbox.connect, "nosuchsandbox000")
    assert Sandbox.kill("nosuchsandbox000") is False


@case("error: an unknown template")
def _(shared):
    fails(SandboxException, "no-such-template", Sandbox.create, "no-such-template")


@case("error: a wrong token of a sandbox")
def _(shared):
    stolen = Sandbox.connect(shared.sandbox_id)
    before = stolen._envd_access_token
    assert before
    stolen = Sandbox(
        sandbox_id=shared.sandbox_id,
        sandbox_domain=shared.sandbox_domain,
        envd_version=stolen._envd_version,
        envd_access_token="f" * 64,
        connection_config=e2b.ConnectionConfig(extra_sandbox_headers={"X-Access-Token": "f" * 64}),
    )
    fails(AuthenticationException, "", stolen.commands.run, "true")
    fails(AuthenticationException, "", stolen.files.read, "/etc/passwd")
    fails(AuthenticationException, "", stolen.files.list, "/")


@case("error: files that are not there")
def _(shared):
    fails(NotFoundException, "", shared.files.read, "/no/such/file")
    fails(NotFoundException, "", shared.files.list, "/no/such/directory")
    fails(NotFoundException, "", shared.files.get_info, "/no/such/file")
    fails(NotFoundException, "", shared.files.watch_dir, "/no/such/directory")
    fails(InvalidArgumentException, "", shared.files.watch_dir, "/etc/passwd")


@case("error: processes and users that are not there")
def _(shared):
    assert shared.commands.kill(999_999) is False
    fails(NotFoundException, "", shared.commands.connect, 999_999)
    fails(NotFoundException, "", shared.commands.send_stdin, 999_999, "x")
    fails((AuthenticationException, SandboxException), "", shared.commands.run, "true", user="nobody-here")


def volume_of_its_own(work):
    volume = e2b.Volume.create(f"case-{uuid.uuid4().hex[:8]}")
    try:
        work(volume)
    finally:
        e2b.Volume.destroy(volume.volume_id)


@case("Volume.create, list, getInfo, connect, destroy")
def _(shared):
    name = f"case-{uuid.uuid4().hex[:8]}"
    volume = e2b.Volume.create(name)
    assert volume.name == name
    assert any(one.volume_id == volume.volume_id and one.name == name for one in e2b.Volume.list())
    assert e2b.Volume.get_info(volume.volume_id).name == name
    assert e2b.Volume.connect(volume.volume_id).list("/") == []
    fails(e2b.VolumeException, "already", e2b.Volume.create, name)
    assert e2b.Volume.destroy(volume.volume_id) is True
    assert e2b.Volume.destroy(volume.volume_id) is False


@case("Volume: files")
def _(shared):
    def work(volume):
        written = volume.write_file("/dir/file.txt", "text")
        assert (written.name, written.path, written.size) == ("file.txt", "/dir/file.txt", 4)
        assert volume.read_file("dir/file.txt") == "text"
        data = BYTES * 100_000
        volume.write_file("/bytes", data)
        assert volume.read_file("/bytes", format="bytes") == data
        assert b"".join(volume.read_file("/bytes", format="stream")) == data
        assert volume.exists("/dir") and not volume.exists("/nowhere")
        volume.remove("/bytes")
        assert not volume.exists("/bytes")

    volume_of_its_own(work)


@case("Volume: directories and metadata")
def _(shared):
    def work(volume):
        made = volume.make_dir("/a/b", force=True, mode=0o700, uid=0, gid=0)
        assert (made.mode & 0o777, made.uid, made.gid) == (0o700, 0, 0)
        volume.write_file("/a/file", "x")
        assert sorted(one.path for one in volume.list("/", depth=2)) == ["/a", "/a/b", "/a/file"]
        changed = volume.update_metadata("/a/file", mode=0o600, uid=1000, gid=1000)
        assert (changed.mode & 0o777, changed.uid) == (0o600, 1000)
        volume.remove("/a")
        fails(e2b.VolumePathNotFoundException, "", volume.list, "/a")
        fails(e2b.VolumeException, "", volume.read_file, "/../etc/passwd")

    volume_of_its_own(work)


@case("Volume: mounted in sandboxes")
def _(shared):
    def work(volume):
        volume.write_file("/from-outside", "one")
        first = Sandbox.create(volume_mounts={"/mnt/data": volume})
        assert inside(first, "cat /mnt/data/from-outside") == "one"
        inside(first, "echo two > /mnt/data/from-inside")
        fails(e2b.VolumeException, "mounted", e2b.Volume.destroy, volume.volume_id)
        first.kill()
        assert volume.read_file("/from-inside") == "two\n"

    volume_of_its_own(work)


@case("error: what comes later says so")
def _(shared):
    fails(SandboxException, "network.httpsPorts", Sandbox.create, network={"https_ports": [8443]})
    assert shared.is_running()


def run(name, work, shared):
    started = time.monotonic()
    detail = None
    try:
        work(shared)
    except BaseException:
        detail = traceback.format_exc()
    milliseconds = round((time.monotonic() - started) * 1000)
    line = {"name": name, "ok": detail is None, "ms": milliseconds, **({"detail": detail} if detail else {})}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main():
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    shared = Sandbox.create(timeout=300)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for name, work in CASES:
            if only in name:
                pool.submit(run, name, work, shared)
    for sandbox in [shared, *MADE]:
        sandbox.kill()


main()
