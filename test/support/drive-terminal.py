"""Runs a command on a terminal of its own and drives it as a person would.

argv: the command. stdin: one JSON list of steps, each {"expect": regex}, {"send": text} or {"resize": [cols, rows]}.
Prints {"code": exit code, "screen": everything seen} as JSON; a step that waits more than 20 s ends it with "stuck".
"""
import fcntl, json, os, pty, re, select, signal, struct, sys, termios, time

steps = json.load(sys.stdin)
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])


def resize(cols, rows):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


seen, mark = b"", 0


def read(timeout):
    global seen
    if select.select([terminal], [], [], timeout)[0]:
        try:
            data = os.read(terminal, 65536)
        except OSError:
            return False
        seen += data
        return len(data) > 0
    return True


def answer(code, stuck=None):
    print(json.dumps({"code": code, "stuck": stuck, "screen": seen.decode("utf-8", "replace")}))
    sys.exit(0)


resize(100, 40)
for step in steps:
    if "send" in step:
        os.write(terminal, step["send"].encode())
    elif "resize" in step:
        resize(*step["resize"])
    else:
        end = time.time() + 20
        while True:
            found = re.search(step["expect"].encode(), seen[mark:])
            if found:
                mark += found.end()
                break
            if time.time() > end or not read(0.1):
                os.kill(pid, signal.SIGKILL)
                answer(-1, step["expect"])
while read(20):
    pass
answer(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
