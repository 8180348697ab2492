/** Images from a real registry with TLS and tokens, run, changed and pushed again. */
import assert from 'node:assert/strict'
import { execFile, execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { isAgentPodError } from '../../src/core/error.ts'
import { ARCHITECTURE, indexOf, jsonBlob, makeImage } from '../support/made-image.ts'
import { CREDENTIAL, noRegistry, RealRegistry } from '../support/real-registry.ts'
import { busyboxFiles, NO_BUSYBOX, scratchFiles } from '../support/tiny-images.ts'
import { ToyRegistry } from '../support/toy-registry.ts'
import { World } from '../support/world.ts'

const run = promisify(execFile)
const skip = NO_BUSYBOX || noRegistry()

describe('images', { skip }, () => {
  const world = new World()
  const images = world.client().images
  let registry: RealRegistry
  let dockerConfig = ''
  const files = (): Parameters<typeof makeImage>[0] => ({
    layers: [busyboxFiles(), [{ name: 'hello', content: 'hello\n' }]],
    config: { Env: ['PATH=/bin', 'GREETING=hi there'], Cmd: ['cat', '/hello'] },
  })
  const logIn = (): void => writeFileSync(join(dockerConfig, 'config.json'), registry.dockerConfig)
  const inImage = (ref: string, ...command: string[]): Promise<string> =>
    world.ok(['run', '--no-project', '--image', ref, '--', ...command])

  before(async () => {
    registry = await RealRegistry.start()
    // The server is started by the first command, with the variables of that command.
    dockerConfig = join(world.home, 'docker')
    mkdirSync(dockerConfig)
    writeFileSync(
      join(world.home, 'config.toml'),
      `[registries."${registry.host}"]\nca = ${JSON.stringify(registry.caFile)}\n`,
    )
    const path = `${dockerConfig}:${process.env['PATH']}`
    await world.ok(['ls'], { env: { DOCKER_CONFIG: dockerConfig, PATH: path } })
  })

  after(async () => {
    await registry?.[Symbol.asyncDispose]()
    await world[Symbol.asyncDispose]()
  })

  test('IMG-1 a private image needs the credential, which goes to the token service and nowhere else', async () => {
    const ref = await registry.put('team/private', '1', makeImage(files()))
    await assert.rejects(images.pull(ref), (error) => isAgentPodError(error, 'permission_denied'))
    logIn()
    const { digest, layers } = await images.pull(ref)
    assert.match(digest, /^sha256:/)
    assert.equal(layers.length, 2)
    assert.ok(registry.seen.some((header) => header.startsWith('Basic ')))
    assert.equal(await inImage(ref, 'sh', '-c', 'echo $GREETING; cat /hello'), 'hi there\nhello\n')
    const secrets = [CREDENTIAL.password, Buffer.from(CREDENTIAL.password).toString('base64').slice(0, 8)]
    const log = readFileSync(join(world.home, 'logs', 'server.log'), 'utf8')
    for (const secret of secrets) assert.ok(!log.includes(secret))
    assert.doesNotMatch(await inImage(ref, 'env'), new RegExp(CREDENTIAL.password))
  })

  test('IMG-1 a helper program of Docker has the credential, for one registry or for all', async () => {
    const ref = await registry.put('team/helped', '1', makeImage(files()))
    const answer = JSON.stringify({ Username: CREDENTIAL.username, Secret: CREDENTIAL.password })
    const helper = join(dockerConfig, 'docker-credential-tests')
    writeFileSync(
      helper,
      `#!/bin/sh\n[ "$1" = get ] && [ "$(cat)" = '${registry.host}' ] && echo '${answer}'\n`,
    )
    chmodSync(helper, 0o755)
    const refused = (error: unknown): boolean => isAgentPodError(error, 'permission_denied')
    for (const config of [{ credHelpers: { [registry.host]: 'tests' } }, { credsStore: 'tests' }]) {
      writeFileSync(join(dockerConfig, 'config.json'), '{}')
      await assert.rejects(images.pull(ref), refused)
      writeFileSync(join(dockerConfig, 'config.json'), JSON.stringify(config))
      await images.pull(ref)
    }
  })

  test('IMG-2 a stored image needs no network; pull asks what the tag stands for now', async () => {
    const first = await registry.put('public/moving', '1', makeImage(files()))
    await images.pull(first)
    const next = makeImage({
      ...files(),
      layers: [busyboxFiles(), [{ name: 'hello', content: 'changed\n' }]],
    })
    await registry.put('public/moving', '1', next)
    assert.equal(await inImage(first, 'cat', '/hello'), 'hello\n')
    const { digest } = await images.pull(first)
    assert.equal(digest, next.manifest.digest)
    assert.equal(await inImage(first, 'cat', '/hello'), 'changed\n')
    const byDigest = `${first.slice(0, first.lastIndexOf(':'))}@${digest}`
    assert.equal(await inImage(byDigest, 'cat', '/hello'), 'changed\n')
  })

  test('IMG-3 every form of layer and manifest gives the same files', async () => {
    for (const [name, parts] of Object.entries({
      gzip: {},
      zstd: { compression: 'zstd' },
      plain: { compression: 'none' },
      docker: { isDocker: true },
    } as const)) {
      const ref = await registry.put(`public/form-${name}`, '1', makeImage({ ...files(), ...parts }))
      assert.equal(await inImage(ref, 'cat', '/hello'), 'hello\n', name)
    }
  })

  test('IMG-3 an index gives the image of this machine, and skips attestations', async () => {
    const own = makeImage(files())
    const other = makeImage({ ...files(), architecture: 's390x' })
    for (const image of [own, other])
      await registry.put('public/many', image.manifest.digest.slice(7, 20), image)
    const nothing = { os: 'unknown', architecture: 'unknown' }
    const index = indexOf([
      { image: other, platform: { os: 'linux', architecture: 's390x' } },
      { image: own, platform: { os: 'linux', architecture: ARCHITECTURE } },
    ])
    // The registry checks that what an index names is there.
    const attestation = jsonBlob(
      { schemaVersion: 2, mediaType: own.manifest.mediaType },
      own.manifest.mediaType,
    )
    const entries = JSON.parse(index.data.toString('utf8')) as { manifests: { digest: string }[] }
    const known = {
      ...entries,
      manifests: entries.manifests.filter(({ digest }) => digest !== attestation.digest),
    }
    const listed = { ...known, manifests: [{ ...known.manifests[0], platform: nothing }, ...known.manifests] }
    await registry.putManifest('public/many', 'all', jsonBlob(listed, index.mediaType))
    const ref = `${registry.host}/public/many:all`
    assert.equal(await inImage(ref, 'cat', '/hello'), 'hello\n')
    const { digest, manifestDigest } = await images.get(ref)
    assert.equal(manifestDigest, own.manifest.digest)
    assert.notEqual(digest, manifestDigest)
  })

  test('IMG-4 an image of another platform is refused, and the error says which there are', async () => {
    const ref = await registry.put('public/other', '1', makeImage({ ...files(), architecture: 's390x' }))
    const { code, stderr } = await world.cli(['image', 'pull', ref])
    assert.equal(code, 6)
    assert.match(stderr, /has no image for linux\/.*\nhint: it has images for: linux\/s390x/)
  })

  test('IMG-5 user, variables, directory and command of the image apply, without /etc/passwd', async () => {
    const ref = await registry.put(
      'public/settings',
      '1',
      makeImage({
        layers: [busyboxFiles()],
        config: {
          User: '4242:7',
          Env: ['PATH=/bin', 'MODE=test'],
          WorkingDir: '/srv/work',
          Entrypoint: ['sh', '-c'],
          Cmd: ['id -u; id -g; pwd; echo $MODE'],
          ExposedPorts: { '8080/tcp': {} },
        },
      }),
    )
    const wanted = '4242\n7\n/srv/work\ntest\n'
    assert.equal(await world.ok(['run', '--no-project', '--image', ref]), wanted)
    const id = (await world.ok(['create', '--image', ref])).trim()
    assert.equal(await world.ok(['exec', id, '--', 'sh', '-c', 'id -u; id -g; pwd; echo $MODE']), wanted)
    await world.ok(['cp', join(world.home, 'config.toml'), `${id}:/tmp/file`])
    assert.equal(await world.ok(['exec', id, '--', 'id', '-u']), '4242\n')
    assert.match(await world.ok(['exec', id, '--', 'ls', '-ln', '/tmp/file']), / 4242 +7 /)
    const { ports, command } = await images.get(ref)
    assert.deepEqual([ports, command.length], [['8080/tcp'], 3])
    await world.ok(['destroy', id])
  })

  test('IMG-6 a project in an image without git and bash leaves a branch', async () => {
    const ref = await registry.put('public/nogit', '1', makeImage(files()))
    const repo = world.directory()
    const git = (...args: string[]): string => execFileSync('git', args, { cwd: repo, encoding: 'utf8' })
    git('init', '-q', '-b', 'main')
    writeFileSync(join(repo, 'a.txt'), 'one\n')
    git('add', '.')
    git('-c', 'user.name=t', '-c', 'user.email=t@example.com', 'commit', '-qm', 'first')
    const { code, stderr } = await world.cli(
      ['run', '--image', ref, '--', 'sh', '-c', '! command -v git && echo two >> a.txt && echo new > b.txt'],
      { cwd: repo },
    )
    assert.equal(code, 0, stderr)
    const branch = /^branch (\S+)$/m.exec(stderr)?.[1] ?? ''
    assert.equal(git('show', `${branch}:a.txt`), 'one\ntwo\n')
    assert.equal(git('show', `${branch}:b.txt`), 'new\n')
  })

  test('IMG-5 a project’s file names an image; its steps are built on it, and the result is pushed', async () => {
    logIn()
    const ref = await registry.put(
      'public/project',
      '1',
      makeImage({
        layers: [busyboxFiles(), [{ name: 'project', content: 'x' }]],
        config: { Env: ['PATH=/bin', 'FROM=image'], User: '4242' },
      }),
    )
    const project = world.directory()
    const lines = [
      `[environment]\nimage = "${ref}"`,
      '[environment.variables]\nMINE = "yes"',
      '[lifecycle]\nsetup = "echo $FROM > /ready"\ntest = "cat /ready; echo $FROM $MINE"',
    ]
    writeFileSync(join(project, 'agentpod.toml'), `${lines.join('\n\n')}\n`)
    const config = join(world.home, 'config.toml')
    const before = readFileSync(config, 'utf8')
    writeFileSync(config, `[grants]\nimages = true\n${before}`)
    const { digest } = JSON.parse(await world.ok(['build', '--json'], { cwd: project })) as { digest: string }
    for (const _ of [1, 2]) assert.equal(await world.ok(['test'], { cwd: project }), 'image\nimage yes\n')
    assert.equal((await world.cli(['image', 'rm', ref])).code, 5)
    const target = `${registry.host}/team/environment:1`
    await world.ok(['image', 'push', digest.slice(0, 12), target])
    assert.equal(await inImage(target, 'sh', '-c', 'cat /ready; echo $FROM; id -u'), 'image\nimage\n4242\n')
    writeFileSync(config, before)
  })

  test('DF-10 a project’s Dockerfile is built after its approval, and again when a file of it changes', async () => {
    // CF-04
    const ref = await registry.put('public/below', '1', makeImage(files()))
    const project = world.directory()
    const toml = '[environment]\ndockerfile = "Dockerfile"\n[lifecycle]\ntest = "cat /in/a"\n'
    writeFileSync(join(project, 'agentpod.toml'), toml)
    writeFileSync(join(project, 'Dockerfile'), `FROM ${ref}\nCOPY a /in/\n`)
    // The copy of a repository that was prepared on the former image must not be used again.
    execFileSync('git', ['init', '-q'], { cwd: project })
    // test/long/dockerfile-projects.test.ts shows that nothing is built without it.
    const { stdout, stderr } = await world.cli(['policy', 'approve'], { cwd: project })
    assert.match(stdout + stderr, /the Dockerfile Dockerfile, whose steps run as root in sandboxes/)
    for (const content of ['first\n', 'second\n']) {
      writeFileSync(join(project, 'a'), content)
      assert.equal(await world.ok(['test'], { cwd: project }), content)
      assert.equal(await world.ok(['run', '--', 'cat', '/in/a'], { cwd: project }), content)
    }
  })

  test('IMG-6 a program that needs musl runs in an image that has it', {
    skip: lacks('musl-gcc'),
  }, async () => {
    const place = world.directory()
    writeFileSync(
      join(place, 'hello.c'),
      '#include <stdio.h>\nint main(void) { puts("from musl"); return 0; }\n',
    )
    execFileSync('musl-gcc', ['-o', 'hello', 'hello.c'], { cwd: place })
    const [, loader = ''] = /(\/lib\/ld-musl-\S+?)\0/.exec(readFileSync(join(place, 'hello'), 'latin1')) ?? []
    const ref = await registry.put(
      'public/musl',
      '1',
      makeImage({
        layers: [
          busyboxFiles(),
          [
            { name: loader.slice(1), content: readFileSync(realpathSync(loader)), mode: 0o755 },
            { name: 'bin/hello', content: readFileSync(join(place, 'hello')), mode: 0o755 },
          ],
        ],
        config: { Env: ['PATH=/bin'] },
      }),
    )
    assert.equal(await inImage(ref, 'hello'), 'from musl\n')
    const project = world.directory()
    writeFileSync(join(project, 'a.txt'), 'one\n')
    const { stderr } = await world.cli(['run', '--image', ref, '--', 'sh', '-c', 'hello > b.txt'], {
      cwd: project,
    })
    assert.match(stderr, /added +b\.txt/)
  })

  test('IMG-6 an image with one program alone runs it, and its files can be copied', async () => {
    const ref = await registry.put(
      'public/scratch',
      '1',
      makeImage({ layers: [scratchFiles()], config: { Entrypoint: ['/busybox', 'echo', 'alone'] } }),
    )
    assert.equal(await world.ok(['run', '--no-project', '--image', ref]), 'alone\n')
    const id = (await world.ok(['create', '--image', ref])).trim()
    assert.equal(await world.ok(['exec', id, '--', '/busybox', 'id', '-u']), '0\n')
    const { code, stderr } = await world.cli(['shell', id])
    assert.equal(code, 125)
    assert.match(stderr, /has no \/bin\/sh/)
    await world.ok(['destroy', id])
  })

  test('IMG-7 images share layers, and the last one takes them along', async () => {
    const one = await registry.put('public/shared', 'one', makeImage(files()))
    const two = await registry.put(
      'public/shared',
      'two',
      makeImage({ layers: [busyboxFiles(), [{ name: 'two', content: 'two' }]] }),
    )
    await images.pull(one)
    const own = (await images.pull(two)).layers[1] ?? ''
    const layer = (digest: string): boolean => existsSync(join(world.home, 'layers', digest))
    const box = (await world.ok(['create', '--image', two])).trim()
    const refused = await world.cli(['image', 'rm', two])
    assert.equal(refused.code, 5)
    assert.match(refused.stderr, new RegExp(`in use by ${box}`))
    await world.ok(['destroy', box])
    await world.ok(['image', 'rm', two])
    if (process.getuid?.() === 0) assert.equal(layer(own), false)
    assert.equal(await inImage(one, 'cat', '/hello'), 'hello\n')
    const { code, stderr } = await world.cli(['image', 'rm', two])
    assert.deepEqual([code, /there is no image/.test(stderr)], [4, true])
  })

  test('IMG-8 what is pushed has the same digest each time, runs again, and skopeo accepts it', async () => {
    logIn()
    const ref = await registry.put('public/source', '1', makeImage(files()))
    await world.ok(['create', '--name', 'source', '--image', ref, '--sudo'])
    await world.ok([
      'exec',
      'source',
      '--',
      'sh',
      '-c',
      'rm /hello; echo made > /made; ln /made /again; chown 5:6 /made',
    ])
    const target = `${registry.host}/team/pushed`
    const first = await world.ok(['image', 'push', 'source', `${target}:1`])
    const second = await world.ok(['image', 'push', 'source', `${target}:2`])
    assert.equal(first.split('@')[1], second.split('@')[1])
    const look = 'cat /made; [ -e /hello ] || echo gone; ls -ln /made /again; ls -a / /etc'
    const seen = await inImage(`${target}:1`, 'sh', '-c', look)
    assert.match(seen, /^made\ngone\n/)
    assert.equal((seen.match(/ 2 5 +6 /g) ?? []).length, 2)
    const directory = join(world.directory(), 'layout')
    const written = await world.ok(['image', 'push', 'source', `oci:${directory}`])
    assert.equal(written.split('@')[1], first.split('@')[1])
    assert.deepEqual(readdirSync(directory).sort(), ['blobs', 'index.json', 'oci-layout'])
    await world.ok(['snapshot', 'create', 'source', '--name', 'golden'])
    const third = await world.ok(['image', 'push', 'golden', `${target}:3`])
    assert.equal(third.split('@')[1], first.split('@')[1])
    await world.ok(['destroy', 'source'])
  })

  test('IMG-8 skopeo copies a pushed image and a layout', { skip: lacks('skopeo') }, async () => {
    logIn()
    const ref = await registry.put('public/skopeo', '1', makeImage(files()))
    await world.ok(['create', '--name', 'copied', '--image', ref])
    const directory = join(world.directory(), 'layout')
    await world.ok(['image', 'push', 'copied', `oci:${directory}`])
    await world.ok(['image', 'push', 'copied', `${registry.host}/team/skopeo:1`])
    await world.ok(['destroy', 'copied'])
    const certs = join(world.home, 'certs')
    mkdirSync(certs)
    writeFileSync(join(certs, 'ca.crt'), readFileSync(registry.caFile))
    const copies = join(world.directory(), 'copies')
    const { username, password } = CREDENTIAL
    const access = ['--src-cert-dir', certs, '--src-creds', `${username}:${password}`]
    await run('skopeo', ['copy', ...access, `docker://${registry.host}/team/skopeo:1`, `dir:${copies}-1`])
    await run('skopeo', ['copy', `oci:${directory}`, `dir:${copies}-2`])
    assert.ok(existsSync(join(`${copies}-1`, 'manifest.json')))
    assert.deepEqual(
      readFileSync(join(`${copies}-1`, 'manifest.json')),
      readFileSync(join(`${copies}-2`, 'manifest.json')),
    )
  })

  test('IMG-5 stops, forks and archives of a sandbox keep the settings and files of its image', async () => {
    const old = [{ name: 'old/file', content: 'x' }]
    const hidden = [{ name: 'old/.wh..wh..opq' }, { name: 'old/new', content: 'x' }]
    const ref = await registry.put(
      'public/kept',
      '1',
      makeImage({
        layers: [busyboxFiles(), old, hidden],
        config: { Env: ['PATH=/bin', 'MODE=kept'], User: '77' },
      }),
    )
    const look = ['--', 'sh', '-c', 'id -u; echo $MODE; ls /old']
    await world.ok(['create', '--name', 'kept', '--image', ref])
    await world.ok(['stop', 'kept'])
    await world.ok(['start', 'kept'])
    await world.ok(['fork', 'kept', '--name', 'forked'])
    await world.ok(['snapshot', 'create', 'kept', '--name', 'kept'])
    const archive = join(world.directory(), 'kept.pod')
    await world.ok(['snapshot', 'export', 'kept', archive])
    await world.ok(['snapshot', 'import', archive, '--name', 'imported'])
    await world.ok(['restore', 'imported', '--name', 'restored'])
    for (const box of ['kept', 'forked', 'restored'])
      assert.equal(await world.ok(['exec', box, ...look]), '77\nkept\nnew\n', box)
    await world.ok(['destroy', 'kept', 'forked', 'restored'])
  })

  test('IMG-8 files of this machine cannot be pushed', async () => {
    const id = (await world.ok(['create', '--base', 'host'])).trim()
    const { code, stderr } = await world.cli(['image', 'push', id, `${registry.host}/team/host:1`])
    assert.equal(code, 6)
    assert.match(stderr, /is this machine \(host\)/)
    await world.ok(['destroy', id])
  })

  test('IMG-9 a mirror of config.toml is asked first, and the registry if it fails', async () => {
    await using mirror = await ToyRegistry.start()
    const image = makeImage(files())
    mirror.put('public/mirrored', '1', image)
    const ref = await registry.put('public/mirrored', '1', image)
    writeFileSync(
      join(world.home, 'config.toml'),
      [
        `[registries."${registry.host}"]`,
        `ca = ${JSON.stringify(registry.caFile)}`,
        `mirrors = ["${mirror.host}"]`,
        `[registries."${mirror.host}"]`,
        'insecure = true',
        '',
      ].join('\n'),
    )
    await images.pull(ref)
    assert.ok(mirror.log.some(({ path }) => path.includes('/manifests/1')))
    assert.ok(mirror.log.every(({ authorization }) => authorization === undefined))
    mirror.misbehave = (_, response) => {
      response.writeHead(404).end()
      return true
    }
    await images.pull(ref)
  })

  test('IMG-1 a token that expires in the middle is replaced', async () => {
    logIn()
    const layers = [
      busyboxFiles(),
      ...Array.from({ length: 12 }, (_, n) => [{ name: `file${n}`, content: String(n) }]),
    ]
    const ref = await registry.put('team/expiring', '1', makeImage({ layers }))
    // The registry accepts a token for a minute after its end.
    registry.tokenSeconds = -59
    const { layers: found } = await images.pull(ref)
    assert.equal(found.length, 13)
    registry.tokenSeconds = 300
    assert.ok(registry.seen.length > 13)
  })
})

function lacks(program: string): string | false {
  try {
    execFileSync('sh', ['-c', `command -v ${program}`], { stdio: 'ignore' })
    return false
  } catch {
    return `needs ${program} (scripts/setup tests installs it)`
  }
}
