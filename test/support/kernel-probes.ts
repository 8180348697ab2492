/** Programs for `inside` and `outside` (see probe.ts) that use up resources that the whole machine shares. */
import { readFileSync } from 'node:fs'

/** Whether root here may set a floor for OOM scores: containers may have taken CAP_SYS_RESOURCE away. */
export const CANNOT_SET_OOM_FLOOR =
  ((BigInt(`0x${/^CapEff:\s*(\w+)/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0'}`) >> 24n) &
    1n) ===
    0n && 'root lacks CAP_SYS_RESOURCE here, so no floor can be set'

/** MiB that all sockets of the machine hold. */
export const heldBySocketsMib = (kind: 'tcp' | 'udp'): number =>
  Number(
    new RegExp(`^${kind.toUpperCase()}: .*mem (\\d+)`, 'm').exec(
      readFileSync('/proc/net/sockstat', 'utf8'),
    )?.[1],
  ) / 256

/** Tells, for each way to give the kernel a filter, what came of it. */
export const FILTERS = `
import socket, struct
def attached(option, length=1):
  code = struct.pack('HBBI', 6, 0, 0, 0x7fff0000) * length
  memory = ctypes.create_string_buffer(code)
  s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
  s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
  s.bind(('127.0.0.1', 0))
  s.setsockopt(socket.SOL_SOCKET, option, struct.pack('HxxxxxxP', length, ctypes.addressof(memory)))
  return s
def own(by):
  code = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0x7fff0000))
  program = ctypes.create_string_buffer(struct.pack('HxxxxxxP', 1, ctypes.addressof(code)))
  libc.prctl(38, 1, 0, 0, 0)
  ctypes.set_errno(0)
  if by == 'prctl': return result(libc.prctl(22, 2, ctypes.byref(program)))
  return result(libc.syscall(317 if ARCH == 0 else 277, ctypes.c_long(1), ctypes.c_long(0), ctypes.byref(program)))
tell({
  'socket filter': attempt(lambda: attached(26)),
  'reuseport filter': attempt(lambda: attached(51)),
  'seccomp': in_child(lambda: own('seccomp')),
  'prctl': in_child(lambda: own('prctl')),
  'buffer size': attempt(lambda: socket.socket().setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)),
  'thread name': result(libc.prctl(15, b'probe', 0, 0, 0)),
})`

/** A context for asynchronous input and output, given back at once. */
export const AIO = `
context = ctypes.c_ulong(0)
ctypes.set_errno(0)
answer = result(libc.syscall(ctypes.c_long(206 if ARCH == 0 else 0), ctypes.c_long(128), ctypes.byref(context)))
if answer == 'ok': libc.syscall(ctypes.c_long(207 if ARCH == 0 else 1), context)
tell(answer)`

/**
 * Opens terminals until none is left, or 1000, and prints how many it got; `HOLD=1` then waits until its
 * standard input closes.
 */
export const TERMINALS = `
held = []
try:
  while len(held) < 1000: held.append(os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY))
except OSError: pass
tell(len(held))
sys.stdout.flush()
if os.environ.get('HOLD'): sys.stdin.read()`

/** Starts waiting processes until one is refused or there are 200; prints how many it got, and ends them. */
export const PROCESSES = `
import signal
made, why = [], 'ok'
while len(made) < 200 and why == 'ok':
  try: child = os.fork()
  except OSError as e: why = errno.errorcode[e.errno]; break
  if child == 0: signal.pause()
  made.append(child)
for child in made: os.kill(child, 9)
for child in made: os.waitpid(child, 0)
tell([len(made), why])`

/**
 * Opens 10,000 files when it gets a line, and holds them until its standard input closes; prints before and
 * after.
 */
export const OPEN_FILES = `
def say(count):
  tell(count)
  sys.stdout.flush()
say(0)
sys.stdin.readline()
held = [os.open('/dev/null', os.O_RDONLY) for _ in range(10000)]
say(len(held))
sys.stdin.read()`

/** What a probe reads of the kernel's own files: names below /sys, and files of /proc. */
export const KERNEL_FILES = `
PROC = ['buddyinfo', 'cgroups', 'cmdline', 'config.gz', 'devices', 'diskstats', 'interrupts', 'iomem', 'ioports', 'kallsyms', 'key-users', 'keys',
  'locks', 'misc', 'modules', 'mtrr', 'pagetypeinfo', 'partitions', 'pressure/cpu', 'sched_debug', 'slabinfo', 'softirqs', 'swaps', 'timer_list',
  'tty/drivers', 'vmallocinfo', 'zoneinfo']
def size(path):
  try: return len(open(path, 'rb').read(1 << 16))
  except OSError: return 0
names, texts = [], []
for at, dirs, files in os.walk('/sys'):
  names.append(at)
  for f in files:
    if os.path.basename(at) in ('loop', 'cpu') or f in ('backing_file', 'uevent', 'bytes_used', 'cmdline'):
      texts.append(read(os.path.join(at, f))[:4096])
tell({'sys': names, 'texts': texts, 'proc': {p: size('/proc/' + p) for p in PROC}})`

/**
 * Fills the buffers of unread TCP connections to itself, or of UDP sockets, from several processes. Prints
 * when no more fits, and holds it until its standard input closes.
 */
export const SOCKET_BUFFERS = (kind: 'tcp' | 'udp'): string => `
import resource, socket, time
files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
block = bytes(60000)
held = []
def tcp(door):
  a = socket.create_connection(door.getsockname(), 1)
  b, _ = door.accept()
  for s in (a, b):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    s.setblocking(False)
  held.append((a, b))
  for s in (a, b):
    try:
      while True: s.send(block)
    except OSError: pass
def udp(sender):
  s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
  s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
  s.bind(('127.0.0.1', 0))
  held.append(s)
  for _ in range(200): sender.sendto(block, s.getsockname())
def fill():
  until = time.time() + 4
  if '${kind}' == 'tcp':
    other = socket.create_server(('127.0.0.1', 0))
    other.settimeout(1)
    take = lambda: tcp(other)
  else:
    other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    other.setblocking(False)
    take = lambda: udp(other)
  try:
    while time.time() < until and len(held) < files // 3: take()
  except OSError: pass
ready, waiting = os.pipe(), os.pipe()
for _ in range(4):
  if os.fork() == 0:
    os.close(waiting[1])
    fill()
    os.close(ready[1])
    os.read(waiting[0], 1)
    os._exit(0)
# The end of the file: every process has filled what it could, or has been ended.
os.close(ready[1])
os.read(ready[0], 1)
tell('filled')
sys.stdout.flush()
sys.stdin.read()`
