/** The commands of the guide to CI, in each setting that it describes. */
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { DockerDaemon, NO_DOCKER } from '../support/docker-daemon.ts'
import { commandsIn, runAll } from '../support/documented.ts'
import { makeOrdinaryUser, noOrdinaryUser } from '../support/ordinary-user.ts'
import { ROOT, World } from '../support/world.ts'

const GUIDE = readFileSync(join(ROOT, 'docs', 'guides', 'ci.md'), 'utf8')
const LINES = commandsIn(GUIDE)

test('the commands of ci.md work for the user who runs the tests', { timeout: 120_000 }, async () => {
  await using world = new World()
  assert.ok(LINES.length >= 4)
  runAll(LINES, world.home, {
    cwd: world.directory(),
    env: { PATH: `${ROOT}:${process.env['PATH']}` },
  })
})

test('the commands of ci.md work for an ordinary user', {
  skip: noOrdinaryUser(),
  timeout: 120_000,
}, () => {
  using user = makeOrdinaryUser()
  const project = join(user.home, 'project')
  mkdirSync(project)
  for (const line of LINES) {
    const { status, stderr } = spawnSync('sh', ['-c', line], {
      cwd: project,
      uid: user.uid,
      gid: user.gid,
      encoding: 'utf8',
      input: '',
      env: {
        PATH: `${dirname(user.agentpod)}:${process.env['PATH']}`,
        HOME: user.home,
        USER: user.name,
        AGENTPOD_HOME: join(user.home, 'state'),
      },
    })
    assert.equal(status, 0, `${line}\n${stderr}`)
  }
})

const NO_CONTAINER =
  NO_DOCKER || noOrdinaryUser() || (existsSync('/usr/sbin/setcap') ? false : 'setcap is not installed')

test('the commands of ci.md work in a container with the options of the guide, and not without them', {
  skip: NO_CONTAINER,
  timeout: 240_000,
}, async () => {
  const [, options = '', volume = ''] =
    /docker run --rm ((?:--security-opt \S+ )+)\\\n +-v (\S+) IMAGE/.exec(GUIDE) ?? []
  assert.match(options, /seccomp=/)
  await using daemon = await DockerDaemon.start()
  using image = containerImage(daemon)
  const run = (words: readonly string[], command: string): { status: number | null; output: string } => {
    const all = ['run', '--rm', '--network=none', ...words, ...image.mounts, image.name, 'sh', '-c', command]
    const { status, stdout, stderr } = spawnSync('docker', all, { encoding: 'utf8', env: daemon.env })
    return { status, output: `${stdout}${stderr}` }
  }
  const script = ['mkdir ~/project', 'cd ~/project', ...LINES].join(' && ')
  const allowed = run([...options.trim().split(' '), '-v', volume], script)
  assert.equal(allowed.status, 0, allowed.output)
  const refused = run(['-v', volume], 'agentpod doctor')
  assert.equal(refused.status, 6, refused.output)
  assert.match(refused.output, /--security-opt seccomp=unconfined/)
  const covered = run(['--security-opt', 'seccomp=unconfined', '-v', volume], 'agentpod doctor')
  assert.equal(covered.status, 6, covered.output)
  assert.match(covered.output, /--security-opt systempaths=unconfined/)
})

const CI = { name: 'ci', id: 1001, home: '/home/ci' }

interface ContainerImage extends Disposable {
  readonly name: string
  /**
   * What the guide's Dockerfile installs: the programs of this machine, AgentPod, and newuidmap with file
   * capabilities.
   */
  readonly mounts: readonly string[]
}

function containerImage(daemon: DockerDaemon): ContainerImage {
  const scratch = mkdtempSync(join(tmpdir(), 'agentpod-ci-'))
  const root = join(scratch, 'root')
  for (const name of ['usr', 'etc', 'proc', 'sys', 'dev', 'run', 'root', 'tmp', 'var/tmp', 'home/ci'])
    mkdirSync(join(root, name), { recursive: true })
  for (const name of ['tmp', 'var/tmp']) chmodSync(join(root, name), 0o1777)
  for (const name of ['bin', 'sbin', 'lib', 'lib64']) symlinkSync(`usr/${name}`, join(root, name))
  chownSync(join(root, CI.home), CI.id, CI.id)
  const account = `${CI.name}:x:${CI.id}:${CI.id}`
  writeFileSync(join(root, 'etc/passwd'), `root:x:0:0:root:/root:/bin/sh\n${account}::${CI.home}:/bin/sh\n`)
  writeFileSync(join(root, 'etc/group'), `root:x:0:\n${CI.name}:x:${CI.id}:\n`)
  for (const name of ['subuid', 'subgid']) writeFileSync(join(root, 'etc', name), `${CI.name}:100000:65536\n`)
  execFileSync('tar', ['--create', '--file', join(scratch, 'root.tar'), '--directory', root, '.'])
  daemon.docker('import', '--change', `USER ${CI.name}`, join(scratch, 'root.tar'), 'ci')
  const bin = join(scratch, 'bin')
  mkdirSync(bin)
  chmodSync(scratch, 0o755)
  for (const [program, capability] of [
    ['newuidmap', 'cap_setuid'],
    ['newgidmap', 'cap_setgid'],
  ] as const) {
    copyFileSync(`/usr/bin/${program}`, join(bin, program))
    chmodSync(join(bin, program), 0o755)
    execFileSync('/usr/sbin/setcap', [`${capability}=ep`, join(bin, program)])
  }
  const user = makeOrdinaryUser()
  const agentpod = dirname(user.agentpod)
  return {
    name: 'ci',
    mounts: [
      ...['-v', '/usr:/usr:ro', '-v', `${agentpod}:${agentpod}:ro`],
      ...['-v', `${bin}:${bin}:ro`, '-e', `PATH=${agentpod}:${bin}:/usr/bin:/usr/sbin`],
      ...['-e', `HOME=${CI.home}`],
    ],
    [Symbol.dispose]: () => {
      user[Symbol.dispose]()
      rmSync(scratch, { recursive: true, force: true })
    },
  }
}
