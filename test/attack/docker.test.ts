/**
 * The attacks that depend on the provider, on containers of Docker. The probes are those of the other files
 * here; the server acts the same with every provider.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Guest } from '../../src/core/guest.ts'
import { newSandboxId } from '../../src/core/id.ts'
import type { Created, CreatePlan } from '../../src/core/provider.ts'
import { resolveResources } from '../../src/core/resources.ts'
import { HOUR_MS, INIT, rejectsWith, runCommand, writeFile } from '../../src/testing/contract-context.ts'
import { systemRandom } from '../../src/util/random.ts'
import { NO_DOCKER } from '../support/docker-daemon.ts'
import { type DockerStage, openDocker } from '../support/docker-provider.ts'
import { cgroupDirectory, hostPid, quietly } from '../support/host-view.ts'
import { CALLS, CALLS_PROGRAM } from '../support/kernel-calls.ts'
import * as probes from '../support/kernel-probes.ts'
import { outside, PRELUDE } from '../support/probe.ts'

const CALL = { timeoutMs: 60_000 }
const USERS = ['user', 'root']
const REFUSED = ['EPERM', 'EACCES', 'ENOSYS']
const RESOURCES = { memoryMib: 256, swapMib: 0, cpus: 1, pids: 96, files: 1024, tmpMib: 64, shmMib: 32 }

describe('attacks from a container of Docker', { skip: NO_DOCKER, timeout: 600_000 }, () => {
  let stage: DockerStage
  let plain: { guest: Guest; created: Created; pid: number }
  let neighbour: { guest: Guest }
  const token = randomBytes(16).toString('hex')

  const started = async (): Promise<typeof plain> => {
    const plan: CreatePlan = {
      sandboxId: newSandboxId(systemRandom),
      owner: stage.owner,
      hostname: 'attacked',
      root: stage.root,
      resources: resolveResources(RESOURCES),
      required: ['memory', 'cpus', 'pids', 'files'],
      deadlineAt: Date.now() + HOUR_MS,
      whenOver: 'destroy',
      mounts: [],
    }
    const created = await stage.provider.create(plan, CALL)
    const guest = stage.provider.open(created.handle)
    await guest.configure({ ...INIT, env: created.env }, CALL)
    const pid = stage.daemon.docker(
      'inspect',
      '-f',
      '{{.State.Pid}}',
      String(created.handle.data['container']),
    )
    return { guest, created, pid: Number(pid) }
  }

  before(async () => {
    stage = await openDocker({ python: true })
    writeFileSync(join(stage.daemon.directory, 'canary'), token)
    plain = await started()
    neighbour = await started()
    for (const path of ['/home/user/secret', '/tmp/secret', '/dev/shm/secret'])
      await writeFile(neighbour.guest, path, Buffer.from(token))
  })

  after(() => stage?.close())

  const inside = async <T>(program: string, user = 'user', guest = plain.guest): Promise<T> => {
    const { stdout, stderr, exitCode } = await runCommand(
      guest,
      '/usr/bin/python3',
      ['-c', PRELUDE + program],
      { user },
    )
    assert.equal(exitCode, 0, `the probe ran: ${stderr}`)
    return JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as T
  }
  const shell = async (script: string, user = 'user'): Promise<string> => {
    const { stdout, stderr } = await runCommand(plain.guest, '/bin/sh', ['-c', script], { user })
    return stdout + stderr
  }

  test('FS-01 FS-29 no file of the host or of a neighbour is read, by any spelling of its path', async () => {
    const canary = join(stage.daemon.directory, 'canary')
    const ways = [canary, `/../../..${canary}`, `/proc/1/root${canary}`, `/proc/self/root/../..${canary}`]
    const program = `tell([read(p) for p in ${JSON.stringify([...ways, '/home/user/secret', '/tmp/secret', '/dev/shm/secret'])}])`
    assert.equal((await outside<string[]>(program))[0], token, 'the control')
    assert.deepEqual(
      (await inside<string[]>(program, 'user', neighbour.guest)).slice(-3),
      [token, token, token],
      'the control',
    )
    for (const user of USERS)
      for (const answer of await inside<string[]>(program, user))
        assert.ok(['ENOENT', 'EACCES', 'ENOTDIR'].includes(answer), `${user}: ${answer}`)
  })

  test('FS-11 DK-02 podd is replaced by nobody inside, and neither is what runs it', async () => {
    const program = `
import shutil
shutil.copy('/usr/bin/true', '/var/tmp/mine')
tell({'mine': write('/var/tmp/mine', 'x'), 'podd': write('/.agentpod/podd', 'x'),
  'mode': attempt(lambda: os.chmod('/.agentpod/podd', 0o777)), 'gone': attempt(lambda: os.unlink('/.agentpod/podd')),
  'moved': attempt(lambda: os.rename('/.agentpod', '/old')), 'removed': attempt(lambda: os.rmdir('/.agentpod')),
  'made': attempt(lambda: os.close(os.open('/.agentpod/x', os.O_CREAT | os.O_WRONLY))), 'exe': write('/proc/1/exe', 'x')})`
    for (const user of USERS) {
      const { mine, ...others } = await inside<Record<string, string>>(program, user)
      assert.equal(mine, 'ok', 'the control')
      for (const [way, answer] of Object.entries(others))
        assert.ok(
          ['EROFS', 'EACCES', 'EPERM', 'EBUSY', 'ETXTBSY'].includes(answer),
          `${user}, ${way}: ${answer}`,
        )
      await shell('rm -f /var/tmp/mine', user)
    }
  })

  test('FS-16 only processes of the sandbox show', async () => {
    const program = `tell(len([p for p in os.listdir('/proc') if p.isdigit()]))`
    assert.ok((await outside<number>(program)) > 10, 'the control: the host shows many')
    for (const user of USERS) assert.ok((await inside<number>(program, user)) <= 5, user)
  })

  test('PR-01 a setuid-root program gives nothing', async () => {
    await shell('cp /usr/bin/python3 /var/tmp/rootly; chmod 4755 /var/tmp/rootly', 'root')
    assert.match(await shell('ls -ln /var/tmp/rootly'), /^-rwsr-xr-x 1 0 0 /, 'it is set-user-id root')
    assert.equal(await shell(`/var/tmp/rootly -c 'import os; print(os.geteuid())'`), '1000\n')
    const id = stage.daemon.docker(
      'run',
      '-d',
      '--network',
      'none',
      '--cap-add',
      'SETUID',
      imageOf(stage),
      'sleep',
      '60',
    )
    stage.daemon.docker('exec', id, 'sh', '-c', 'cp /usr/bin/python3 /rootly; chmod 4755 /rootly')
    const control = stage.daemon.docker(
      'exec',
      '-u',
      '1000',
      id,
      '/rootly',
      '-c',
      'import os; print(os.geteuid())',
    )
    assert.equal(control, '0', 'the control: in a container that Docker makes by itself it does')
    stage.daemon.docker('rm', '-f', id)
  })

  test('PR-02 a program of the user holds no capability; root holds what makes it other users, and cannot get more', async () => {
    const status = (text: string, field: string): string =>
      new RegExp(`^${field}:\\s*(.*)$`, 'm').exec(text)?.[1] ?? ''
    const seen = await shell('cat /proc/self/status')
    for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapAmb']) assert.match(status(seen, set), /^0+$/, set)
    const root = await shell('cat /proc/self/status', 'root')
    for (const set of ['CapPrm', 'CapEff'])
      assert.equal(BigInt(`0x${status(root, set)}`), 0xc0n, `${set}: SETUID and SETGID`)
    for (const text of [seen, root]) {
      assert.equal(status(text, 'NoNewPrivs'), '1')
      assert.equal(status(text, 'Seccomp'), '2')
    }
    const raise = `
class Header(ctypes.Structure): _fields_ = [('version', ctypes.c_uint32), ('pid', ctypes.c_int)]
header = Header(0x20080522, 0)
data = (ctypes.c_uint32 * 6)(0xffffffff, 0xffffffff, 0xffffffff, 0x1ff, 0x1ff, 0x1ff)
one = (ctypes.c_uint32 * 6)(2, 2, 0, 0, 0, 0)
tell([call('capset', ctypes.byref(header), data), call('capset', ctypes.byref(header), one)])`
    for (const user of USERS) assert.deepEqual(await inside(raise, user), ['EPERM', 'EPERM'], user)
  })

  test('PR-03 no namespace can be made or entered', async () => {
    const program = `
KINDS = {'user': 0x10000000, 'mount': 0x20000, 'net': 0x40000000, 'pid': 0x20000000, 'ipc': 0x8000000, 'uts': 0x4000000, 'cgroup': 0x2000000}
found = {name: in_child(lambda: call('unshare', flag)) for name, flag in KINDS.items()}
def clone(flags):
  ctypes.set_errno(0)
  pid = libc.syscall(NUMBERS['clone'][ARCH], ctypes.c_long(flags | 17), 0, 0, 0, 0)
  if pid == 0: os._exit(0)
  if pid > 0: os.waitpid(pid, 0)
  return result(pid)
found['clone'] = in_child(lambda: clone(0x10000000))
found['clone with high bits'] = in_child(lambda: clone(0x10000000 | (1 << 40)))
def enter():
  try: fd = os.open('/proc/self/ns/net', os.O_RDONLY)
  except OSError as e: return errno.errorcode[e.errno]
  return call('setns', fd, 0)
found['setns'] = in_child(enter)
tell(found)`
    const control = await outside<Record<string, string>>(program)
    assert.deepEqual(
      new Set(Object.values(control)),
      new Set(['ok']),
      'the control: root outside makes them all',
    )
    for (const user of USERS)
      for (const [way, answer] of Object.entries(await inside<Record<string, string>>(program, user)))
        assert.ok(REFUSED.includes(answer), `${user}, ${way}: ${answer}`)
  })

  for (const target of ['podd', 'podd connect'])
    test(`PR-05 DK-01 nobody inside traces ${target}, reads its memory or follows its links`, async () => {
      const program = `
pids = [p for p in os.listdir('/proc') if p.isdigit() and read('/proc/%s/cmdline' % p).startswith('/.agentpod/podd\\0')]
pids = [p for p in pids if ('connect' in read('/proc/%s/cmdline' % p)) == ${target === 'podd' ? 'False' : 'True'}]
target = int(os.environ.get('TARGET') or pids[0])
def opened(path, flags=os.O_RDONLY): return attempt(lambda: os.close(os.open(path, flags)))
at = '/proc/%d/' % target
def attach():
  answer = call('ptrace', 0x4206, target, 0, 0)
  if answer == 'ok': call('ptrace', 17, target, 0, 0)
  return answer
tell({'seize': in_child(attach), 'pidfd_getfd': call('pidfd_getfd', libc.syscall(434, target, 0), 0, 0), 'mem': opened(at + 'mem'),
  'environ': opened(at + 'environ'), 'exe': opened(at + 'exe'), 'root': opened(at + 'root'), 'fd/0': opened(at + 'fd/0'), 'fd/1': opened(at + 'fd/1', os.O_WRONLY),
  'ns/user': opened(at + 'ns/user'), 'readlink root': attempt(lambda: os.readlink(at + 'root'))})`
      const control = await outside<Record<string, string>>(program, { TARGET: String(process.pid) })
      for (const way of ['seize', 'mem', 'environ', 'exe', 'root'])
        assert.ok(
          !REFUSED.includes(control[way] ?? ''),
          `the control: ${way} of our own process gives ${control[way]}`,
        )
      for (const user of USERS)
        for (const [way, answer] of Object.entries(await inside<Record<string, string>>(program, user)))
          assert.ok([...REFUSED, 'ENOENT', 'EBADF'].includes(answer), `${user}, ${way}: ${answer}`)
    })

  test('DK-01 the token is nowhere inside, and without it podd’s socket serves nobody', async () => {
    const { token: secret } = plain.created.handle.data
    const search = `
import subprocess
where = ['/.agentpod', '/etc', '/home', '/root', '/tmp', '/run', '/var']
found = subprocess.run(['grep', '-rlsF', '--devices=skip', '-f', '-', *where], input=${JSON.stringify(secret)}, capture_output=True, text=True)
shown = [p for p in ('cmdline', 'environ', 'status') if ${JSON.stringify(secret)} in read('/proc/1/' + p)]
tell(found.stdout.split() + shown)`
    await writeFile(plain.guest, '/home/user/planted', Buffer.from(String(secret)))
    assert.deepEqual(await inside(search), ['/home/user/planted'], 'the control')
    await shell('rm /home/user/planted')
    for (const user of USERS) assert.deepEqual(await inside(search, user), [], user)
    const knock = (line: string): string => `
import socket, time
def ask():
  s = socket.socket(socket.AF_UNIX)
  s.settimeout(3)
  try:
    s.connect('\\0agentpod')
    s.sendall(${JSON.stringify(line)}.encode() + b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n' + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
    return len(s.recv(100))
  except OSError as e: return errno.errorcode.get(e.errno, type(e).__name__)
answer = ask()
tell(answer)`
    for (const user of USERS)
      for (const line of ['', 'agentpod \n', `agentpod ${'0'.repeat(64)}\n`]) {
        const answer = await inside<number | string>(knock(line), user)
        assert.ok(answer === 0 || typeof answer === 'string', `${user} is answered ${answer} bytes`)
      }
    assert.equal(
      (await runCommand(plain.guest, 'echo', ['still'])).stdout,
      'still\n',
      'the way in is as it was',
    )
    // Whoever has the token takes the place of our own connection, so it is tried from outside.
    const program = PRELUDE + knock(`agentpod ${String(secret)}\n`)
    const container = String(plain.created.handle.data['container'])
    const control = stage.daemon.docker('exec', container, '/usr/bin/python3', '-c', program)
    assert.match(control, /^[1-9]\d*$/, 'the control: with the token root is answered')
  })

  describe('calls that reach deep into the kernel', () => {
    let control: Record<string, string>
    const found = new Map<string, Record<string, string>>()
    before(async () => {
      control = await outside(CALLS_PROGRAM)
      for (const user of USERS) found.set(user, await inside(CALLS_PROGRAM, user))
    })
    for (const [id, name] of CALLS)
      test(`${id} ${name} is refused to everybody inside`, () => {
        const reached = control[name] ?? ''
        if (reached !== 'ENOSYS') assert.ok(!['EPERM', 'EACCES'].includes(reached), `the control: ${reached}`)
        for (const [who, answers] of found)
          assert.ok(['EPERM', 'ENOSYS'].includes(answers[name] ?? ''), `${who}: ${answers[name]}`)
      })
  })

  test('PR-11 LK-04 only unix, internet and routing sockets exist, and the network is a loopback of its own', async () => {
    const families = `
found = {}
for family in range(0, 46):
  for kind in (1, 2, 3, 5):
    fd = libc.socket(family, kind, 0)
    if fd >= 0: found.setdefault(str(family), []).append(kind); os.close(fd)
tell(found)`
    const names = `
import socket
tell(sorted(n for _, n in socket.if_nameindex()))`
    assert.ok(
      '17' in (await outside<Record<string, unknown>>(families)),
      'the control: the host opens packet sockets',
    )
    assert.ok((await outside<string[]>(names)).length > 1, 'the control: the host has more than loopback')
    const server = createServer().listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
    const { port } = server.address() as { port: number }
    const dial = `
import socket
tell(attempt(lambda: socket.create_connection(('127.0.0.1', ${port}), 3).close()))`
    assert.equal(await outside(dial), 'ok', 'the control')
    for (const user of USERS) {
      const found = await inside<Record<string, number[]>>(families, user)
      assert.deepEqual(
        Object.keys(found).filter((family) => !['1', '2', '10', '16'].includes(family)),
        [],
        user,
      )
      for (const family of ['2', '10']) assert.ok(!(found[family] ?? []).includes(3), `${user}: a raw socket`)
      assert.deepEqual(await inside(names, user), ['lo'])
      assert.equal(await inside(dial, user), 'ECONNREFUSED')
    }
    server.close()
  })

  test('PR-12 nothing below /proc and /sys that steers the kernel can be written', async () => {
    const program = `
PATHS = ['/proc/sys/kernel/core_pattern', '/proc/sys/kernel/modprobe', '/proc/sys/net/ipv4/ip_forward', '/proc/sys/kernel/hostname',
  '/proc/sysrq-trigger', '/proc/irq/default_smp_affinity', '/sys/kernel/uevent_helper', '/sys/power/state', '/sys/fs/cgroup/release_agent',
  '/sys/kernel/mm/transparent_hugepage/enabled', '/proc/mtrr', '/sys/module/kernel/parameters/panic']
tell({p: read(p)[:0] or attempt(lambda: os.close(os.open(p, os.O_WRONLY))) for p in PATHS})`
    for (const user of USERS)
      for (const [path, answer] of Object.entries(await inside<Record<string, string>>(program, user))) {
        // What Docker masks is /dev/null: it takes everything and does nothing.
        const isMasked = (await shell(`stat -c %t:%T ${path} 2>/dev/null`, user)).trim() === '1:3'
        assert.ok(
          isMasked || ['EROFS', 'EACCES', 'EPERM', 'ENOENT', 'EISDIR'].includes(answer),
          `${user}, ${path}: ${answer}`,
        )
      }
    const may = `tell(os.access('/proc/sys/kernel/core_pattern', os.W_OK))`
    assert.equal(await outside(may), true, 'the control')
  })

  test('LK-17 PR-09 what the kernel tells about the machine is covered', async () => {
    interface Seen {
      sys: string[]
      proc: Record<string, number>
    }
    const control = await outside<Seen>(probes.KERNEL_FILES)
    assert.ok(
      control.sys.some((name) => name.startsWith('/sys/block') || name.startsWith('/sys/fs/')),
      'the control',
    )
    assert.ok((control.proc['keys'] ?? 0) + (control.proc['partitions'] ?? 0) > 0, 'the control')
    for (const user of USERS) {
      const seen = await inside<Seen>(probes.KERNEL_FILES, user)
      assert.deepEqual(
        Object.entries(seen.proc).filter(([, size]) => size > 0),
        [],
        user,
      )
      const shown = seen.sys.filter((name) =>
        /^\/sys\/(?:block|bus|fs|module|firmware|power|dev)\/./.test(name),
      )
      assert.deepEqual(shown, [], user)
    }
  })

  test('LK-01 LK-02 LK-03 a program has the variables it was given, three descriptors, and no socket of an engine', async () => {
    const program = `tell([sorted(os.environ), sorted(os.listdir('/proc/self/fd')), [p for p in ['/var/run/docker.sock', '/run/docker.sock', ${JSON.stringify(stage.daemon.socket)}] if os.path.exists(p)]])`
    for (const user of USERS) {
      const [variables, descriptors, sockets] = await inside<string[][]>(program, user)
      assert.deepEqual(
        variables?.filter(
          (name) => !['PATH', 'HOME', 'USER', 'LOGNAME', 'SHELL', 'PWD', 'LC_CTYPE'].includes(name),
        ),
        [],
      )
      // The listing itself holds one.
      assert.deepEqual(descriptors, ['0', '1', '2', '3'])
      assert.deepEqual(sockets, [])
    }
  })

  test('RS-13 RS-14 neither AIO nor filters of a payload exist', async () => {
    assert.equal(await outside(probes.AIO), 'ok', 'the control: the host has it')
    for (const user of USERS) {
      assert.equal(await inside(probes.AIO, user), 'ENOSYS', user)
      const found = await inside<Record<string, string>>(probes.FILTERS, user)
      assert.deepEqual(
        [found['socket filter'], found['seccomp'], found['prctl']],
        ['EPERM', 'EINVAL', 'EINVAL'],
        user,
      )
    }
  })

  test('RS-01 a fork bomb stays below its limit, and podd and the neighbour answer meanwhile', async () => {
    const [got = 0, why] = await inside<[number, string]>(probes.PROCESSES)
    assert.equal(why, 'EAGAIN')
    assert.ok(got < 96, `${got} processes`)
    assert.equal((await outside<[number, string]>(probes.PROCESSES))[1], 'ok', 'the control')
    assert.equal((await runCommand(neighbour.guest, 'echo', ['here'])).stdout, 'here\n')
    assert.equal((await runCommand(plain.guest, 'echo', ['here'])).stdout, 'here\n')
  })

  test('RS-02 RL-32 a program that eats memory is ended at the limit, and the sandbox survives', async () => {
    const eat = (mib: number): Promise<{ exitCode: number }> =>
      runCommand(plain.guest, '/usr/bin/python3', ['-c', `x = bytearray(${mib} << 20); print(len(x))`])
    assert.equal((await eat(64)).exitCode, 0, 'the control: within its limit it gets its memory')
    assert.notEqual((await eat(1024)).exitCode, 0)
    assert.equal((await runCommand(plain.guest, 'echo', ['alive'])).stdout, 'alive\n')
  })

  test('DK-03 sudo that cannot hold is refused', async () => {
    await rejectsWith(plain.guest.configure({ ...INIT, sudo: true }, CALL), 'unsupported', 'sudo.unsupported')
    await plain.guest.configure({ ...INIT, env: plain.created.env }, CALL)
  })

  test('DK-04 an image’s own accounts, links and variables lead nowhere', async () => {
    const { layers } = stage.provider
    assert.ok(layers)
    const { tarOf, digestOf } = await import('../support/tar-bytes.ts')
    const archive = tarOf([
      { name: 'etc', type: 'directory' },
      { name: 'etc/passwd', type: 'symlink', target: join(stage.daemon.directory, 'canary') },
      { name: 'etc/hosts', type: 'symlink', target: join(stage.daemon.directory, 'canary') },
      { name: '.agentpod', type: 'symlink', target: stage.daemon.directory },
      { name: 'tmp', type: 'symlink', target: stage.daemon.directory },
    ])
    const { Readable } = await import('node:stream')
    await layers.import(digestOf(archive), Readable.from([archive]), CALL)
    const id = newSandboxId(systemRandom)
    const plan = {
      sandboxId: id,
      owner: stage.owner,
      hostname: 'links',
      root: layers.root([digestOf(archive)]),
      resources: resolveResources(RESOURCES),
      required: [],
      deadlineAt: Date.now() + HOUR_MS,
      whenOver: 'destroy' as const,
      mounts: [],
    }
    // Whether it starts or not: nothing outside was read or written.
    const made = await stage.provider.create(plan, CALL).catch(() => undefined)
    await stage.provider.destroy(id, CALL)
    assert.equal(readFileSync(join(stage.daemon.directory, 'canary'), 'utf8'), token)
    for (const name of ['.agentpod-token', 'podd'])
      assert.ok(!existsSync(join(stage.daemon.directory, name)), name)
    assert.ok(made === undefined || typeof made.handle.data['container'] === 'string')
    await layers.remove(digestOf(archive), CALL)
  })

  test('the posture of podd and of payloads is as the golden file says', async (t) => {
    const seen: Record<string, Posture> = { podd: postureOf(plain.pid) }
    for (const [name, user] of [
      ['payload', 'user'],
      ['root payload', 'root'],
    ] as const) {
      const stopping = runCommand(plain.guest, '/bin/sh', ['-c', 'echo $$ > /tmp/pid; kill -STOP $$'], {
        user,
      })
      const pid = await stoppedPid(plain.pid, user)
      seen[name] = postureOf(pid)
      process.kill(pid, 'SIGKILL')
      await stopping.catch(() => undefined)
      await shell('rm -f /tmp/pid', user)
    }
    const kind = existsSync('/sys/fs/cgroup/cgroup.controllers') ? 'v2' : 'v1'
    const file = join(import.meta.dirname, 'golden', `posture-docker-${kind}.json`)
    if (process.env['AGENTPOD_UPDATE_GOLDEN'] === '1') {
      writeFileSync(file, `${JSON.stringify(seen, null, 2)}\n`)
      t.diagnostic(`${file} was written: read it`)
    }
    if (!existsSync(file))
      return t.skip(`no golden file for machines with cgroups ${kind}: AGENTPOD_UPDATE_GOLDEN=1 makes one`)
    assert.deepEqual(seen, JSON.parse(readFileSync(file, 'utf8')))
    for (const [who, { namespaces, status }] of Object.entries(seen)) {
      for (const one of ['cgroup', 'ipc', 'mnt', 'net', 'pid', 'uts'])
        assert.equal(namespaces[one], 'own', `${one} of ${who}`)
      assert.equal(status['NoNewPrivs'], '1', who)
      assert.equal(status['Seccomp'], '2', who)
    }
  })
})

interface Posture {
  readonly status: Record<string, string>
  readonly namespaces: Record<string, 'own' | 'host'>
  readonly limits: Record<string, string>
  readonly descriptors: readonly string[]
  readonly mounts: readonly string[]
  readonly environment: readonly string[]
  readonly oomScoreAdj: string
  readonly groups: Record<string, string>
}

const STATUS = [
  'Uid',
  'Gid',
  'Groups',
  'CapInh',
  'CapPrm',
  'CapEff',
  'CapBnd',
  'CapAmb',
  'NoNewPrivs',
  'Seccomp',
  'Seccomp_filters',
  'Umask',
]
const LIMITS = ['Max core file size', 'Max open files']

function postureOf(pid: number): Posture {
  const read = (name: string): string => readFileSync(`/proc/${pid}/${name}`, 'utf8')
  const fields = (text: string, names: readonly string[]): Record<string, string> =>
    Object.fromEntries(
      names.map((name) => {
        const line =
          text.split('\n').find((one) => one.startsWith(`${name}:`) || one.startsWith(`${name} `)) ?? ''
        return [name, line.slice(name.length).replace(/^:/, '').trim().replaceAll(/\s+/g, ' ')]
      }),
    )
  const kinds = ['cgroup', 'ipc', 'mnt', 'net', 'pid', 'user', 'uts']
  return {
    status: fields(read('status'), STATUS),
    namespaces: Object.fromEntries(
      kinds.map((kind) => [
        kind,
        readlinkSync(`/proc/${pid}/ns/${kind}`) === readlinkSync(`/proc/self/ns/${kind}`) ? 'host' : 'own',
      ]),
    ),
    limits: fields(read('limits'), LIMITS),
    descriptors: [
      ...new Set(
        readdirSync(`/proc/${pid}/fd`).map((fd) =>
          (quietly(() => readlinkSync(`/proc/${pid}/fd/${fd}`)) ?? '')
            .replace(/\[\d+\]/, '')
            .replace(/:\d+$/, ''),
        ),
      ),
    ].sort(),
    mounts: read('mountinfo').trim().split('\n').flatMap(mount).sort(),
    environment: read('environ')
      .split('\0')
      .filter(Boolean)
      .map((pair) => pair.split('=')[0] ?? '')
      .sort(),
    oomScoreAdj: read('oom_score_adj').trim(),
    groups: groups(pid),
  }
}

/** Mount point, kind and flags; what is masked of /proc and /sys differs between kernels. */
function mount(line: string): string[] {
  const [before = '', behind = ''] = line.split(' - ')
  const [point = '', flags = ''] = before.split(' ').slice(4)
  const [kind = '', , options = ''] = behind.split(' ')
  if (/^\/(?:proc|sys)\/(?!sys$)/.test(point)) return []
  const size = /size=\w+/.exec(kind === 'tmpfs' ? options : '')?.[0] ?? ''
  // The disk's own kind and flags are the machine's.
  const isDisk = !['overlay', 'proc', 'tmpfs', 'devpts', 'mqueue', 'sysfs'].includes(kind)
  return [`${point} ${isDisk ? `disk ${flags.split(',')[0]}` : `${kind} ${flags} ${size}`}`.trim()]
}

function groups(pid: number): Record<string, string> {
  const read = (controller: string, file: string): string =>
    quietly(() => readFileSync(join(cgroupDirectory(pid, controller), file), 'utf8').trim()) ?? 'absent'
  return Object.fromEntries(
    (
      [
        ['memory', 'memory.limit_in_bytes'],
        ['memory', 'memory.memsw.limit_in_bytes'],
        ['memory', 'memory.max'],
        ['memory', 'memory.swap.max'],
        ['cpu', 'cpu.cfs_quota_us'],
        ['cpu', 'cpu.max'],
        ['pids', 'pids.max'],
      ] as const
    ).map(([controller, file]) => [file, read(controller, file)]),
  )
}

/** The host's pid of the process that has written its own into /tmp/pid and then stopped itself. */
async function stoppedPid(podd: number, user: string): Promise<number> {
  for (let i = 0; i < 100; i++) {
    const written = Number(quietly(() => readFileSync(`/proc/${podd}/root/tmp/pid`, 'utf8')))
    if (written > 0) {
      const pid = hostPid(podd, written)
      if (/^State:\tT/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))) return pid
    }
    await sleep(50)
  }
  throw new Error(`the payload of ${user} has not stopped`)
}

function imageOf(stage: DockerStage): string {
  return `agentpod-layer:${stage.owner}-${stage.digest}`
}
