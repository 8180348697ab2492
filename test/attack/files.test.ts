/** Group FS, seen from inside: no path leads to the host or to a neighbour. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { Sandbox } from '../../src/client/sandbox.ts'
import { isAgentPodError } from '../../src/core/error.ts'
import { assertNoToken, Canary, findToken, newToken } from '../support/canary.ts'
import { createWithSudo, differsOn } from '../support/chosen-provider.ts'
import { allPids, outsidePid, podhostOf, quietly, upperOf } from '../support/host-view.ts'
import { inside, outside, shell } from '../support/probe.ts'
import { ROOT, World } from '../support/world.ts'

const world = new World()
const neighbourToken = newToken()
let canary: Canary
let plain: Sandbox
let sudo: Sandbox
let neighbour: Sandbox

before(async () => {
  canary = await Canary.plant()
  const client = world.client()
  plain = await client.create({})
  sudo = await createWithSudo(client)
  neighbour = await client.create({})
  for (const path of ['/home/user/secret', '/tmp/secret', '/dev/shm/secret'])
    await neighbour.writeFile(path, Buffer.from(neighbourToken))
})

after(async () => {
  await canary[Symbol.asyncDispose]()
  await world[Symbol.asyncDispose]()
})

const attackers = (): readonly (readonly [Sandbox, string])[] => [
  [plain, 'user'],
  [plain, 'root'],
  [sudo, 'root'],
]

test('FS-01 the canary cannot be read by its path, nor by any spelling of it', async () => {
  const name = canary.file
  const ways = [
    name,
    `/../../..${name}`,
    `/proc/1/root${name}`,
    `/proc/self/root/../..${name}`,
    `/dev/fd/../..${name}`,
  ]
  const program = `tell([read(p) for p in ${JSON.stringify(ways)}])`
  assert.equal((await outside<string[]>(program))[0], canary.token, 'the control')
  for (const [sandbox, user] of attackers()) {
    const found = await inside<string[]>(sandbox, program, { user })
    for (const [i, answer] of found.entries())
      assert.ok(['ENOENT', 'EACCES', 'ENOTDIR'].includes(answer), `${user}, ${ways[i]}: ${answer}`)
  }
})

test('FS-01 a walk of everything readable meets neither canary', async () => {
  const program = `
import subprocess
tokens = ${JSON.stringify([canary.token, neighbourToken])}
def grep(token, where):
  done = subprocess.run(['grep', '-rlsFI', '--devices=skip', '--exclude-dir=.pyenv', '--exclude-dir=.rustup', '--exclude-dir=.cargo', '-f', '-', *where], input=token, capture_output=True, text=True)
  return done.stdout.split()
tell([grep(t, ['/home', '/root', '/tmp', '/var', '/etc', '/run', '/srv', '/mnt', '/media', '/dev/shm', '/.agentpod']) for t in tokens])`
  await shell(plain, `cat > /tmp/planted`, {}) // An empty file: the walk has something to open.
  for (const [sandbox, user] of attackers())
    assert.deepEqual(await inside<string[][]>(sandbox, program, { user }), [[], []], user)
  await plain.writeFile('/var/tmp/planted', Buffer.from(canary.token))
  const [control] = await inside<string[][]>(plain, program)
  assert.deepEqual(control, ['/var/tmp/planted'], 'the control: the walk finds what is there')
  await shell(plain, 'rm /var/tmp/planted /tmp/planted')
})

test(
  'FS-11 no program of AgentPod is changed through /proc/self/exe',
  differsOn({ gvisor: 'gVisor lets root write to a running program of its own sandbox' }),
  async () => {
    const bin = join(ROOT, 'dist', 'bin')
    // Every sandbox executes the same copy of podd.
    const running = `/proc/${await outsidePid(world, plain.id)}/exe`
    const hashes = (): string[] =>
      [running, ...readdirSync(bin).map((name) => join(bin, name))].map((path) =>
        createHash('sha256').update(readFileSync(path)).digest('hex'),
      )
    const earlier = hashes()
    const overwrite = `
import glob
found = {}
for p in ['/proc/self/exe', '/proc/1/exe'] + glob.glob('/proc/*/exe') + glob.glob('/proc/[0-9]*/fd/*'):
  try:
    fd = os.open(p, os.O_WRONLY | os.O_TRUNC)
    if not (os.readlink(p).startswith('pipe:') or os.readlink(p).startswith('/dev/')): found[p] = os.readlink(p)
    os.close(fd)
  except OSError: pass
tell(found)`
    for (const [sandbox, user] of attackers()) {
      // A program whose interpreter is /proc/self/exe runs whatever started it: podd's child before its exec.
      await sandbox.writeFile('/var/tmp/shim', Buffer.from('#!/proc/self/exe\n'), { user })
      await shell(sandbox, 'chmod 755 /var/tmp/shim', { user })
      await sandbox
        .exec('/var/tmp/shim', { user })
        .wait()
        .catch((error) => assert.ok(isAgentPodError(error)))
      assert.deepEqual(await inside(sandbox, overwrite, { user }), {}, user)
      await shell(sandbox, 'rm -f /var/tmp/shim', { user })
    }
    // A later sandbox starts podd again, from the same copy.
    await using later = await world.client().create({})
    assert.equal(await shell(later, 'echo fine'), 'fine\n')
    assert.deepEqual(hashes(), earlier)
  },
)

test('FS-11 the control: a program that may be overwritten is', async () => {
  const answer = await inside<string>(
    plain,
    `
import shutil
shutil.copy('/usr/bin/true', '/var/tmp/mine')
tell(write('/var/tmp/mine', 'x'))`,
  )
  assert.equal(answer, 'ok')
})

test('FS-12 no working directory leads through a descriptor of podd', async () => {
  const refused: string[] = []
  for (const user of ['user', 'root']) {
    for (const sandbox of [plain, sudo]) {
      for (const at of ['/proc/self/fd', '/proc/1/fd', '/proc/thread-self/fd']) {
        for (let n = 0; n <= 20; n++) {
          const cwd = `${at}/${n}`
          const result = await sandbox
            .exec('/bin/pwd', { cwd, user })
            .wait()
            .catch((error: unknown) => (isAgentPodError(error) ? error : Promise.reject(error)))
          assert.ok(isAgentPodError(result), `${user} started in ${cwd}: ${JSON.stringify(result)}`)
          refused.push(cwd)
        }
      }
    }
  }
  assert.equal(refused.length, 2 * 2 * 3 * 21)
})

test('FS-12 no working directory leads through a link to one, /proc/self/cwd, /proc/self/root or above the root', async () => {
  await shell(
    plain,
    'ln -sfn /proc/self/fd/4 /tmp/door; ln -sfn /proc/1/root /tmp/door2; ln -sfn /tmp /tmp/door3',
  )
  for (const cwd of [
    '/tmp/door',
    '/tmp/door2',
    '/proc/self/cwd',
    '/proc/self/root',
    '/proc/1/root',
    '/proc',
    '/proc/1/ns',
  ])
    await assert.rejects(plain.exec('/bin/pwd', { cwd }).wait(), (error) => isAgentPodError(error), cwd)
  const above = await plain.exec('/bin/ls', { cwd: '/../../../..' }).wait()
  assert.match(above.stdout, /^\.?.*\bhome\b/s, 'above the root is the root')
  assertNoToken(above.stdout, canary.token, 'the listing')
  const control = await plain.exec('/bin/pwd', { cwd: '/tmp/door3' }).wait()
  assert.equal(control.stdout.trim(), '/tmp', 'the control: an ordinary link is followed')
})

test('FS-16 only processes of the sandbox show, and none of their links leads out', async () => {
  const program = `
found = {'pids': [int(p) for p in os.listdir('/proc') if p.isdigit()], 'breach': []}
for p in found['pids']:
  for link in ('root', 'cwd'):
    at = '/proc/%d/%s' % (p, link)
    try: names = os.listdir(at)
    except OSError: continue
    if os.path.exists(at + ${JSON.stringify(canary.directory)}): found['breach'].append(at)
  try:
    for fd in os.listdir('/proc/%d/fd' % p):
      try: target = os.readlink('/proc/%d/fd/%s' % (p, fd))
      except OSError: continue
      if not target.startswith(('pipe:', 'socket:', '/proc/', '/dev/')): found['breach'].append(target)
  except OSError: pass
# A busy host has more than the caller of a probe takes.
found['breach'] = found['breach'][:100]
tell(found)`
  const control = await outside<{ pids: number[]; breach: string[] }>(program)
  assert.ok(control.pids.length > 10, 'the control: the host shows many')
  assert.ok(control.breach.length > 0, 'the control: and what they have open')
  for (const [sandbox, user] of attackers()) {
    const found = await inside<{ pids: number[]; breach: string[] }>(sandbox, program, { user })
    assert.ok(found.pids.length <= 5, `${user} sees ${found.pids.length} processes`)
    assert.deepEqual(found.breach, [], user)
  }
})

test('FS-29 the files of another sandbox are not there, wherever one looks', async () => {
  const upper = join(world.home, 'sandboxes', neighbour.id)
  const places = ['/home/user/secret', '/tmp/secret', '/dev/shm/secret']
  const control = await inside<string[]>(neighbour, `tell([read(p) for p in ${JSON.stringify(places)}])`)
  assert.deepEqual(control, [neighbourToken, neighbourToken, neighbourToken], 'the control')
  const guesses = [
    ...places,
    world.home,
    join(world.home, 'sandboxes'),
    upper,
    `${upper}/upper/0/home/user/secret`,
    `/mnt/root/${neighbour.id}/home/user/secret`,
    '/mnt/lower/1',
    '/var/lib/agentpod',
    '/proc/1/root/mnt/root',
  ]
  const program = `tell({p: (read(p) if not os.path.isdir(p) else os.listdir(p)) for p in ${JSON.stringify(guesses)}})`
  for (const [sandbox, user] of attackers()) {
    const found = await inside<Record<string, string>>(sandbox, program, { user })
    for (const [path, answer] of Object.entries(found))
      assert.ok(['ENOENT', 'EACCES', 'ENOTDIR'].includes(answer), `${user}, ${path}: ${answer}`)
  }
})

test('FS-29 a sandbox that comes after a destroyed one finds nothing of it', async () => {
  const client = world.client()
  const first = await client.create({})
  await shell(first, `echo '${neighbourToken}' | tee /tmp/a /var/tmp/b /dev/shm/c /home/user/d /usr/e`, {
    user: 'root',
  })
  await first.destroy()
  await using second = await client.create({})
  const found = await shell(second, 'cat /tmp/a /var/tmp/b /dev/shm/c /home/user/d /usr/e')
  assert.equal(findToken(found, neighbourToken), undefined)
  assert.equal(found.match(/No such file/g)?.length, 5)
})

test(
  'files that root with sudo writes belong to nobody outside, set-user-id files included',
  differsOn({
    qemu: 'they are on a disk that the host never mounts',
    docker: 'root inside is root of the daemon’s machine unless the daemon remaps users',
  }),
  async () => {
    const name = `agentpod-owned-${sudo.id}`
    await shell(
      sudo,
      `cp /usr/bin/true /usr/bin/${name}; chmod 6755 /usr/bin/${name}; cp /usr/bin/true /home/user/${name}`,
      {
        user: 'root',
      },
    )
    assert.match(
      await shell(sudo, `ls -ln /usr/bin/${name}`),
      /^-rwsr-sr-x 1 0 0 /,
      'the control: root inside',
    )
    const podhost = podhostOf(world)
    const upper = await upperOf(podhost, world, sudo.id)
    await podhost.close()
    const tops = readdirSync(upper).map((n) => join(upper, n))
    const files = tops
      .flatMap((top) => [join(top, 'bin', name), join(top, 'home/user', name)])
      .flatMap((path) => quietly(() => [statSync(path)]) ?? [])
    assert.equal(files.length, 2, 'both are found outside')
    for (const { uid, gid } of files) assert.ok(uid >= 65536 && gid >= 65536, `owned by ${uid}:${gid}`)
    assert.equal(
      quietly(() => statSync(`/usr/bin/${name}`)),
      undefined,
      'the host has no such file',
    )
  },
)

test('files written over the host base stay in the sandbox', async () => {
  const earlier = createHash('sha256').update(readFileSync('/usr/bin/env')).digest('hex')
  await shell(
    sudo,
    'echo broken > /usr/bin/env; rm -rf /usr/share/doc /opt/*; echo x > /etc/passwd2; mv /usr/bin/cat /usr/bin/cat2',
    {
      user: 'root',
    },
  )
  assert.equal(
    await shell(sudo, 'wc -c < /usr/bin/env', { user: 'root' }),
    '7\n',
    'the control: inside it is broken',
  )
  assert.equal(createHash('sha256').update(readFileSync('/usr/bin/env')).digest('hex'), earlier)
  assert.ok(statSync('/usr/bin/cat').isFile())
  assert.match(
    await shell(plain, 'env --version; ls /usr/bin/cat'),
    /coreutils.*\/usr\/bin\/cat/s,
    'the neighbour too',
  )
})

test(
  'chroot, given with sudo, leads nowhere but inside',
  differsOn({
    gvisor: 'gVisor has no way out of a chroot, so the control fails',
    docker: 'root there may not call chroot',
  }),
  async () => {
    const program = `
os.makedirs('/tmp/cell', exist_ok=True)
def escape():
  above = os.open('/', os.O_RDONLY)
  os.chroot('/tmp/cell')
  os.fchdir(above)
  for _ in range(64): os.chdir('..')
  os.chroot('.')
  return [sorted(os.listdir('/')), os.path.exists(${JSON.stringify(canary.file)})]
tell(in_child(escape))`
    const found = await inside<string>(sudo, program, { user: 'root' })
    assert.match(found, /'\.agentpod'/, 'the control: it gets out of its own cell')
    assert.match(found, /False\]$/)
  },
)

test('the links of mounts and of podd name nothing that can be opened', async () => {
  const program = `
import glob
found = []
for p in glob.glob('/proc/[0-9]*/map_files/*') + glob.glob('/proc/[0-9]*/task/*/root') + glob.glob('/proc/[0-9]*/ns/*'):
  try:
    target = os.stat(p)
    if os.path.isdir(p) and os.path.exists(p + ${JSON.stringify(canary.directory)}): found.append(p)
  except OSError: pass
tell(found)`
  for (const [sandbox, user] of attackers())
    assert.deepEqual(await inside(sandbox, program, { user }), [], user)
})

test('/proc shows podd with no environment, no path of the host and no descriptor', async () => {
  const pid = await outsidePid(world, plain.id)
  assert.ok(allPids().includes(pid), 'the control: it is a process of the host')
  const program = `tell([read('/proc/1/environ'), read('/proc/1/cmdline'), read('/proc/1/cgroup'), attempt(lambda: os.readlink('/proc/1/exe'))])`
  for (const [sandbox, user] of attackers()) {
    const [environ = '', cmdline = '', cgroup = '', exe] = await inside<string[]>(sandbox, program, { user })
    assert.equal(environ, 'EACCES', user)
    assert.equal(exe, 'EACCES', user)
    assert.ok(cmdline.startsWith('/.agentpod/podd'), cmdline)
    assert.ok(!cgroup.includes(plain.id) && !cgroup.includes('agentpod'), cgroup)
  }
})

test('the mount table does not tell where the state directory is', async () => {
  for (const [sandbox, user] of attackers()) {
    const table = await shell(sandbox, 'cat /proc/self/mountinfo /proc/1/mountinfo', { user })
    assert.ok(!table.includes(world.home), `${user} reads ${world.home} in the mount table`)
  }
})

test('a file that the host changes under a running sandbox is not written back', async () => {
  const file = join(canary.directory, 'watched')
  writeFileSync(file, 'before')
  assert.match(await shell(sudo, `echo after > ${file}; ls ${file}`, { user: 'root' }), /No such file/)
  assert.equal(readFileSync(file, 'utf8'), 'before')
})
