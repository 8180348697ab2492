/** Projects whose environment starts from a Dockerfile or an image, with every command. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { putBases } from '../support/dockerfiles.ts'
import { makeOrdinaryUser, noOrdinaryUser } from '../support/ordinary-user.ts'
import { NO_BUSYBOX } from '../support/tiny-images.ts'
import { ToyRegistry } from '../support/toy-registry.ts'
import { type CliResult, World } from '../support/world.ts'

describe('a Dockerfile in agentpod.toml', { skip: NO_BUSYBOX }, () => {
  const world = new World()
  let registry: ToyRegistry
  let base = ''
  let other = ''
  let scratch = ''

  before(async () => {
    registry = await ToyRegistry.start()
    const bases = putBases(registry)
    base = bases['BASE'] ?? ''
    other = bases['OTHER'] ?? ''
    scratch = mkdtempSync(join(tmpdir(), 'agentpod-dockerfile-project-'))
    writeFileSync(join(world.home, 'config.toml'), `[registries."${registry.host}"]\ninsecure = true\n`)
  })

  after(async () => {
    await world[Symbol.asyncDispose]()
    await registry?.[Symbol.asyncDispose]()
    rmSync(scratch, { recursive: true, force: true })
  })

  function project(files: Readonly<Record<string, string>>): string {
    const made = mkdtempSync(join(scratch, 'shop-'))
    for (const [path, content] of Object.entries(files)) {
      mkdirSync(dirname(join(made, path)), { recursive: true })
      writeFileSync(join(made, path), content)
    }
    return made
  }
  const run = (cwd: string, ...command: string[]): Promise<CliResult> =>
    world.cli(['run', '--', ...command], { cwd })
  const approve = (cwd: string): Promise<string> => world.ok(['policy', 'approve'], { cwd })
  const PLAIN = '[environment]\ndockerfile = "Dockerfile"\n[lifecycle]\ntest = "cat /made /in/a"\n'

  test('DF-10 it is built after the approval, used by every command, and built again when it changes', async () => {
    const shop = project({
      'agentpod.toml': PLAIN,
      Dockerfile: `FROM ${base}\nCOPY a /in/\nRUN echo one > /made\nENV GREETING=hi\n`,
      a: 'first\n',
    })
    // CF-04: nothing of it is built before.
    const unasked = await run(shop, 'cat', '/made')
    assert.notEqual(unasked.code, 0)
    assert.match(unasked.stderr, /the Dockerfile Dockerfile, whose steps run as root in sandboxes/)
    assert.ok(unasked.stderr.includes(`the image ${base}, whose programs may run as root`))
    assert.deepEqual(await world.client().images.list(), [])
    await approve(shop)
    const first = await run(shop, 'sh', '-c', 'cat /made a; echo $GREETING; id -u')
    assert.equal(first.stdout, 'one\nfirst\nhi\n0\n', first.stderr)
    assert.match(first.stderr, /RUN echo one > \/made/)
    assert.equal(await world.ok(['test'], { cwd: shop }), 'one\nfirst\n')
    const shell = await world.cli(['shell'], { cwd: shop, input: 'cat /made\n' })
    assert.equal(shell.stdout, 'one\n', shell.stderr)
    const again = await run(shop, 'cat', '/in/a')
    assert.doesNotMatch(again.stderr, /^\[/m)
    writeFileSync(join(shop, 'a'), 'second\n')
    const changed = await run(shop, 'cat', '/in/a')
    assert.equal(changed.stdout, 'second\n')
    assert.match(changed.stderr, /COPY a \/in\/ \(changed: a\)/)
    const explained = await world.ok(['config', 'explain', 'base'], { cwd: shop })
    assert.match(explained, /^base +image \(Dockerfile\) +agentpod\.toml:2 dockerfile = "Dockerfile"/m)
    const built = JSON.parse(await world.ok(['build', '--json'], { cwd: shop }))
    assert.match(built.image.ref, /^dockerfile\.invalid\/shop-\w+-[0-9a-f]{8}:latest$/)
    // Another image needs another approval; other steps do not.
    writeFileSync(join(shop, 'Dockerfile'), `FROM ${base}\nCOPY a /in/\nRUN echo two > /made\n`)
    assert.equal(await world.ok(['test'], { cwd: shop }), 'two\nsecond\n')
    writeFileSync(join(shop, 'Dockerfile'), `FROM ${base}\nCOPY --from=${other} /other.txt /made\n`)
    const beyond = await run(shop, 'cat', '/made')
    assert.notEqual(beyond.code, 0)
    assert.ok(beyond.stderr.includes(`the image ${other}, whose programs`), beyond.stderr)
  })

  test('DF-10 its path, context, stage and arguments are those of the file, and steps are built on it', async () => {
    const shop = project({
      'agentpod.toml': `[environment.dockerfile]
file = "docker/app"
context = "docker"
target = "dev"
build_args = { BASE = "${base}", WORD = "said" }
[lifecycle]
setup = { run = "cat /word > /from-setup", inputs = [] }
`,
      'docker/app':
        'ARG BASE\nFROM $BASE AS dev\nARG WORD\nCOPY in /in\nRUN echo $WORD > /word\nFROM dev\nRUN exit 1\n',
      'docker/in': 'inside\n',
      'docker/app.dockerignore': '*\n!in\n',
    })
    await approve(shop)
    const { stdout, stderr } = await run(shop, 'sh', '-c', 'cat /in /word /from-setup')
    assert.equal(stdout, 'inside\nsaid\nsaid\n', stderr)
  })

  test('DF-10 a mistake is one error with its file and line', async () => {
    const broken = project({ 'agentpod.toml': PLAIN, Dockerfile: `FROM ${base}\nRUN exit 7\n` })
    await approve(broken)
    const failed = await run(broken, 'true')
    assert.match(failed.stderr, /Dockerfile:2: RUN exit 7 failed: exit code 7/)
    writeFileSync(
      join(broken, 'Dockerfile'),
      `FROM ${base}\nRUN --mount=type=secret,id=t,required=true cat /run/secrets/t\n`,
    )
    const secret = await run(broken, 'true')
    assert.match(secret.stderr, /Dockerfile:2: .* needs the secret "t", and none was given/)
    assert.match(
      secret.stderr,
      /a project's Dockerfile gets no secrets: `agentpod build -f Dockerfile --secret/,
    )
    rmSync(join(broken, 'Dockerfile'))
    await approve(broken)
    assert.match((await run(broken, 'true')).stderr, /agentpod\.toml:2: there is no Dockerfile Dockerfile/)
  })

  test('CF-04 links out of the project are not followed, and what git ignores stays out', async () => {
    const shop = project({
      'agentpod.toml': '[environment.dockerfile]\ncontext = "in"\n',
      Dockerfile: `FROM ${base}\nCOPY . /all\n`,
      'in/.env': 'secret\n',
      'in/a': 'a\n',
      '.gitignore': '.env\n',
    })
    await world.ok(['-C', shop, 'init', '-q'], { program: ['git'] })
    await approve(shop)
    const { stdout, stderr } = await run(shop, 'ls', '-A', '/all')
    assert.equal(stdout, 'a\n', stderr)
    // The control: a build that the user asks for has it.
    const words = ['build', '-f', join(shop, 'Dockerfile'), '-t', 'all', join(shop, 'in')]
    await world.ok(words)
    const asked = await world.ok(['run', '--no-project', '--image', 'all', '--', 'ls', '-A', '/all'])
    assert.equal(asked, '.env\na\n')
    const outside = project({ 'agentpod.toml': '[environment.dockerfile]\ncontext = "in"\n' })
    symlinkSync(join(shop, 'in'), join(outside, 'in'))
    symlinkSync(join(shop, 'Dockerfile'), join(outside, 'Dockerfile'))
    await approve(outside)
    const linked = await run(outside, 'true')
    assert.match(linked.stderr, /Dockerfile is not a regular file of the project/)
    rmSync(join(outside, 'Dockerfile'))
    writeFileSync(join(outside, 'Dockerfile'), 'FROM scratch\nCOPY . /all\n')
    const context = await run(outside, 'true')
    assert.match(context.stderr, /the build context in is not a directory of the project/)
  })

  test('IMG-5 --image goes before the project’s Dockerfile, for run, shell, test and config explain', async () => {
    const shop = project({ 'agentpod.toml': PLAIN, Dockerfile: 'FROM scratch\nRUN broken\n', a: 'a\n' })
    const explained = await world.ok(['config', 'explain', '--image', base, 'base'], { cwd: shop })
    assert.ok(explained.includes(`image (${base})`), explained)
    const image = ['--image', base]
    assert.equal(await world.ok(['run', ...image, '--', 'cat', '/base.txt', 'a'], { cwd: shop }), 'base\na\n')
    const shell = await world.cli(['shell', ...image], { cwd: shop, input: 'cat /base.txt a\n' })
    assert.equal(shell.stdout, 'base\na\n', shell.stderr)
    writeFileSync(join(shop, 'agentpod.toml'), PLAIN.replace('/made /in/a', '/base.txt a'))
    assert.equal(await world.ok(['test', ...image], { cwd: shop }), 'base\na\n')
  })

  test('IMG-5 packages of apt are installed with the image’s own apt, and without one the error says so', async () => {
    const apt = '#!/bin/sh\necho "$@" >> /apt.log\n'
    const toml = (dockerfile: string): string =>
      `[environment]\ndockerfile = "${dockerfile}"\n[environment.packages]\napt = ["jq", "graphviz"]\n`
    const shop = project({
      'agentpod.toml': toml('Dockerfile'),
      Dockerfile: `FROM ${base}\nCOPY --chmod=755 apt-get /bin/\n`,
      'apt-get': apt,
      bare: `FROM ${base}\n`,
    })
    await approve(shop)
    const { stdout, stderr } = await run(shop, 'cat', '/apt.log')
    assert.match(stdout, /^-q install .* -- graphviz jq$/m, stderr)
    writeFileSync(join(shop, 'agentpod.toml'), toml('bare'))
    await approve(shop)
    const failed = await run(shop, 'true')
    assert.notEqual(failed.code, 0)
    assert.match(failed.stderr, /the image has no apt-get.*install the packages in a Dockerfile/)
  })
})

test('DF-10 an ordinary user’s project starts from its Dockerfile, and from the changed one afterwards', {
  skip: noOrdinaryUser() || NO_BUSYBOX,
}, async () => {
  using user = makeOrdinaryUser()
  await using world = new World({ home: join(user.home, '.agentpod'), as: user })
  const shop = join(user.home, 'shop')
  mkdirSync(shop)
  const busybox = execFileSync('sh', ['-c', 'command -v busybox'], { encoding: 'utf8' }).trim()
  copyFileSync(busybox, join(shop, 'busybox'))
  const dockerfile = 'FROM scratch\nCOPY busybox /bin/sh\nCOPY busybox /bin/cat\nRUN echo built > /made\n'
  writeFileSync(join(shop, 'agentpod.toml'), '[environment]\ndockerfile = "Dockerfile"\n')
  writeFileSync(join(shop, 'Dockerfile'), dockerfile)
  execFileSync('chown', ['-R', `${user.uid}:${user.gid}`, shop])
  await world.ok(['policy', 'approve'], { cwd: shop })
  const made = (): Promise<string> => world.ok(['run', '--', '/bin/cat', '/made'], { cwd: shop })
  assert.equal(await made(), 'built\n')
  writeFileSync(join(shop, 'Dockerfile'), `${dockerfile}RUN echo more >> /made\n`)
  assert.equal(await made(), 'built\nmore\n')
})
