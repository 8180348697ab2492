/** Docker on the command line: its capabilities, its failures, and a branch as the result. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { ProviderView } from '../../src/api/schema/provider.ts'
import type { SandboxView } from '../../src/api/schema/sandbox.ts'
import { DockerDaemon, NO_DOCKER } from '../support/docker-daemon.ts'
import { packRoot } from '../support/docker-root.ts'
import { Internet, noInternet, SITE } from '../support/internet.ts'
import { type CliResult, until, type World } from '../support/world.ts'

const IMAGE = 'tests/small:1'
const TOKEN = `canary-${Math.random().toString(36).slice(2)}`
const skip = NO_DOCKER || noInternet()

let daemon: DockerDaemon
let internet: Internet
let world: World
let repository: string

before(async () => {
  if (skip) return
  daemon = await DockerDaemon.start()
  const file = join(daemon.directory, 'small.tar')
  packRoot(file)
  daemon.docker('import', file, IMAGE)
  internet = await Internet.open(['site.example'])
  internet.name('site.example', [SITE])
  internet.name('other.example', [SITE])
  const { DOCKER_HOST = '' } = daemon.env
  // Without QEMU, no provider offers the strongest isolation.
  world = internet.world({ DOCKER_HOST, MY_TOKEN: TOKEN, AGENTPOD_QEMU: '/nowhere/qemu' })
  repository = world.directory()
  const git = (...words: string[]): unknown =>
    execFileSync('git', ['-c', 'user.name=n', '-c', 'user.email=n@example.com', ...words], {
      cwd: repository,
    })
  git('init', '--quiet')
  writeFileSync(join(repository, 'one.txt'), 'one\n')
  git('add', '.')
  git('commit', '--quiet', '-m', 'one')
})
after(async () => {
  if (skip) return
  try {
    await world[Symbol.asyncDispose]()
  } finally {
    await internet[Symbol.asyncDispose]()
    await daemon[Symbol.asyncDispose]()
  }
})

const ON_DOCKER = ['--provider', 'docker', '--image', IMAGE]

/** A request through the proxy in the variables of programs inside. */
function asked(url: string, header = ''): string {
  const head = `GET ${url} HTTP/1.1\\r\\nHost: ${new URL(url).host}\\r\\n${header}Connection: close\\r\\n\\r\\n`
  return `exec 3<>/dev/tcp/127.0.0.1/61080; printf "${head}" >&3; cat <&3`
}

async function refused(
  words: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<CliResult> {
  const answer = await world.cli(words, { env })
  assert.notEqual(answer.code, 0, answer.stdout)
  assert.match(answer.stderr, /^error: .+\nhint: .+/m)
  return answer
}

describe('agentpod on docker', { skip }, () => {
  test('PROV-5 Docker is listed with its capabilities, and its check says that it is ready', async () => {
    const providers = JSON.parse(await world.ok(['provider', 'ls', '--json'])) as ProviderView[]
    const docker = providers.find(({ name }) => name === 'docker')
    assert.deepEqual(
      [docker?.ready, docker?.isolation, docker?.capabilities?.images, docker?.capabilities?.network],
      [true, 'container', true, 'proxy'],
    )
    assert.match(await world.ok(['provider', 'check', 'docker']), /^docker is ready\.\n/)
    assert.match(await world.ok(['doctor']), /docker: Docker \d/)
  })

  test('PROV-5 a command on Docker runs on a copy of the repository and leaves a branch', async () => {
    const run = ['run', ...ON_DOCKER, '--bare', '--', 'sh', '-c', 'cat one.txt; echo two > two.txt']
    const { code, stdout, stderr } = await world.cli(run, { cwd: repository })
    assert.deepEqual([code, stdout], [0, 'one\n'], stderr)
    const [branch = ''] = /agentpod\/\S+/.exec(stderr) ?? []
    const shown = execFileSync('git', ['show', `${branch}:two.txt`], { cwd: repository, encoding: 'utf8' })
    assert.equal(shown, 'two\n')
    assert.deepEqual(JSON.parse(await world.ok(['ls', '--json'])), [], 'nothing is left')
  })

  test('PROV-5 a sandbox on Docker reaches nothing unless it is allowed, and a secret stays outside', async () => {
    await world.ok(['secret', 'set', 'MY_TOKEN', '--host', 'site.example', '--from-env', 'MY_TOKEN'])
    const create = [
      'create',
      ...ON_DOCKER,
      '--name',
      'net',
      '--allow',
      'site.example',
      '--secret',
      'MY_TOKEN',
    ]
    await world.ok(create)
    const exec = (script: string): Promise<string> => world.ok(['exec', 'net', '--', 'bash', '-c', script])
    assert.match(await exec(asked('http://site.example/')), /hello from /)
    assert.match(await exec(asked('http://other.example/')), /no rule allows other\.example/)
    assert.ok(!(await exec('env; cat /proc/*/environ 2>/dev/null || true')).includes(TOKEN))
    assert.match(await exec('env'), /^MY_TOKEN=/m, 'it has the placeholder')
    await world.ok(['destroy', 'net'])
  })

  test('PROV-5 a sandbox on Docker is paused, stopped, snapshotted and forked, also after a server restart', async () => {
    await world.ok(['create', ...ON_DOCKER, '--name', 'one'])
    await world.ok(['exec', 'one', '--', 'sh', '-c', 'echo kept > /root/kept'])
    await world.ok(['server', 'stop'])
    await world.ok(['pause', 'one'])
    assert.equal(await world.ok(['exec', 'one', '--', 'cat', '/root/kept']), 'kept\n', 'a call wakes it')
    await world.ok(['stop', 'one'])
    await world.ok(['start', 'one'])
    await world.ok(['snapshot', 'create', 'one', '--name', 'golden'])
    await world.ok(['fork', 'one', '--name', 'two'])
    await world.ok(['restore', 'golden', '--name', 'three'])
    for (const name of ['one', 'two', 'three'])
      assert.equal(await world.ok(['exec', name, '--', 'cat', '/root/kept']), 'kept\n', name)
    const listed = JSON.parse(await world.ok(['ls', '--json'])) as SandboxView[]
    assert.deepEqual(
      [...new Set(listed.map((one) => `${one.provider} ${one.isolation}`))],
      ['docker container'],
    )
    for (const name of ['one', 'two', 'three']) await world.ok(['destroy', name])
    await world.ok(['snapshot', 'rm', 'golden'])
    assert.equal(daemon.docker('ps', '--all', '--quiet'), '')
  })

  test('PROV-5 files go in and out of Docker, and a container that another program removed is gone', async () => {
    await world.ok(['create', ...ON_DOCKER, '--name', 'lasting'])
    writeFileSync(join(repository, 'in.txt'), 'content')
    await world.ok(['cp', join(repository, 'in.txt'), 'lasting:/tmp/in.txt'])
    process.kill(world.serverPid, 'SIGKILL')
    assert.equal(await world.ok(['exec', 'lasting', '--', 'cat', '/tmp/in.txt']), 'content')
    daemon.docker('rm', '-f', daemon.docker('ps', '--quiet', '--filter', 'label=agentpod.sandbox'))
    const { code } = await world.cli(['exec', 'lasting', '--', 'true'])
    assert.notEqual(code, 0)
    await until('its record says so', async () => (await world.ok(['ls', '--json'])) === '[]\n')
  })

  test('AGENTPOD_PROVIDER and config.toml choose the provider, and an option overrides both', async () => {
    const providerOf = async (words: readonly string[], env = {}): Promise<string> => {
      const { provider } = JSON.parse(await world.ok(['create', '--json', ...words], { env })) as SandboxView
      return provider
    }
    const env = { AGENTPOD_PROVIDER: 'docker' }
    assert.equal(await providerOf(['--image', IMAGE], env), 'docker')
    assert.equal(await providerOf(['--provider', 'crun'], env), 'crun')
    writeFileSync(join(world.home, 'config.toml'), 'provider = "docker"\n')
    assert.equal(await providerOf(['--image', IMAGE]), 'docker')
    assert.equal(await providerOf([], { AGENTPOD_PROVIDER: 'crun' }), 'crun')
    writeFileSync(join(world.home, 'config.toml'), '')
    const listed = JSON.parse(await world.ok(['ls', '--json'])) as SandboxView[]
    for (const { id } of listed) await world.ok(['destroy', id])
  })

  test('PROV-3 PROV-4 requests that no provider here can meet are refused before anything is created', async () => {
    assert.match(
      (await refused(['create', '--provider', 'nope'])).stderr,
      /unknown provider nope.*\n.*crun, gvisor, qemu, docker/,
    )
    assert.match(
      (await refused(['create', '--isolation', 'vm'])).stderr,
      /no provider of this server offers isolation vm/,
    )
    const weak = await refused(['create', ...ON_DOCKER, '--isolation', 'gvisor'])
    assert.match(weak.stderr, /the provider docker does not offer isolation/)
    assert.match((await refused(['create', ...ON_DOCKER, '--disk', '1g'])).stderr, /limit on disk/)
    assert.match(
      (await refused(['create', '--provider', 'docker', '--base', 'host'])).stderr,
      /this machine's tools/,
    )
    const unknown = await refused(['create', '--provider', 'docker', '--image', 'tests/none:1'])
    assert.match(unknown.stderr, /tests\/none:1/)
    writeFileSync(join(repository, 'agentpod.toml'), 'isolation = "vm"\n')
    const { code, stderr } = await world.cli(['run', ...ON_DOCKER, '--bare', '--', 'true'], {
      cwd: repository,
    })
    assert.notEqual(code, 0)
    assert.match(stderr, /does not offer isolation vm/, 'a project may raise it')
    assert.deepEqual(JSON.parse(await world.ok(['ls', '--all', '--json'])).at(0)?.provider, 'docker')
    assert.equal(daemon.docker('ps', '--all', '--quiet'), '')
  })

  test('PROV-1 a Docker daemon that is gone is reported, and crun keeps working', async () => {
    // A sandbox that is to be stopped at its end would be stopped instead.
    await world.ok(['create', ...ON_DOCKER, '--name', 'held', '--when-over', 'destroy'])
    await daemon.kill()
    const providers = JSON.parse(await world.ok(['provider', 'ls', '--json'])) as ProviderView[]
    const docker = providers.find(({ name }) => name === 'docker')
    assert.equal(docker?.ready, false)
    assert.match(docker?.reason ?? '', /Docker/)
    await refused(['create', ...ON_DOCKER])
    assert.equal(await world.ok(['run', '--no-project', '--', 'echo', 'here']), 'here\n')
    const listed = JSON.parse(await world.ok(['ls', '--json'])) as SandboxView[]
    assert.deepEqual(
      listed.map(({ name, state }) => [name, state]),
      [['held', 'running']],
      'nothing of it is taken for gone',
    )
    await daemon.start()
    // A restarted daemon ends its containers unless it was told to keep them; AgentPod then reports them as
    // gone.
    await until('its end is seen', async () => {
      const all = JSON.parse(await world.ok(['ls', '--all', '--json'])) as SandboxView[]
      return all.some(({ name, state, ending }) => name === 'held' && state === 'failed' && ending !== null)
    })
    // The record says that it ended before its container is removed.
    await until('nothing of it is left', () => daemon.docker('ps', '--all', '--quiet') === '')
    assert.equal(await world.ok(['run', '--no-project', ...ON_DOCKER, '--', 'echo', 'again']), 'again\n')
  })
})
