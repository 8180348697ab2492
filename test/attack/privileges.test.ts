/** Group PR: gaining privilege, inside and over the kernel. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { isAgentPodError } from '../../src/core/error.ts'
import { createWithSudo, differsOn, HAS_SUDO, ON_DOCKER, ON_GVISOR } from '../support/chosen-provider.ts'
import { outsidePid, quietly } from '../support/host-view.ts'
import { CALLS, CALLS_PROGRAM } from '../support/kernel-calls.ts'
import { CProgram, inside, outside, shell } from '../support/probe.ts'
import { isAlive, until, World } from '../support/world.ts'

const world = new World()
after(() => world[Symbol.asyncDispose]())

const REFUSED = ['EPERM', 'EACCES', 'ENOSYS']
const NO_SUDO = 'sudo is refused there'
const OWN_TEST = 'test/attack/docker.test.ts has this case, with what differs there'
const OWN_KERNEL = 'these files steer the kernel of the sandbox itself, and nothing of the host'

interface Attacker {
  readonly name: string
  readonly sandbox: () => Sandbox
  readonly user: string
}

let plain: Sandbox
let sudo: Sandbox
const ATTACKERS: readonly Attacker[] = [
  { name: 'the ordinary user', sandbox: () => plain, user: 'user' },
  { name: 'root without sudo', sandbox: () => plain, user: 'root' },
  { name: HAS_SUDO ? 'root with sudo' : 'root of another', sandbox: () => sudo, user: 'root' },
]

before(async () => {
  const client = world.client()
  plain = await client.create({})
  sudo = await createWithSudo(client)
})

/** Everybody who may attack, one after the other, with who it was. */
async function asEach<T>(program: string, check: (found: T, name: string) => void): Promise<void> {
  for (const { name, sandbox, user } of ATTACKERS) check(await inside<T>(sandbox(), program, { user }), name)
}

/** A process of the test's own on the host, to be traced. */
function bystander(): { pid: number } & Disposable {
  const child = spawn('sleep', ['300'], { stdio: 'ignore' })
  assert.ok(child.pid)
  return { pid: child.pid, [Symbol.dispose]: () => child.kill('SIGKILL') }
}

const status = (text: string, field: string): string =>
  new RegExp(`^${field}:\\s*(.*)$`, 'm').exec(text)?.[1] ?? ''

test('PR-01 a setuid-root program gives nothing without sudo', differsOn({ docker: OWN_TEST }), async () => {
  // The image's root makes the file; the mode survives, and must not count.
  const steal = 'import os; print(os.geteuid())'
  await shell(plain, 'cp /usr/bin/python3 /var/tmp/rootly; chmod 4755 /var/tmp/rootly', { user: 'root' })
  assert.match(await shell(plain, 'ls -ln /var/tmp/rootly'), /^-rwsr-xr-x 1 0 0 /, 'it is set-user-id root')
  assert.equal(await shell(plain, `/var/tmp/rootly -c '${steal}'`), '1000\n')
  assert.match(await shell(plain, 'cat /proc/self/status'), /^NoNewPrivs:\t1$/m)

  await shell(sudo, 'cp /usr/bin/python3 /var/tmp/rootly; chmod 4755 /var/tmp/rootly', { user: 'root' })
  assert.equal(await shell(sudo, `/var/tmp/rootly -c '${steal}'`), '0\n', 'the control: with sudo it does')
})

test(
  'PR-01 file capabilities give nothing without sudo',
  differsOn({ gvisor: 'gVisor stores no file capabilities', docker: NO_SUDO }),
  async () => {
    const grant = `
value = bytes.fromhex('0100000240000000000000000000000000000000')
import shutil
shutil.copy('/usr/bin/python3', '/var/tmp/capable')
os.chmod('/var/tmp/capable', 0o755)
tell(attempt(lambda: os.setxattr('/var/tmp/capable', 'security.capability', value)))`
    const effective = `/var/tmp/capable -c "print([l for l in open('/proc/self/status') if l.startswith('CapEff')])"`
    assert.equal(await inside(sudo, grant, { user: 'root' }), 'ok')
    assert.match(
      await shell(sudo, effective),
      /CapEff:\\t0000000000000040/,
      'the control: CAP_SETGID with sudo',
    )
    assert.equal(await inside(plain, grant, { user: 'root' }), 'EPERM')
  },
)

test(
  'PR-02 a payload without sudo holds no capability, root included, and cannot get one',
  differsOn({ docker: OWN_TEST }),
  async () => {
    for (const user of ['user', 'root']) {
      const text = await shell(plain, 'cat /proc/self/status', { user })
      for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'])
        assert.match(status(text, set), /^0+$/, `${set} of ${user}`)
      assert.equal(status(text, 'NoNewPrivs'), '1')
      assert.equal(status(text, 'Seccomp'), '2')
    }
    const raise = `
class Header(ctypes.Structure): _fields_ = [('version', ctypes.c_uint32), ('pid', ctypes.c_int)]
header = Header(0x20080522, 0)
data = (ctypes.c_uint32 * 6)(0xffffffff, 0xffffffff, 0xffffffff, 0x1ff, 0x1ff, 0x1ff)
kill = (ctypes.c_uint32 * 6)(1 << 5, 1 << 5, 0, 0, 0, 0)
tell([call('capset', ctypes.byref(header), data), call('capset', ctypes.byref(header), kill)])`
    await asEach<string[]>(raise, ([all, one], name) => {
      assert.equal(all, 'EPERM', name)
      assert.equal(one, name === 'root with sudo' ? 'ok' : 'EPERM', `${name} takes CAP_KILL`)
    })
  },
)

test(
  'PR-02 root with sudo holds the documented set and nothing that reaches the kernel',
  differsOn({ docker: NO_SUDO }),
  async () => {
    const text = await shell(sudo, 'cat /proc/self/status', { user: 'root' })
    const documented = [0, 1, 3, 4, 5, 6, 7, 10, 18, 31].reduce((bits, n) => bits | (1n << BigInt(n)), 0n)
    for (const set of ['CapPrm', 'CapEff', 'CapBnd'])
      assert.equal(BigInt(`0x${status(text, set)}`), documented, set)
    assert.equal(status(text, 'Seccomp'), '2')
  },
)

test('PR-03 no user namespace can be made, neither past the filter nor past the sysctl', async () => {
  const program = `
NEWUSER = 0x10000000
OTHERS = {'mount': 0x20000, 'net': 0x40000000, 'pid': 0x20000000, 'ipc': 0x8000000, 'uts': 0x4000000, 'cgroup': 0x2000000, 'time': 0x80}
found = {'unshare': in_child(lambda: call('unshare', NEWUSER)), 'both': in_child(lambda: call('unshare', NEWUSER | 0x60020000))}
for name, flag in OTHERS.items(): found[name] = in_child(lambda: call('unshare', flag))
def clone(flags):
  ctypes.set_errno(0)
  pid = libc.syscall(NUMBERS['clone'][ARCH], ctypes.c_long(flags | 17), 0, 0, 0, 0)
  if pid == 0: os._exit(0)
  if pid > 0: os.waitpid(pid, 0)
  return result(pid)
found['clone'] = in_child(lambda: clone(NEWUSER))
found['clone with high bits'] = in_child(lambda: clone(NEWUSER | (1 << 40)))
def clone3():
  args = (ctypes.c_uint64 * 8)(NEWUSER, 0, 0, 0, 17, 0, 0, 0)
  ctypes.set_errno(0)
  pid = libc.syscall(435, ctypes.byref(args), ctypes.c_long(64))
  if pid == 0: os._exit(0)
  if pid > 0: os.waitpid(pid, 0)
  return result(pid)
found['clone3'] = in_child(clone3)
tell(found)`
  const control = await outside<Record<string, string>>(program)
  assert.deepEqual(
    new Set(Object.values(control)),
    new Set(['ok']),
    'the control: root outside makes them all',
  )
  await asEach<Record<string, string>>(program, (found, name) => {
    for (const [way, answer] of Object.entries(found))
      assert.ok(REFUSED.includes(answer), `${name}, ${way}: ${answer}`)
  })
  // The second wall: were the filter gone, the namespace itself still allows none inside.
  const limit = 'tell(read("/proc/sys/user/max_user_namespaces").strip())'
  assert.notEqual(await outside(limit), '0', 'the control')
  // gVisor has no such limit. A namespace that is made there is one of gVisor's kernel. A container of Docker
  // has the user namespace of its daemon, and its limit.
  const least = ON_GVISOR ? 'ENOENT' : '0'
  if (!ON_DOCKER) await asEach<string>(limit, (found, name) => assert.equal(found, least, name))
  await asEach<string>('tell(write("/proc/sys/user/max_user_namespaces", "100"))', (found, name) =>
    assert.ok(
      ['EROFS', 'EACCES', 'EPERM', ...(ON_GVISOR ? ['ENOENT'] : [])].includes(found),
      `${name}: ${found}`,
    ),
  )
})

test('PR-03 no namespace of another process can be entered', async () => {
  const program = `
found = {}
for kind in ('user', 'mnt', 'net', 'pid'):
  for pid in ('1', 'self'):
    try: fd = os.open('/proc/%s/ns/%s' % (pid, kind), os.O_RDONLY)
    except OSError as e: found[pid + kind] = errno.errorcode[e.errno]; continue
    found[pid + kind] = in_child(lambda: call('setns', fd, 0))
tell(found)`
  const control = await outside<Record<string, string>>(program)
  assert.equal(control['selfnet'], 'ok', 'the control')
  await asEach<Record<string, string>>(program, (found, name) => {
    for (const [which, answer] of Object.entries(found))
      assert.ok(REFUSED.includes(answer), `${name}, ${which}: ${answer}`)
  })
})

test('PR-05 nobody inside traces podd, reads its memory, takes its descriptors or follows its links', async () => {
  const program = `
target = int(os.environ.get('TARGET', '1'))
buffer = ctypes.create_string_buffer(16)
class Vec(ctypes.Structure): _fields_ = [('base', ctypes.c_void_p), ('len', ctypes.c_size_t)]
local = Vec(ctypes.addressof(buffer), 16)
remote = Vec(ctypes.addressof(buffer), 16)
def opened(path, flags=os.O_RDONLY): return attempt(lambda: os.close(os.open(path, flags)))
def pidfd(): return libc.syscall(434, target, 0)
def attach():
  answer = call('ptrace', 0x4206, target, 0, 0)
  if answer == 'ok': call('ptrace', 17, target, 0, 0)
  return answer
at = '/proc/%d/' % target
tell({
  'seize': in_child(attach),
  'vm_readv': call('process_vm_readv', target, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0),
  'vm_writev': call('process_vm_writev', target, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0),
  'pidfd_getfd': call('pidfd_getfd', pidfd(), 3, 0),
  'kcmp': call('kcmp', os.getpid(), target, 1, 0, 0),
  'mem': opened(at + 'mem'), 'mem for writing': opened(at + 'mem', os.O_RDWR), 'environ': opened(at + 'environ'),
  'auxv': opened(at + 'auxv'), 'exe': opened(at + 'exe'), 'root': opened(at + 'root'), 'cwd': opened(at + 'cwd'),
  'fd/3': opened(at + 'fd/3'), 'fd/4': opened(at + 'fd/4', os.O_WRONLY), 'map_files': opened(at + 'map_files/x'),
  'ns/user': opened(at + 'ns/user'), 'stack': attempt(lambda: open(at + 'stack').read()), 'syscall': attempt(lambda: open(at + 'syscall').read()),
  'readlink root': attempt(lambda: os.readlink(at + 'root')),
})`
  using target = bystander()
  const control = await outside<Record<string, string>>(program, { TARGET: String(target.pid) })
  for (const way of ['seize', 'pidfd_getfd', 'mem', 'environ', 'exe', 'root', 'ns/user', 'readlink root'])
    assert.ok(
      !REFUSED.includes(control[way] ?? ''),
      `the control: ${way} of our own process gives ${control[way]}`,
    )
  await asEach<Record<string, string>>(program, (found, name) => {
    for (const [way, answer] of Object.entries(found)) {
      // gVisor opens the names of namespaces; they are its own, and entering one is refused (PR-03).
      if (ON_GVISOR && way === 'ns/user') continue
      assert.ok([...REFUSED, 'ENOENT', 'ESRCH', 'EBADF'].includes(answer), `${name}, ${way}: ${answer}`)
    }
  })
})

test('PR-05 a sibling of the same user cannot be traced, while its own files can be read', async () => {
  const sleeper = plain.exec('sleep', { args: ['300'] })
  const ending = sleeper.wait().catch(() => undefined)
  const pid = await sleeper.pid
  const found = await inside<Record<string, string>>(
    plain,
    `
target = ${pid}
tell({'seize': in_child(lambda: call('ptrace', 0x4206, target, 0, 0)), 'attach': in_child(lambda: call('ptrace', 16, target, 0, 0)),
  'vm': call('process_vm_readv', target, 0, 0, 0, 0, 0), 'control': read('/proc/%d/comm' % target).strip()})`,
  )
  await sleeper.signal('SIGKILL')
  await ending
  assert.deepEqual(found, { seize: 'EPERM', attach: 'EPERM', vm: 'EPERM', control: 'sleep' })
})

describe('calls that reach deep into the kernel', () => {
  let control: Record<string, string>
  const found = new Map<string, Record<string, string>>()
  before(async () => {
    control = await outside(CALLS_PROGRAM)
    for (const { name, sandbox, user } of ATTACKERS)
      found.set(name, await inside(sandbox(), CALLS_PROGRAM, { user }))
  })
  for (const [id, name] of CALLS) {
    test(`${id} ${name} is refused to everybody inside`, (t) => {
      const reached = control[name] ?? ''
      if (reached === 'ENOSYS') t.diagnostic(`this kernel has no ${name}, so there is no control`)
      else assert.ok(!['EPERM', 'EACCES'].includes(reached), `the control reaches the kernel: ${reached}`)
      for (const [who, answers] of found)
        assert.ok(['EPERM', 'ENOSYS'].includes(answers[name] ?? ''), `${who}: ${answers[name]}`)
    })
  }
})

test('PR-07 a personality without address randomisation or with executable memory is refused', async () => {
  const program = `
tell({'query': call('personality', 0xffffffff), 'no randomisation': in_child(lambda: call('personality', 0x0040000)),
  'read implies exec': in_child(lambda: call('personality', 0x0400000)), 'mmap page zero': in_child(lambda: call('personality', 0x0100000))})`
  const control = await outside<Record<string, string>>(program)
  assert.deepEqual(new Set(Object.values(control)), new Set(['ok']), 'the control')
  await asEach<Record<string, string>>(program, (found, name) =>
    assert.deepEqual(
      found,
      { query: 'ok', 'no randomisation': 'EPERM', 'read implies exec': 'EPERM', 'mmap page zero': 'EPERM' },
      name,
    ),
  )
})

test('PR-09 the keyrings of the host show neither by calls nor in /proc', async () => {
  const program = `tell([read('/proc/keys'), read('/proc/key-users')])`
  const control = await outside<string[]>(program)
  assert.ok(
    control.some((text) => /\d/.test(text)),
    'the control: the host has keys',
  )
  // gVisor has no such files.
  const nothing = ON_GVISOR ? 'ENOENT' : ''
  await asEach<string[]>(program, (found, name) => assert.deepEqual(found, [nothing, nothing], name))
})

test('PR-11 only unix, internet and routing sockets exist, and no kernel module is loaded for another', async () => {
  const program = `
import socket
found = {}
for family in range(0, 46):
  for kind in (1, 2, 3, 5):
    for protocol in (0, 16):
      fd = libc.socket(family, kind, protocol)
      if fd >= 0: found.setdefault(str(family), []).append([kind, protocol]); os.close(fd)
tell(found)`
  const modules = (): string => quietly(() => readFileSync('/proc/modules', 'utf8')) ?? ''
  const names = (text: string): string[] => text.split('\n').map((line) => line.split(' ')[0] ?? '')
  const control = await outside<Record<string, unknown>>(program)
  assert.ok('17' in control, 'the control: the host opens packet sockets')
  const before = names(modules())
  await asEach<Record<string, [number, number][]>>(program, (found, name) => {
    assert.deepEqual(
      Object.keys(found).filter((family) => !['1', '2', '10', '16'].includes(family)),
      [],
      name,
    )
    assert.deepEqual(
      new Set((found['16'] ?? []).map(([, protocol]) => protocol)),
      new Set([0]),
      'route netlink only',
    )
    for (const family of ['2', '10'])
      assert.ok(!(found[family] ?? []).some(([kind]) => kind === 3), `${name}: a raw socket`)
  })
  assert.deepEqual(names(modules()), before)
})

test('PR-11 netlink that may be opened changes nothing and sees no host interface', async () => {
  const program = `
import socket
names = sorted(n for _, n in socket.if_nameindex())
tell(names)`
  assert.ok((await outside<string[]>(program)).length > 1, 'the control: the host has more than loopback')
  await asEach<string[]>(program, (found, name) => assert.deepEqual(found, ['lo'], name))
  assert.match(
    await shell(sudo, 'ip link add dummy0 type dummy 2>&1 || true; ip link set lo down 2>&1 || true', {
      user: 'root',
    }),
    /not permitted|not found/i,
  )
})

test(
  'PR-12 nothing below /proc and /sys that steers the kernel can be written',
  differsOn({ gvisor: OWN_KERNEL, docker: OWN_TEST }),
  async () => {
    const program = `
PATHS = ['/proc/sys/kernel/core_pattern', '/proc/sys/kernel/modprobe', '/proc/sys/net/ipv4/ip_forward', '/proc/sys/vm/overcommit_memory',
  '/proc/sys/kernel/hostname', '/proc/sys/kernel/domainname', '/proc/sys/fs/protected_symlinks', '/proc/sys/kernel/yama/ptrace_scope',
  '/proc/sys/kernel/randomize_va_space', '/proc/sys/kernel/sysrq', '/proc/sys/fs/binfmt_misc/register', '/proc/sysrq-trigger',
  '/proc/irq/default_smp_affinity', '/proc/mtrr', '/proc/bus/pci', '/proc/1/oom_score_adj', '/sys/kernel/uevent_helper', '/sys/power/state',
  '/sys/kernel/mm/transparent_hugepage/enabled', '/sys/kernel/security', '/sys/module/kernel/parameters/panic', '/sys/kernel/kexec_crash_size',
  '/sys/fs/cgroup/release_agent', '/sys/kernel/debug', '/proc/sys/kernel/random/boot_id', '/proc/sys/kernel/ns_last_pid']
def look(path):
  if os.path.isdir(path): return attempt(lambda: os.mkdir(path + '/agentpod-probe'))
  return attempt(lambda: os.close(os.open(path, os.O_WRONLY)))
def may(path): return os.path.exists(path) and os.access(path, os.W_OK)
tell({'may': [p for p in PATHS if may(p)], 'open': {p: look(p) for p in PATHS} if os.environ.get('USER') else {}})`
    const control = await outside<{ may: string[] }>(program.replace("os.environ.get('USER')", 'False'))
    assert.ok(control.may.includes('/proc/sys/kernel/core_pattern'), 'the control: root outside may write it')
    assert.ok(control.may.includes('/proc/sys/net/ipv4/ip_forward'), 'the control')
    await asEach<{ open: Record<string, string> }>(program, ({ open }, name) => {
      for (const [path, answer] of Object.entries(open)) {
        // A process with podd's own uid may make podd the likelier victim of its sandbox's memory limit, and
        // no more.
        if (path === '/proc/1/oom_score_adj' && name !== 'the ordinary user') continue
        assert.ok(['EROFS', 'EACCES', 'EPERM', 'ENOENT'].includes(answer), `${name}, ${path}: ${answer}`)
      }
    })
  },
)

test(
  'PR-12 the whole of /sys and /proc/sys is read-only or owned by nobody inside',
  differsOn({ gvisor: OWN_KERNEL }),
  async () => {
    const program = `
writable = []
def walk(top, depth):
  try: entries = list(os.scandir(top))
  except OSError: return
  for e in entries:
    try:
      if e.is_symlink(): continue
      if e.is_dir():
        if depth: walk(e.path, depth - 1)
      # Docker covers files with /dev/null, which takes everything and does nothing.
      elif os.stat(e.path).st_mode & 0o222 and os.stat(e.path).st_rdev != os.makedev(1, 3) and attempt(lambda: os.close(os.open(e.path, os.O_WRONLY | os.O_NONBLOCK))) == 'ok': writable.append(e.path)
    except OSError: pass
walk('/proc/sys', 8)
walk('/sys', 5)
tell(writable)`
    await asEach<string[]>(program, (found, name) => assert.deepEqual(found, [], name))
  },
)

test('PR-12 the kernel log, its memory and its addresses cannot be read', async () => {
  const program = `
def first(path):
  try:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    data = os.read(fd, 64)
    os.close(fd)
    return len(data)
  except OSError as e: return errno.errorcode[e.errno]
lines = read('/proc/kallsyms').splitlines()[:50]
tell({'files': {p: first(p) for p in ['/dev/kmsg', '/proc/kmsg', '/proc/kcore', '/dev/mem', '/dev/kmem', '/dev/port', '/proc/slabinfo',
  '/proc/vmallocinfo', '/proc/kpageflags', '/proc/pagetypeinfo', '/sys/kernel/debug/x', '/sys/kernel/tracing/trace', '/sys/firmware/acpi/tables/DSDT']},
  'addresses': sorted(set(l.split()[0].strip('0') for l in lines if l)), 'syslog': call('syslog', 3, 0, 0)})`
  const control = await outside<{ files: Record<string, unknown> }>(program)
  assert.ok(Number(control.files['/proc/vmallocinfo']) > 0, 'the control: root outside reads what root may')
  await asEach<{ files: Record<string, unknown>; addresses: string[]; syslog: string }>(
    program,
    (found, name) => {
      for (const [path, answer] of Object.entries(found.files))
        assert.ok(answer === 0 || typeof answer === 'string', `${name}, ${path}: ${answer}`)
      assert.deepEqual(
        // gVisor has no /proc/kallsyms.
        found.addresses.filter((address) => address !== '' && !(ON_GVISOR && address === 'ENOENT')),
        [],
        name,
      )
      assert.equal(found.syslog, 'EPERM', name)
    },
  )
})

test('PR-14 no cgroup file system shows, and none can be mounted for its release_agent', async () => {
  const program = `
def mounted(kind, options):
  at = '/tmp/agentpod-mount'
  os.makedirs(at, exist_ok=True)
  ctypes.set_errno(0)
  answer = result(libc.mount(b'probe', at.encode(), kind, 0, options))
  if answer == 'ok': libc.umount2(at.encode(), 2)
  os.rmdir(at)
  return answer
tell({'v1': mounted(b'cgroup', b'none,name=agentpodprobe'), 'v2': mounted(b'cgroup2', None), 'proc': mounted(b'proc', None), 'tmpfs': mounted(b'tmpfs', None),
  'sysfs': mounted(b'sysfs', None), 'overlay': mounted(b'overlay', b'lowerdir=/usr:/etc'), 'devpts': mounted(b'devpts', b'newinstance'), 'mqueue': mounted(b'mqueue', None),
  'shown': [l for l in read('/proc/self/mountinfo').splitlines() if ' - cgroup' in l], 'listed': os.listdir('/sys/fs/cgroup') if os.path.isdir('/sys/fs/cgroup') else []})`
  const { shown, listed, ...control } = await outside<Record<string, string | string[]>>(program)
  assert.ok(
    Object.values(control).includes('ok') && control['tmpfs'] === 'ok',
    'the control: the host mounts',
  )
  assert.ok((shown?.length ?? 0) + (listed?.length ?? 0) > 0, 'the control: the host shows its groups')
  await asEach<Record<string, string | string[]>>(program, ({ shown, listed, ...found }, name) => {
    for (const [kind, answer] of Object.entries(found))
      assert.ok(REFUSED.includes(String(answer)), `${name}, ${kind}: ${answer}`)
    assert.deepEqual(listed, [], name)
    // Docker mounts them read-only, and covers the directory that they are in.
    const visible = [shown ?? []]
      .flat()
      .filter((line) => !ON_DOCKER || !/ \/sys\/fs\/cgroup\/\S+ ro,/.test(line))
    assert.deepEqual(visible, [], name)
  })
})

test('PR-16 nothing can be typed into a terminal, also not with the high bits of the request set', async () => {
  const program = `
import fcntl, pty, termios
def controlled(work):
  parent, child = pty.openpty()
  def inner():
    os.setsid()
    fcntl.ioctl(child, termios.TIOCSCTTY, 0)
    return work(child)
  return in_child(inner)
char = ctypes.create_string_buffer(b'x')
def typed(request): return controlled(lambda fd: call('ioctl', fd, request, ctypes.byref(char)))
tell({'TIOCSTI': typed(0x5412), 'high bits': typed(0x5412 | (1 << 32)), 'all high bits': typed(0x5412 | (0x7fffffff << 32)), 'TIOCLINUX': typed(0x541c),
  'window size': controlled(lambda fd: attempt(lambda: fcntl.ioctl(fd, termios.TIOCGWINSZ, b'\\0' * 8)))})`
  const control = await outside<Record<string, string>>(program)
  assert.equal(control['window size'], 'ok')
  // Kernels may refuse TIOCSTI altogether (EIO); the high bits make no difference to them either.
  assert.ok(
    ['ok', 'EIO'].includes(control['TIOCSTI'] ?? ''),
    `the control reaches the kernel: ${control['TIOCSTI']}`,
  )
  assert.equal(control['high bits'], control['TIOCSTI'], 'the control: the kernel looks at the low half')
  await asEach<Record<string, string>>(program, (found, name) =>
    assert.deepEqual(
      found,
      {
        TIOCSTI: 'EPERM',
        'high bits': 'EPERM',
        'all high bits': 'EPERM',
        TIOCLINUX: 'EPERM',
        'window size': 'ok',
      },
      name,
    ),
  )
})

test('PR-16 a command with a terminal gets one of the sandbox, and podd has none', async () => {
  const name = await shell(plain, 'tty', { terminal: { cols: 80, rows: 24 } })
  assert.match(name, /^\/dev\/pts\/\d+\r?\n$/)
  const pid = await outsidePid(world, plain.id)
  const terminal = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ')[4]
  assert.equal(terminal, '0', 'podd has no controlling terminal to inherit')
  assert.match(await shell(plain, 'exec 3<>/dev/tty && echo opened'), /No such device/)
})

test('PR-08 the calls of other interfaces (i386, x32) do not pass around the filter', {
  skip: process.arch !== 'x64' && 'only amd64 has them',
}, async () => {
  const source = `
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/mman.h>
#include <unistd.h>
static void died(int s) { printf("signal %d\\n", s); exit(0); }
static long i386(long n, long a, long b) { long r; __asm__ volatile("int $0x80" : "=a"(r) : "a"(n), "b"(a), "c"(b) : "memory", "r8", "r9", "r10", "r11"); return (int)r; }
static long x64(long n, long a, long b) { long r; __asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b) : "rcx", "r11", "memory"); return r; }
int main(int argc, char **argv) {
  signal(SIGSEGV, died); signal(SIGSYS, died); signal(SIGILL, died);
  setvbuf(stdout, 0, _IONBF, 0);
  if (!strcmp(argv[1], "i386-getpid")) printf("%ld\\n", i386(20, 0, 0) > 0 ? 1L : i386(20, 0, 0));
  if (!strcmp(argv[1], "i386-unshare")) printf("%ld\\n", i386(310, 0x10000000, 0));
  if (!strcmp(argv[1], "x32-getpid")) printf("%ld\\n", x64(0x40000000 + 39, 0, 0) > 0 ? 1L : x64(0x40000000 + 39, 0, 0));
  if (!strcmp(argv[1], "x32-unshare")) printf("%ld\\n", x64(0x40000000 + 272, 0x10000000, 0));
  if (!strcmp(argv[1], "high-unshare")) printf("%ld\\n", x64((1L << 32) + 272, 0x10000000, 0));
  if (!strcmp(argv[1], "minus")) printf("%ld\\n", x64(-1, 0, 0));
  if (!strcmp(argv[1], "getpid")) printf("%ld\\n", x64(39, 0, 0) > 0 ? 1L : 0L);
  if (!strcmp(argv[1], "unshare")) printf("%ld\\n", x64(272, 0x10000000, 0));
  return 0;
}`
  await using program = await CProgram.compile(source)
  assert.equal(await program.outside('unshare'), '0', 'the control: outside a user namespace is made')
  assert.equal(await program.inside(plain, ['getpid']), '1', 'the control: inside a plain call works')
  for (const way of [
    'i386-unshare',
    'i386-getpid',
    'x32-unshare',
    'x32-getpid',
    'minus',
    'unshare',
    'high-unshare',
  ]) {
    const answer = await program.inside(plain, [way])
    // Docker's own filter ends the program with a signal that it cannot handle.
    assert.ok(/^(-1|-38|signal \d+|exit -1 SIGSYS)$/.test(answer), `${way}: ${answer}`)
  }
})

test('FS-15 a file handle opens nothing (the "shocker" way out)', async () => {
  const program = `
class Handle(ctypes.Structure): _fields_ = [('bytes', ctypes.c_uint32), ('type', ctypes.c_int), ('data', ctypes.c_ubyte * 128)]
def opened(path):
  handle = Handle(bytes=128)
  mount = ctypes.c_int()
  named = call('name_to_handle_at', -100, ctypes.c_char_p(path), ctypes.byref(handle), ctypes.byref(mount), 0)
  at = os.open(os.path.dirname(path) or b'/', os.O_RDONLY)
  return [named, call('open_by_handle_at', at, ctypes.byref(handle), os.O_RDONLY)]
root = Handle(bytes=8, type=1)
root.data[0] = 2
at = os.open('/', os.O_RDONLY)
tell({'file': opened(os.environ.get('PROBED', '/usr/bin/env').encode()), 'inode 2': call('open_by_handle_at', at, ctypes.byref(root), os.O_RDONLY)})`
  const control = await outside<{ file: string[] }>(program)
  assert.deepEqual(control.file, ['ok', 'ok'], 'the control: root outside opens by handle')
  await asEach<{ file: string[]; 'inode 2': string }>(program, (found, name) => {
    assert.equal(found.file[1], 'EPERM', name)
    assert.equal(found['inode 2'], 'EPERM', name)
  })
})

test('PR-10 no device node can be made, and one that is in the image does not open', async () => {
  const program = `
import stat
found = {}
for name, kind, dev in (('mem', stat.S_IFCHR, os.makedev(1, 1)), ('kmsg', stat.S_IFCHR, os.makedev(1, 11)), ('disk', stat.S_IFBLK, os.makedev(254, 0)), ('null', stat.S_IFCHR, os.makedev(1, 3))):
  for place in ('/tmp', '/dev', '/var/tmp', '/dev/shm', '/run'):
    path = '%s/agentpod-%d-%s' % (place, os.getpid(), name)
    answer = attempt(lambda: os.mknod(path, kind | 0o600, dev))
    if answer == 'ok': os.unlink(path)
    found[place + ' ' + name] = answer
tell(found)`
  const control = await outside<Record<string, string>>(program)
  assert.equal(control['/var/tmp null'], 'ok', 'the control: root outside makes one')
  await asEach<Record<string, string>>(program, (found, name) => {
    for (const [what, answer] of Object.entries(found))
      assert.ok(['EPERM', 'EACCES'].includes(answer), `${name}, ${what}: ${answer}`)
  })
})

test('PR-10 /dev holds the harmless devices and nothing of the host', async () => {
  const program = `
found = []
for top, _, names in os.walk('/dev'):
  for n in names:
    p = os.path.join(top, n)
    if not os.path.islink(p): found.append(p)
tell(sorted(found))`
  const control = await outside<string[]>(program)
  assert.ok(control.includes('/dev/kmsg'), 'the control')
  const harmless = ['full', 'null', 'pts/ptmx', 'random', 'tty', 'urandom', 'zero'].map(
    (name) => `/dev/${name}`,
  )
  // gVisor shows two of its own, which take capabilities that no process inside has.
  const own = ON_GVISOR ? ['/dev/fuse', '/dev/net/tun'] : []
  if (ON_GVISOR)
    await asEach<string[]>(
      `tell([attempt(lambda: os.mknod('/var/tmp/own', 0o600 | 0o020000, os.makedev(10, 229))), call('mount', b'x', b'/tmp', b'fuse', 0, b'fd=3')])`,
      (found, name) =>
        assert.ok(
          found.every((answer) => answer === 'EPERM'),
          `${name}: ${found}`,
        ),
    )
  await asEach<string[]>(program, (found, name) =>
    assert.deepEqual(
      found.filter((path) => !/^\/dev\/pts\/\d+$/.test(path) && !own.includes(path)),
      harmless,
      name,
    ),
  )
})

describe('PR-06 signals to PID 1 from inside', () => {
  for (const user of ['user', 'root']) {
    for (const isSudo of HAS_SUDO ? [false, true] : [false]) {
      const name = `every signal to PID 1 and to everybody, by ${user}${isSudo ? ' with sudo' : ''}, leaves podd alive`
      const rule =
        user === 'root' ? differsOn({ gvisor: 'root inside can end its own sandbox, and no other' }) : {}
      test(name, rule, async () => {
        await using victim = await world.client().create({ environment: { sudo: isSudo } })
        const pid = await outsidePid(world, victim.id)
        const sent = await inside<Record<string, string>>(
          victim,
          `
import signal
found = {}
for n in range(1, 65): found[str(n)] = attempt(lambda: os.kill(1, n))
fd = libc.syscall(434, 1, 0)
found['pidfd'] = result(libc.syscall(424, fd, 9, 0, 0))
found['tgkill'] = result(libc.syscall(234 if ARCH == 0 else 131, 1, 1, 9))
tell(found)`,
          { user },
        )
        if (user === 'root') assert.equal(sent['15'], 'ok', 'the control: root may send')
        // kill -1 ends the sender too, so how it ends does not matter.
        await victim.exec('/bin/sh', { args: ['-c', 'kill -9 -1'], user }).wait()
        assert.ok(isAlive(pid))
        assert.equal(await shell(victim, 'echo alive'), 'alive\n')
      })
    }
  }
})

test('PR-06 root inside may spoil its own podd, and the sandbox still ends from outside in five seconds', async () => {
  const victim = await createWithSudo(world.client())
  const pid = await outsidePid(world, victim.id)
  // podd may end of it before it can answer; that is the sandbox's own loss.
  const spoiled = inside(
    victim,
    `
limit = (ctypes.c_uint64 * 2)(0, 0)
found = {str(n): call('prlimit64', 1, n, ctypes.byref(limit), 0) for n in (7, 2, 13, 6, 0)}
tell(found)`,
    { user: 'root' },
  )
  await spoiled.catch((error) => assert.ok(isAgentPodError(error), String(error)))
  const started = performance.now()
  await victim.destroy()
  assert.ok(performance.now() - started < 5000)
  await until('podd is gone', () => !isAlive(pid))
})

test(
  'FS-11 podd cannot be replaced, removed, renamed or mounted over by root inside',
  differsOn({ gvisor: 'podd is not in the root there', qemu: 'podd is not in the root there' }),
  async () => {
    const program = `
import hashlib
p = '/.agentpod/podd'
def digest(): return hashlib.sha256(open(p, 'rb').read()).hexdigest()
was = digest()
found = {'write': attempt(lambda: open(p, 'wb').close()), 'append': attempt(lambda: open(p, 'ab').close()), 'unlink': attempt(lambda: os.unlink(p)),
  'rename': attempt(lambda: os.rename(p, p + '2')), 'over': attempt(lambda: (open('/tmp/x', 'w').close(), os.rename('/tmp/x', p))), 'chmod': attempt(lambda: os.chmod(p, 0o777)),
  'chown': attempt(lambda: os.chown(p, 1000, 1000)), 'truncate': attempt(lambda: os.truncate(p, 0)), 'xattr': attempt(lambda: os.setxattr(p, 'user.x', b'1')),
  'exe': attempt(lambda: open('/proc/1/exe', 'wb').close()), 'directory': attempt(lambda: os.rename('/.agentpod', '/.other'))}
tell([found, was == digest()])`
    await asEach<[Record<string, string>, boolean]>(program, ([found, isSame], name) => {
      for (const [way, answer] of Object.entries(found))
        assert.ok(
          ['EROFS', 'EPERM', 'EACCES', 'EBUSY', 'EXDEV', 'ETXTBSY'].includes(answer),
          `${name}, ${way}: ${answer}`,
        )
      assert.ok(isSame, name)
    })
    assert.equal(
      await inside(sudo, `tell(attempt(lambda: open('/usr/bin/agentpod-control', 'w').close()))`, {
        user: 'root',
      }),
      'ok',
      'the control: the same root writes elsewhere',
    )
  },
)
