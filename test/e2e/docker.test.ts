/** AgentPod as a person uses it, with containers of Docker: nothing differs but the name of the provider. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { NO_DOCKER } from '../support/docker-daemon.ts'
import { type DockerStage, openDocker } from '../support/docker-provider.ts'
import { until, World } from '../support/world.ts'

const IMAGE = 'example:1'
const ON_DOCKER = ['--provider', 'docker', '--image', IMAGE]

describe('agentpod on Docker', { skip: NO_DOCKER, timeout: 600_000 }, () => {
  let stage: DockerStage
  let world: World

  before(async () => {
    stage = await openDocker()
    stage.daemon.docker('import', '--change', 'ENV GREETING=hello', stage.rootFile, IMAGE)
    world = new World({
      env: { DOCKER_HOST: `unix://${stage.daemon.socket}`, DOCKER_CONFIG: stage.daemon.directory },
    })
  })

  after(async () => {
    try {
      await world?.[Symbol.asyncDispose]()
      const filter = ['--filter', 'label=agentpod.sandbox']
      if (stage) assert.equal(stage.daemon.docker('ps', '-aq', ...filter), '', 'a reset leaves no container')
    } finally {
      await stage?.close()
    }
  })

  test('the provider is listed with what it can do, and its diagnosis says what is limited', async () => {
    const listed = JSON.parse(await world.ok(['provider', 'ls', '--json'])) as Record<string, unknown>[]
    const docker = listed.find(({ name }) => name === 'docker')
    assert.equal(docker?.['isolation'], 'container')
    assert.equal(docker?.['ready'], true)
    assert.match(await world.ok(['provider', 'check', 'docker']), /Docker \d+\./)
  })

  test('an image becomes a sandbox with its variables, and files go in, out and through a fork', async () => {
    await world.ok(['create', ...ON_DOCKER, '--name', 'one'])
    assert.equal(await world.ok(['exec', 'one', '--', 'printenv', 'GREETING']), 'hello\n')
    const directory = world.directory()
    writeFileSync(join(directory, 'in.txt'), 'content')
    await world.ok(['cp', join(directory, 'in.txt'), 'one:/tmp/in.txt'])
    assert.equal(await world.ok(['exec', 'one', '--', 'cat', '/tmp/in.txt']), 'content')
    await world.ok(['exec', 'one', '--', 'sh', '-c', 'mkdir -p /var/kept && echo kept > /var/kept/file'])
    await world.ok(['fork', 'one', '--name', 'two'])
    assert.equal(await world.ok(['exec', 'two', '--', 'cat', '/var/kept/file']), 'kept\n')
    for (const verb of ['pause', 'resume', 'stop', 'start']) await world.ok([verb, 'two'])
    assert.equal(await world.ok(['exec', 'two', '--', 'cat', '/var/kept/file']), 'kept\n')
    const rows = JSON.parse(await world.ok(['ls', '--json'])) as {
      name: string
      provider: string
      isolation: string
    }[]
    assert.deepEqual(rows.map(({ name, provider, isolation }) => [name, provider, isolation]).sort(), [
      ['one', 'docker', 'container'],
      ['two', 'docker', 'container'],
    ])
    await world.ok(['destroy', 'one', 'two'])
  })

  test('a server that is killed finds its sandbox again and goes on', async () => {
    await world.ok(['create', ...ON_DOCKER, '--name', 'lasting'])
    const pid = world.serverPid
    process.kill(pid, 'SIGKILL')
    await until('the server is gone', () => {
      try {
        process.kill(pid, 0)
        return false
      } catch {
        return true
      }
    })
    assert.equal(await world.ok(['exec', 'lasting', '--', 'echo', 'again']), 'again\n')
    stage.daemon.docker('rm', '-f', stage.daemon.docker('ps', '-q', '--filter', 'label=agentpod.sandbox'))
    const gone = await world.cli(['exec', 'lasting', '--', 'true'])
    assert.notEqual(gone.code, 0, 'a container that somebody removed is no sandbox any more')
    await world.cli(['destroy', 'lasting'])
  })

  test('nothing leaves a sandbox that may reach nothing, and programs are told so', async () => {
    await world.ok(['create', ...ON_DOCKER, '--name', 'alone'])
    const ask = `exec 3<>/dev/tcp/127.0.0.1/61080 && printf 'CONNECT example.com:443 HTTP/1.1\\r\\nHost: example.com\\r\\n\\r\\n' >&3 && head -n 1 <&3`
    assert.match(await world.ok(['exec', 'alone', '--', 'bash', '-c', ask]), /^HTTP\/1\.1 403/)
    const direct = await world.cli(['exec', 'alone', '--', 'bash', '-c', 'exec 3<>/dev/tcp/192.0.2.1/80'])
    assert.match(direct.stderr, /unreachable/i)
    await world.ok(['destroy', 'alone'])
  })

  test('a run leaves a branch', async () => {
    const project = world.directory()
    const git = (...args: string[]): string =>
      execFileSync('git', ['-c', 'user.name=T', '-c', 'user.email=t@example.com', ...args], {
        cwd: project,
        encoding: 'utf8',
      })
    git('init', '--quiet', '--initial-branch=main')
    writeFileSync(join(project, 'a.txt'), 'a\n')
    git('add', '.')
    git('commit', '--quiet', '--message=one')
    await world.ok(['run', ...ON_DOCKER, '--', 'sh', '-c', 'echo changed > b.txt'], { cwd: project })
    const branch =
      git('branch', '--list', 'agentpod/*', '--format=%(refname:short)').trim().split('\n').at(-1) ?? ''
    assert.notEqual(branch, '')
    assert.equal(git('show', `${branch}:b.txt`), 'changed\n')
  })

  test('what Docker cannot do is refused before anything is made', async () => {
    const filter = ['--filter', 'label=agentpod.sandbox']
    const earlier = stage.daemon.docker('ps', '-aq', ...filter)
    for (const [args, words] of [
      [['--disk', '1g'], /disk/],
      [['--isolation', 'vm'], /isolation|vm/],
    ] as const) {
      const { code, stderr } = await world.cli(['create', ...ON_DOCKER, ...args])
      assert.notEqual(code, 0)
      assert.match(stderr, words)
    }
    assert.equal(stage.daemon.docker('ps', '-aq', ...filter), earlier)
  })
})
