/** Development containers: Features from registries and tarballs, and projects that have only their file. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { isAgentPodError } from '../../src/core/error.ts'
import { featureArchive, putFeature, putFeatureArchive } from '../support/made-feature.ts'
import { makeImage, sha256 } from '../support/made-image.ts'
import type { TarEntry } from '../support/tar-bytes.ts'
import { busyboxFiles, NO_BUSYBOX } from '../support/tiny-images.ts'
import { ToyRegistry } from '../support/toy-registry.ts'
import { type CliResult, World } from '../support/world.ts'

describe('Features', () => {
  const world = new World()
  let registry: ToyRegistry
  let web: Server
  let site = ''
  const tarball = gzipSync(featureArchive({ id: 'packed', script: 'echo packed\n' }))
  const fetch = (ref: string): ReturnType<ReturnType<World['client']>['images']['feature']> =>
    world.client().images.feature(ref)

  before(async () => {
    registry = await ToyRegistry.start()
    web = createServer((request, response) => {
      if (request.url?.endsWith('devcontainer-feature-packed.tgz')) return void response.end(tarball)
      response.writeHead(404).end()
    })
    await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve))
    site = `127.0.0.1:${(web.address() as AddressInfo).port}`
    writeFileSync(
      join(world.home, 'config.toml'),
      `[registries."${registry.host}"]\ninsecure = true\n[registries."${site}"]\ninsecure = true\n[registries."mirrored.example"]\nmirrors = ["${registry.host}"]\n`,
    )
  })
  after(async () => {
    await world[Symbol.asyncDispose]()
    await registry?.[Symbol.asyncDispose]()
    web?.close()
  })

  test('DC-20 a Feature is fetched by tag and by digest, compressed or not, from a registry or its mirror', async () => {
    const one = { id: 'hello', metadata: { options: {} }, script: 'echo hello\n' }
    const digest = putFeature(registry, 'team/features', one)
    for (const ref of [
      `${registry.host}/team/features/hello:1`,
      `${registry.host}/team/features/hello`,
      `${registry.host}/team/features/hello@${digest}`,
      'mirrored.example/team/features/hello:1.2',
    ]) {
      const found = await fetch(ref)
      assert.equal(found.digest, digest, ref)
      assert.equal((JSON.parse(found.metadata) as { id: string }).id, 'hello')
      assert.ok(found.archive.includes('echo hello'))
    }
    // Without the annotation, the metadata is read from the archive.
    putFeature(registry, 'team/features', { id: 'old', isPlain: true, hasAnnotation: false })
    const old = await fetch(`${registry.host}/team/features/old:1`)
    assert.equal((JSON.parse(old.metadata) as { id: string }).id, 'old')
  })

  test('DC-20 a Feature is fetched from the address of a tarball', async () => {
    const found = await fetch(`http://${site}/x/devcontainer-feature-packed.tgz`)
    assert.equal(found.digest, sha256(tarball))
    assert.ok(found.archive.includes('echo packed'))
    const refused = async (ref: string): Promise<string | undefined> =>
      fetch(ref).then(
        () => undefined,
        (error: unknown) => (isAgentPodError(error) ? error.reason : String(error)),
      )
    assert.equal(await refused(`http://${site}/x/devcontainer-feature-none.tgz`), 'feature.unknown')
    assert.equal(await refused(`http://${site}/x/other.tgz`), 'feature.address')
    // Plain HTTP works for the host that config.toml names, and for no other.
    const other = `http://localhost:${site.split(':')[1]}/x/devcontainer-feature-packed.tgz`
    assert.equal(await refused(other), 'feature.insecure')
  })

  test('DC-20 a wrong digest, a bomb, a hostile archive, an image and a missing Feature are refused', async () => {
    const reasonOf = async (ref: string): Promise<string> => {
      try {
        await fetch(`${registry.host}/team/features/${ref}`)
      } catch (error) {
        if (isAgentPodError(error)) return error.reason
        throw error
      }
      return 'fetched'
    }
    putFeature(registry, 'team/features', { id: 'good' })
    assert.equal(await reasonOf('good:1'), 'fetched')
    assert.equal(await reasonOf('none:1'), 'image.unknown')
    assert.equal(await reasonOf(`good@sha256:${'0'.repeat(64)}`), 'image.unknown')
    putFeatureArchive(registry, 'team/features', { id: 'text' }, Buffer.alloc(5000, 'no archive '))
    assert.equal(await reasonOf('text:1'), 'feature.damaged')
    const big = [{ name: 'zeros', content: Buffer.alloc(40 * 1024 * 1024) }]
    putFeature(registry, 'team/features', { id: 'large', more: big })
    assert.equal(await reasonOf('large:1'), 'feature.bomb')
    putFeature(registry, 'team/features', {
      id: 'out',
      more: [{ name: '../out', content: Buffer.from('x') }],
    })
    assert.equal(await reasonOf('out:1'), 'feature.archive')
    registry.put('team/features/image', '1', makeImage({ layers: [[]] }))
    assert.equal(await reasonOf('image:1'), 'feature.artifact')
    const digest = putFeature(registry, 'team/features', { id: 'changed' })
    const other = registry.manifest('team/features/good', '1')
    assert.ok(other)
    registry.misbehave = (request, response) => {
      if (!request.url?.endsWith(digest)) return false
      response.setHeader('content-type', other.mediaType)
      response.end(other.data)
      return true
    }
    assert.equal(await reasonOf(`changed@${digest}`), 'image.digest')
    registry.misbehave = () => false
    assert.equal(await reasonOf(`changed@${digest}`), 'fetched')
  })
})

describe('a repository with only a devcontainer', { skip: NO_BUSYBOX }, () => {
  const world = new World()
  const here = mkdtempSync(join(tmpdir(), 'agentpod-devcontainer-'))
  const canary = join(here, 'ran-on-the-host')
  let registry: ToyRegistry
  let image = ''

  before(async () => {
    registry = await ToyRegistry.start()
    writeFileSync(
      join(world.home, 'config.toml'),
      `[registries."${registry.host}"]\ninsecure = true\n[grants]\nimages = true\ndockerfiles = true\ndevcontainers = true\n`,
    )
    const label = JSON.stringify([{ remoteUser: 'dev', postStartCommand: 'echo label >> ~/log' }])
    image = registry.put(
      'base',
      '1',
      makeImage({
        layers: [[...busyboxFiles(), ...accounts()]],
        config: { Env: ['PATH=/bin', 'GONE=1', 'STAYS=2'], Labels: { 'devcontainer.metadata': label } },
      }),
    )
    putFeature(registry, 'features', {
      id: 'hello',
      metadata: {
        options: { greeting: { type: 'string', default: 'hi' } },
        containerEnv: { HELLO: '/opt/hello', PATH: `/opt/hello:\${PATH}` },
      },
      script:
        'mkdir -p $HELLO\necho "echo $GREETING to $_REMOTE_USER in $_REMOTE_USER_HOME" > $HELLO/hello\nchmod 755 $HELLO/hello\n',
    })
    for (const [id, more] of [
      ['first', {}],
      ['second', { installsAfter: [`${registry.host}/features/first`] }],
      ['boxes', { privileged: true }],
    ] as const)
      putFeature(registry, 'features', {
        id,
        metadata: { entrypoint: `/${id}.sh`, ...more },
        script: `printf '#!/bin/sh\necho ${id} $(id -un) >> /tmp/entered\n' > /${id}.sh\nchmod 755 /${id}.sh\n`,
      })
    putFeature(registry, 'features', { id: 'broken', script: 'echo this breaks\nexit 7\n' })
    for (const [one, other] of [
      ['left', 'right'],
      ['right', 'left'],
    ] as const)
      putFeature(registry, 'features', {
        id: one,
        metadata: { dependsOn: { [`${registry.host}/features/${other}:1`]: {} } },
      })
  })
  after(async () => {
    await world[Symbol.asyncDispose]()
    await registry?.[Symbol.asyncDispose]()
    rmSync(here, { recursive: true, force: true })
  })

  /** A new repository with these files; `devcontainer` is its `.devcontainer/devcontainer.json`. */
  function repository(devcontainer: object, files: Readonly<Record<string, string>> = {}): string {
    const directory = mkdtempSync(join(here, 'repository-'))
    const text = `// The environment of the project.\n${JSON.stringify(devcontainer, null, 2)}\n`
    for (const [path, content] of Object.entries({ '.devcontainer/devcontainer.json': text, ...files })) {
      mkdirSync(dirname(join(directory, path)), { recursive: true })
      writeFileSync(join(directory, path), content)
    }
    const git = ['-c', 'user.name=a', '-c', 'user.email=a@example.com']
    for (const words of [
      ['init', '-q'],
      ['add', '-A'],
      [...git, 'commit', '-q', '-m', 'first'],
    ])
      execFileSync('git', words, { cwd: directory })
    return directory
  }
  const run = (cwd: string, ...words: string[]): Promise<CliResult> => world.cli(words, { cwd })
  const inside = (cwd: string, script: string): Promise<string> =>
    world.ok(['run', '--', 'sh', '-c', script], { cwd })
  const feature = (id: string): string => `${registry.host}/features/${id}:1`

  test('DC-21 DC-22 its image, Features, users and variables are the environment of every command', async () => {
    const cwd = repository(
      {
        image,
        features: { [feature('hello')]: { greeting: 'good day' } },
        containerEnv: { MODE: 'test' },
        remoteEnv: { WHERE: `\${containerEnv:HELLO}/x`, MODE: 'remote', GONE: null },
        forwardPorts: [3000],
        portsAttributes: { 3000: { label: 'web' } },
        customizations: { agentpod: { lifecycle: { test: 'hello && test "$MODE" = remote' } } },
      },
      { file: '' },
    )
    assert.equal(
      await inside(cwd, 'hello; echo $MODE $WHERE $PROFILE ${GONE-unset} $STAYS; id -un; pwd'),
      `good day to dev in /home/dev\nremote /opt/hello/x yes unset 2\ndev\n/workspaces/${basename(cwd)}\n`,
    )
    assert.match(await world.ok(['test'], { cwd }), /^good day to dev/)
    const explained = await world.ok(['config', 'explain'], { cwd })
    assert.match(explained, /^base +image \(.*\/base:1\) +\.devcontainer\/devcontainer\.json:3 image/m)
    assert.match(
      explained,
      /^features\.\S+hello:1 +1\.2\.3 sha256:\S+ +\.devcontainer\/devcontainer\.json:5/m,
    )
    assert.match(explained, /^ports\.3000 +web, private/m)
    // A key of agentpod.toml goes first, and says what it beat.
    writeFileSync(join(cwd, 'agentpod.toml'), `[environment]\nimage = "${image}@${imageDigest()}"\n`)
    const beaten = await world.ok(['config', 'explain', 'base'], { cwd })
    assert.match(beaten, /agentpod\.toml:2 image/)
    assert.match(
      beaten,
      /not .*\/base:1 \(\.devcontainer\/devcontainer\.json:3 .*: agentpod\.toml goes before/,
    )
  })

  function imageDigest(): string {
    return registry.manifest('base', '1')?.digest ?? ''
  }

  test('DC-23 lifecycle commands run in their order, in a sandbox, and the prepared copy is kept', async () => {
    const initializeCommand = `echo initialize >> ~/log; mkdir -p ${here}; touch ${canary}`
    const cwd = repository(
      {
        image,
        initializeCommand,
        onCreateCommand: 'echo create in $PWD >> ~/log',
        updateContentCommand: ['sh', '-c', 'echo update >> ~/log'],
        postCreateCommand: { slow: 'sleep 0.3; echo slow >> ~/log', fast: 'echo fast >> ~/log' },
        postStartCommand: 'echo start >> ~/log',
        customizations: { agentpod: { lifecycle: { test: 'cat ~/log', dev: 'cat ~/log' } } },
      },
      { file: '1\n' },
    )
    const first = ['initialize', `create in /workspaces/${basename(cwd)}`, 'update']
    const rest = ['fast', 'slow', 'label', 'start']
    assert.deepEqual((await inside(cwd, 'cat ~/log')).trim().split('\n'), [...first, ...rest])
    // Unchanged files: nothing of the first part runs again. Changed ones: only updateContentCommand does.
    assert.deepEqual((await inside(cwd, 'cat ~/log')).trim().split('\n'), [...first, ...rest])
    writeFileSync(join(cwd, 'file'), '2\n')
    assert.deepEqual((await inside(cwd, 'cat ~/log; cat file')).trim().split('\n'), [
      ...first,
      'update',
      ...rest,
      '2',
    ])
    // A directory that is copied for `test` and `dev` is prepared once too.
    const told = async (...words: string[]): Promise<string[]> =>
      (await world.ok(words, { cwd })).trim().split('\n')
    assert.deepEqual(await told('test'), [...first, ...rest])
    assert.deepEqual(await told('test'), [...first, ...rest])
    writeFileSync(join(cwd, 'file'), '3\n')
    assert.deepEqual(await told('test'), [...first, 'update', ...rest])
    assert.deepEqual((await told('dev')).slice(0, 4), [...first, 'update'])
    assert.equal(existsSync(canary), false, 'initializeCommand ran on the host')
    // The control: on the host, the same command makes the file.
    execFileSync('sh', ['-c', initializeCommand], { env: { ...process.env, HOME: here } })
    assert.equal(existsSync(canary), true)
    const kept = await run(cwd, 'run', '--keep', '--name', 'kept', '--', 'true')
    assert.equal(kept.code, 0, kept.stderr)
    await world.ok(['stop', 'kept'])
    await world.ok(['start', 'kept'])
    const log = await world.ok(['exec', 'kept', '--', 'sh', '-c', 'cat ~/log'])
    assert.deepEqual(log.trim().split('\n'), [...first, 'update', 'update', ...rest, 'label', 'start'])
    await world.ok(['destroy', 'kept'])
  })

  test('DC-24 a failing command is named with its output, and a shell without the commands opens', async () => {
    const cwd = repository({
      image,
      onCreateCommand: { good: 'true', bad: 'echo some words; exit 3' },
      updateContentCommand: 'touch ~/later',
    })
    const failed = await run(cwd, 'run', '--', 'true')
    assert.notEqual(failed.code, 0)
    assert.match(
      failed.stderr,
      /onCreateCommand "bad" of \.devcontainer\/devcontainer\.json, with exit code 3/,
    )
    assert.match(failed.stderr, /some words/)
    assert.match(failed.stderr, /--no-lifecycle/)
    const { stdout } = await run(cwd, 'run', '--no-lifecycle', '--', 'sh', '-c', 'ls ~/later; echo works')
    assert.equal(stdout, 'works\n')
    assert.deepEqual(JSON.parse(await world.ok(['ls', '--json'])), [])
  })

  test('DC-44 entrypoints of Features start in their order, except those that need what is refused', async () => {
    const cwd = repository({
      image,
      features: { [feature('boxes')]: {}, [feature('second')]: {}, [feature('first')]: {} },
    })
    const script =
      'while [ "$(wc -l < /tmp/entered)" != 2 ]; do sleep 0.1; done 2>/dev/null; cat /tmp/entered'
    const { stdout, stderr } = await run(cwd, 'run', '--', 'timeout', '20', 'sh', '-c', script)
    assert.equal(stdout, 'first root\nsecond root\n', stderr)
    const note =
      /the entrypoint "\/boxes\.sh" of \S+features\/boxes:1 is not started: it needs privileged true, which/
    assert.match(stderr, note)
    assert.match(await world.ok(['config', 'explain', 'entrypoint'], { cwd }), /^entrypoint +at every start/m)
  })

  test('DC-25 a Dockerfile of a devcontainer is built, with Features on top', async () => {
    const cwd = repository(
      {
        build: { dockerfile: 'Dockerfile', context: '..', args: { WORD: 'built' } },
        remoteUser: 'root',
        features: { [feature('hello')]: {} },
      },
      {
        '.devcontainer/Dockerfile': `FROM ${image}\nARG WORD\nCOPY file /from-context\nRUN echo $WORD > /word\n`,
        file: 'content\n',
      },
    )
    assert.equal(await inside(cwd, 'cat /word /from-context; hello'), 'built\ncontent\nhi to root in /root\n')
  })

  test('DC-26 mistakes are one error each, and nothing half-built stays', async () => {
    const refusal = async (devcontainer: object, files = {}): Promise<string> => {
      const { code, stderr } = await run(repository(devcontainer, files), 'run', '--', 'true')
      assert.notEqual(code, 0)
      return stderr
    }
    assert.match(await refusal({ image, features: { [feature('left')]: {} } }), /cycle|depend/i)
    assert.match(await refusal({ image: `${registry.host}/none:1` }), /does not have none:1/)
    assert.match(
      await refusal({ image, features: { [feature('broken')]: {} } }),
      /Feature \S+broken:1 1\.2\.3" failed: exit code 7/,
    )
    const lock = {
      features: {
        [feature('hello')]: { version: '1.2.3', resolved: '', integrity: `sha256:${'0'.repeat(64)}` },
      },
    }
    const locked = { '.devcontainer/devcontainer-lock.json': JSON.stringify(lock) }
    assert.match(await refusal({ image, features: { [feature('hello')]: {} } }, locked), /hello@sha256:0000/)
    assert.match(await refusal({ image, features: { '127.0.0.1:1/none/x:1': {} } }), /127\.0\.0\.1:1/)
    assert.match(
      await refusal({ image, hostRequirements: { cpus: 4000 } }),
      /devcontainer\.json:4 needs .*4000/,
    )
    assert.match(await refusal({ image, remoteUser: 'nobody-here' }), /nobody-here/)
    assert.deepEqual(JSON.parse(await world.ok(['ls', '--json'])), [])
  })

  test('DC-27 without approval nothing of a devcontainer is used, and what it cannot have is named', async () => {
    const cwd = repository({
      image,
      privileged: true,
      capAdd: ['SYS_ADMIN'],
      mounts: ['source=cache,target=/cache,type=volume', 'source=/,target=/host,type=bind'],
      containerEnv: { STOLEN: `\${localEnv:MY_TOKEN}` },
    })
    const { stdout, stderr } = await run(cwd, 'run', '--', 'sh', '-c', 'ls -d /cache /host; id -un')
    assert.match(stdout, /^\/cache\n(?:.*\n)*dev\n$/)
    assert.doesNotMatch(stdout, /\/host/)
    for (const line of [
      /:4: privileged true is not used/,
      /:6: capAdd\.0 SYS_ADMIN is not used/,
      /mounts\.1 .* is not used/,
    ])
      assert.match(stderr, line)
    const closed = new World()
    try {
      writeFileSync(join(closed.home, 'config.toml'), `[registries."${registry.host}"]\ninsecure = true\n`)
      const script = 'echo "[$STOLEN]"; id -un'
      const env = { MY_TOKEN: 'a-secret-value' }
      const before = registry.log.length
      const left = await closed.cli(['run', '--', 'sh', '-c', script], { cwd, env })
      assert.equal(left.stdout, '[]\nuser\n')
      assert.match(left.stderr, /\.devcontainer\/devcontainer\.json asks for more than you have granted/)
      assert.match(left.stderr, /the value of your variable MY_TOKEN/)
      assert.equal(registry.log.length, before, 'something was fetched')
      // The control: approved, it is used.
      await closed.ok(['policy', 'approve'], { cwd })
      const used = await closed.cli(['run', '--', 'sh', '-c', script], { cwd, env })
      assert.equal(used.stdout, '[a-secret-value]\ndev\n', used.stderr)
    } finally {
      await closed[Symbol.asyncDispose]()
    }
  })
})

function accounts(): TarEntry[] {
  return [
    { name: 'etc/', type: 'directory' },
    {
      name: 'etc/passwd',
      content: 'root:x:0:0:root:/root:/bin/sh\ndev:x:1000:1000:dev:/home/dev:/bin/sh\n',
    },
    { name: 'etc/group', content: 'root:x:0:\ndev:x:1000:\n' },
    { name: 'home/', type: 'directory' },
    { name: 'home/dev/', type: 'directory', uid: 1000 },
    { name: 'home/dev/.profile', content: 'export PROFILE=yes\n' },
    { name: 'tmp/', type: 'directory', mode: 0o1777 },
  ]
}
