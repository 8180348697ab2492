/** Volumes on real sandboxes, over the SDK and the command line. */
import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { basename, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, before, test } from 'node:test'
import { isAgentPodError, type Sandbox } from '../../src/exports/client.ts'
import { bareRun, saidIn } from '../support/acp-user.ts'
import { isAlive, until, World } from '../support/world.ts'

const world = new World()
const pod = world.client()
let hasQuotas = false
before(async () => {
  const { limit } = await pod.volumes.create({ name: 'quota-probe', sizeMib: 16 })
  hasQuotas = limit.level === 'enforced'
  await pod.volumes.remove('quota-probe')
})
after(async () => {
  pod.close()
  await world[Symbol.asyncDispose]()
})

const shell = async (sandbox: Sandbox, script: string, user = 'user'): Promise<string> => {
  const { stdout, stderr } = await sandbox.exec('sh', { args: ['-c', script], user }).wait()
  return `${stdout}${stderr}`.trimEnd()
}

/** A call of E2B's API, as the local user. */
function outside(method: string, path: string, body?: Buffer): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const asked = request({ socketPath: join(world.home, 'run', 'api.sock'), method, path }, (answer) => {
      text(answer).then((said) => resolve({ status: answer.statusCode ?? 0, body: said }), reject)
    })
    asked.once('error', reject)
    asked.end(body)
  })
}

test('VOL-1 a volume survives its sandboxes, and the next command finds its files', async () => {
  assert.equal(await world.ok(['volume', 'create', 'kept']), 'kept\n')
  const run = (script: string, ...options: string[]): Promise<string> =>
    world.ok(['run', '--no-project', ...options, '--', 'sh', '-c', script])
  await run('echo one > /data/file; mkdir /data/sub', '--volume', 'kept:/data')
  assert.equal(await run('cat /srv/kept/file', '--volume', 'kept:/srv/kept:ro'), 'one\n')
  const { code, stderr } = await world.cli(
    ['run', '--no-project', '--volume', 'kept:/data:ro', '--', 'touch', '/data/x'],
    {},
  )
  assert.notEqual(code, 0)
  assert.match(stderr, /Read-only file system/)
  const [row] = JSON.parse(await world.ok(['volume', 'ls', '--json'])) as Record<string, unknown>[]
  assert.equal(row?.['name'], 'kept')
  assert.ok(Number(row?.['usedBytes']) > 0)
  assert.match(await world.ok(['volume', 'inspect', 'kept']), /^used +\d/m)
  await world.ok(['volume', 'rm', 'kept'])
  const gone = await world.cli(['run', '--no-project', '--volume', 'kept:/data', '--', 'true'])
  assert.equal(gone.code, 125, gone.stderr)
  assert.match(gone.stderr, /agentpod volume create kept/)
})

test('VOL-1 a new volume can be written by the user inside, also below their home directory', async () => {
  await pod.volumes.create({ name: 'cache' })
  await pod.volumes.create({ name: 'data' })
  await using sandbox = await pod.create({
    volumes: [
      { volume: 'cache', path: '/home/user/.cache/pip' },
      { volume: 'data', path: '/data' },
    ],
  })
  assert.equal(await shell(sandbox, 'touch ~/.cache/pip/x ~/.cache/y /data/z && stat -c %U ~/.cache'), 'user')
  await sandbox.destroy()
  await pod.volumes.remove('cache')
  await pod.volumes.remove('data')
})

test('VOL-2 stop, start, pause, resume and kill -9 of the server keep the volume mounted', async () => {
  await pod.volumes.create({ name: 'data' })
  await using sandbox = await pod.create({ volumes: [{ volume: 'data', path: '/data' }] })
  await shell(sandbox, 'echo one > /data/file')
  await sandbox.pause()
  await sandbox.resume()
  assert.equal(await shell(sandbox, 'cat /data/file'), 'one')
  await sandbox.stop()
  await assert.rejects(pod.volumes.remove('data'), (error) => {
    assert.ok(isAgentPodError(error, 'conflict') && error.reason === 'volume.used', String(error))
    assert.match(error.hint ?? '', new RegExp(`agentpod destroy ${sandbox.id}`))
    return true
  })
  const pid = world.serverPid
  process.kill(pid, 'SIGKILL')
  await until('the server is gone', () => !isAlive(pid))
  await sandbox.start()
  assert.equal(
    await shell(sandbox, 'cat /data/file; echo two >> /data/file; cat /data/file'),
    'one\none\ntwo',
  )
  await sandbox.destroy()
  await pod.volumes.remove('data')
})

test('VOL-4 snapshots and forks leave a volume out, and share it only when they name it', async () => {
  await pod.volumes.create({ name: 'data' })
  const volumes = [{ volume: 'data', path: '/data' }]
  await using sandbox = await pod.create({ volumes })
  await shell(sandbox, 'echo shared > /data/file; echo own > ~/own')
  const look = 'cat ~/own; ls -A /data; cat /data/file 2>/dev/null'
  const [plain] = await sandbox.fork()
  assert.ok(plain)
  assert.equal(await shell(plain, look), 'own')
  const [sharing] = await sandbox.fork({ volumes })
  assert.ok(sharing)
  assert.equal(await shell(sharing, look), 'own\nfile\nshared')
  const { id } = await sandbox.snapshot()
  await using restored = await pod.create({ snapshot: id })
  assert.equal(await shell(restored, look), 'own')
  for (const one of [plain, sharing, restored, sandbox]) await one.destroy()
  await pod.snapshots.remove(id)
  await pod.volumes.remove('data')
})

test('VOL-1 the run of an agent mounts volumes', async () => {
  await pod.volumes.create({ name: 'data' })
  const volumes = [{ volume: 'data', path: '/data' }]
  const work = 'sh echo by-agent > /data/file; cat /data/file'
  const run = await pod.runs.start({ ...bareRun(work), volumes })
  await run.ended()
  assert.equal(saidIn(await run.events()), 'by-agent\n')
  // Its sandbox is stopped and kept, so the volume is, too.
  await assert.rejects(pod.volumes.remove('data'), /stopped/)
  await run.remove()
  await pod.volumes.remove('data')
})

test('VOL-9 a full volume fails the program that writes, and nothing else', async (t) => {
  if (!hasQuotas) return t.skip('this machine has no quotas; the record says that the size is not enforced')
  await pod.volumes.create({ name: 'small', sizeMib: 16 })
  await using sandbox = await pod.create({ volumes: [{ volume: 'small', path: '/data' }] })
  const said = await shell(sandbox, 'dd if=/dev/zero of=/data/big bs=1M count=64 conv=fsync')
  assert.match(said, /quota exceeded|No space left/i)
  assert.equal(await shell(sandbox, 'echo fine > ~/file && cat ~/file'), 'fine')
  assert.equal(await shell(sandbox, 'rm /data/big && echo again > /data/x && cat /data/x'), 'again')
  const { id } = await pod.volumes.get('small')
  const upload = await outside('PUT', `/volumecontent/${id}/file?path=/new/file`, Buffer.alloc(64 << 20))
  assert.equal(upload.status, 507, upload.body)
  const listing = await outside('GET', `/volumecontent/${id}/dir?path=/new`)
  assert.deepEqual([listing.status, listing.body], [200, '[]'], 'no part of the file is left')
  // The control: without a size there is no limit.
  await pod.volumes.create({ name: 'large' })
  await using other = await pod.create({ volumes: [{ volume: 'large', path: '/data' }] })
  assert.doesNotMatch(
    await shell(other, 'dd if=/dev/zero of=/data/big bs=1M count=64 conv=fsync'),
    /quota|space/i,
  )
  for (const one of [sandbox, other]) await one.destroy()
  for (const name of ['small', 'large']) await pod.volumes.remove(name)
})

test('VOL-10 a project’s volumes are created when they are first used, and are its own', async () => {
  const cwd = world.directory()
  const elsewhere = join(world.directory(), basename(cwd))
  mkdirSync(elsewhere)
  for (const directory of [cwd, elsewhere])
    writeFileSync(
      join(directory, 'agentpod.toml'),
      '[volumes]\ncache = "~/.cache/tool"\ndata = { path = "/var/lib/app", size = "64MB" }\n',
    )
  const run = (directory: string, script: string): Promise<string> =>
    world.ok(['run', '--', 'sh', '-c', script], { cwd: directory })
  await run(cwd, 'echo one > ~/.cache/tool/file; echo two > /var/lib/app/file')
  assert.equal(await run(cwd, 'cat ~/.cache/tool/file /var/lib/app/file'), 'one\ntwo\n')
  // Another project of the same name has its own.
  assert.equal(await run(elsewhere, 'ls ~/.cache/tool /var/lib/app | grep -c file; true'), '0\n')
  const names = (await pod.volumes.list()).map(({ name }) => name)
  assert.equal(names.length, 4)
  for (const name of names) assert.match(name, /^agentpod-project-\w+-[0-9a-f]{8}\.(cache|data)$/)
  // An option at the same path goes first; a volume that would hide the project is refused.
  await pod.volumes.create({ name: 'mine' })
  const words = ['run', '--volume', 'mine:/var/lib/app', '--', 'sh', '-c', 'ls -A /var/lib/app']
  assert.equal(await world.ok(words, { cwd }), '')
  const hiding = await world.cli(['run', '--volume', 'mine:/home/user', '--', 'true'], { cwd })
  assert.match(hiding.stderr, /would hide the copy of the project/)
  for (const { name } of await pod.volumes.list()) await pod.volumes.remove(name)
})

test('VOL-6 a project file with a bad volume is refused with its line', async () => {
  const cwd = world.directory()
  for (const [written, says] of [
    ['[volumes]\ncache = "../x"\n', /agentpod\.toml:2.*not a path for a volume/s],
    ['[volumes]\ncache = "/etc/x"\n', /agentpod\.toml:2.*its own \/etc/s],
    ['[volumes]\na = "/x"\nb = "/x/y"\n', /agentpod\.toml:3.*inside the other/s],
    ['[volumes]\n"kept:x" = "/x"\n', /agentpod\.toml:2/],
  ] as const) {
    writeFileSync(join(cwd, 'agentpod.toml'), written)
    const { code, stderr } = await world.cli(['run', '--', 'true'], { cwd })
    assert.notEqual(code, 0)
    assert.match(stderr, says)
  }
})

test('VOL-6 words that are not a volume are refused before anything is made', async () => {
  for (const word of ['data', 'data:', ':/x', 'data:/x:rx', 'data:/x:ro:y', '/srv:/x', './d:/x', 'data:x']) {
    const { code, stderr } = await world.cli(['create', '--volume', word])
    assert.equal(code, 2, `${word}: ${stderr}`)
    assert.match(stderr, /hint: /)
  }
  assert.deepEqual(await pod.list(), [])
})
