/**
 * Small hostile programs. The same text runs inside a sandbox, where it must fail, and outside as the
 * control, where it must succeed: a probe that fails everywhere proves nothing.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { ExecOptions } from '../../src/client/process.ts'
import type { Sandbox } from '../../src/client/sandbox.ts'

const run = promisify(execFile)

/** Not the first on PATH: a version manager's shim costs more than the probe. */
const PYTHON = '/usr/bin/python3'
const LONGEST_PROBE_MS = 60_000

/** `call` makes a system call by name, `attempt` any call; both answer "ok" or the name of the error. */
export const PRELUDE = `
import ctypes, errno, json, os, platform, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
NUMBERS = {
  'unshare': (272, 97), 'setns': (308, 268), 'clone': (56, 220), 'clone3': (435, 435), 'ptrace': (101, 117),
  'process_vm_readv': (310, 270), 'process_vm_writev': (311, 271), 'pidfd_open': (434, 434),
  'pidfd_getfd': (438, 438), 'kcmp': (312, 272), 'io_uring_setup': (425, 425), 'io_uring_enter': (426, 426),
  'io_uring_register': (427, 427), 'keyctl': (250, 219), 'add_key': (248, 217), 'request_key': (249, 218),
  'bpf': (321, 280), 'perf_event_open': (298, 241), 'userfaultfd': (323, 282), 'open_by_handle_at': (304, 265),
  'name_to_handle_at': (303, 264), 'mount': (165, 40), 'umount2': (166, 39), 'pivot_root': (155, 41),
  'fsopen': (430, 430), 'open_tree': (428, 428), 'move_mount': (429, 429), 'mount_setattr': (442, 442),
  'init_module': (175, 105), 'finit_module': (313, 273), 'delete_module': (176, 106), 'reboot': (169, 142),
  'swapon': (167, 224), 'syslog': (103, 116), 'personality': (135, 92), 'quotactl': (179, 60), 'acct': (163, 89),
  'sethostname': (170, 161), 'setdomainname': (171, 162), 'settimeofday': (164, 170), 'clock_settime': (227, 112),
  'fanotify_init': (300, 262), 'migrate_pages': (256, 238), 'move_pages': (279, 239), 'kexec_load': (246, 104),
  'iopl': (172, None), 'ioperm': (173, None), 'ioctl': (16, 29), 'prlimit64': (302, 261), 'capset': (126, 91),
  'getpid': (39, 172),
}
ARCH = 0 if platform.machine() == 'x86_64' else 1
BAD = 1
def result(value):
  return 'ok' if value >= 0 else errno.errorcode.get(ctypes.get_errno(), str(ctypes.get_errno()))
def word(value):
  return ctypes.c_long(value) if isinstance(value, int) else value
def call(name, *args):
  number = NUMBERS[name][ARCH]
  if number is None: return 'ENOSYS'
  ctypes.set_errno(0)
  return result(libc.syscall(ctypes.c_long(number), *[word(a) for a in args]))
def attempt(work):
  try:
    work()
    return 'ok'
  except OSError as e:
    return errno.errorcode.get(e.errno, str(e.errno))
def in_child(work):
  r, w = os.pipe()
  pid = os.fork()
  if pid == 0:
    try: answer = work()
    except BaseException as e: answer = repr(e)
    os.write(w, str(answer).encode())
    os._exit(0)
  os.close(w)
  answer = os.read(r, 65536).decode()
  os.close(r)
  os.waitpid(pid, 0)
  return answer
def write(path, text):
  def work():
    fd = os.open(path, os.O_WRONLY)
    try: os.write(fd, text.encode())
    finally: os.close(fd)
  return attempt(work)
def read(path):
  try:
    with open(path, 'rb') as f: return f.read(1 << 16).decode('utf8', 'replace')
  except OSError as e: return errno.errorcode.get(e.errno, str(e.errno))
def tell(value):
  print(json.dumps(value))
`

export type ProbeOptions = Pick<ExecOptions, 'user' | 'env' | 'cwd' | 'terminal'>

/** What the program passes to `tell`. */
export async function inside<T>(sandbox: Sandbox, program: string, o: ProbeOptions = {}): Promise<T> {
  const result = await sandbox
    .exec(PYTHON, { args: ['-c', PRELUDE + program], timeoutMs: LONGEST_PROBE_MS, ...o })
    .wait()
  assert.equal(result.exitCode, 0, `the probe ran: ${result.signal ?? ''} ${result.stderr}`)
  return parse<T>(result.stdout)
}

/** The same program on the host, with the test's own authority. */
export async function outside<T>(program: string, env: Record<string, string> = {}): Promise<T> {
  const { stdout } = await run(PYTHON, ['-c', PRELUDE + program], {
    timeout: LONGEST_PROBE_MS,
    env: { ...process.env, ...env },
  })
  return parse<T>(stdout)
}

function parse<T>(text: string): T {
  const line = text.trimEnd().split('\n').at(-1)?.trim() ?? ''
  return JSON.parse(line) as T
}

/** A shell's stdout and stderr together; the exit code does not matter. */
export async function shell(sandbox: Sandbox, script: string, o: ProbeOptions = {}): Promise<string> {
  const { stdout, stderr } = await sandbox
    .exec('/bin/sh', { args: ['-c', script], timeoutMs: LONGEST_PROBE_MS, ...o })
    .wait()
  return stdout + stderr
}

/** Compiles a C program outside, runs it there as the control, and copies the same binary inside. */
export class CProgram implements AsyncDisposable {
  readonly #directory: string
  readonly #file: string

  private constructor(directory: string) {
    this.#directory = directory
    this.#file = join(directory, 'program')
  }

  static async compile(source: string, ...flags: string[]): Promise<CProgram> {
    const directory = await mkdtemp(join(tmpdir(), 'agentpod-probe-'))
    const program = new CProgram(directory)
    await writeFile(join(directory, 'program.c'), source)
    await run('gcc', ['-O1', '-o', program.#file, join(directory, 'program.c'), ...flags])
    return program
  }

  async outside(...args: string[]): Promise<string> {
    return (await run(this.#file, args, { timeout: LONGEST_PROBE_MS })).stdout.trimEnd()
  }

  async inside(sandbox: Sandbox, args: readonly string[] = [], o: ProbeOptions = {}): Promise<string> {
    const { readFile } = await import('node:fs/promises')
    const path = `/var/tmp/program-${Math.trunc(performance.now() * 1000)}`
    await sandbox.writeFile(path, await readFile(this.#file), { user: o.user })
    await shell(sandbox, `chmod 755 ${path}`, { user: o.user })
    const result = await sandbox.exec(path, { args, timeoutMs: LONGEST_PROBE_MS, ...o }).wait()
    return `${result.stdout}${result.stderr}`.trimEnd() || `exit ${result.exitCode} ${result.signal ?? ''}`
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.#directory, { recursive: true, force: true })
  }
}
