/** Dockerfiles built by the command line: results, cache, mounts, secrets, network, and failures. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { EnvironmentBuilder } from '../../src/client/environment-builder.ts'
import { isAgentPodError } from '../../src/core/error.ts'
import { builtByUs, dockerfileCases, linesOf, putBases } from '../support/dockerfiles.ts'
import { Internet, noInternet, SITE } from '../support/internet.ts'
import { NO_BUSYBOX } from '../support/tiny-images.ts'
import { ToyRegistry } from '../support/toy-registry.ts'
import { type CliResult, World } from '../support/world.ts'

describe('Dockerfiles', { skip: NO_BUSYBOX }, () => {
  const world = new World()
  let registry: ToyRegistry
  let bases: Record<string, string> = {}
  let directory = ''

  before(async () => {
    registry = await ToyRegistry.start()
    bases = putBases(registry)
    directory = mkdtempSync(join(tmpdir(), 'agentpod-build-'))
    writeFileSync(join(world.home, 'config.toml'), `[registries."${registry.host}"]\ninsecure = true\n`)
  })

  after(async () => {
    await world[Symbol.asyncDispose]()
    await registry?.[Symbol.asyncDispose]()
    rmSync(directory, { recursive: true, force: true })
  })

  /** A new context with a Dockerfile that begins with the base. */
  function context(dockerfile: string, files: Readonly<Record<string, string>> = {}): string {
    const made = mkdtempSync(join(directory, 'context-'))
    for (const [path, content] of Object.entries({ Dockerfile: dockerfile, ...files })) {
      mkdirSync(dirname(join(made, path)), { recursive: true })
      writeFileSync(join(made, path), content)
    }
    return made
  }
  const words = (made: string, ...more: string[]): string[] => [
    'build',
    ...['-f', join(made, 'Dockerfile'), '--build-arg', `BASE=${bases['BASE']}`],
    ...more,
    made,
  ]
  const build = (made: string, ...more: string[]): Promise<CliResult> => world.cli(words(made, ...more))
  const from = (text: string): string => `ARG BASE\nFROM \${BASE}\n${text}`
  const inside = (image: string, ...command: string[]): Promise<string> =>
    world.ok(['run', '--no-project', '--image', image, '--', ...command])

  test('DF-1 a Dockerfile becomes an image that runs by its name, with its settings', async () => {
    const made = context(
      from('COPY a /in/\nRUN cat /in/a > /out\nENV GREETING=hi\nUSER 1234:5\nWORKDIR /in\n'),
      { a: 'content\n' },
    )
    await world.ok(words(made, '-t', 'first'))
    const seen = await inside('first', 'sh', '-c', 'cat /out; echo $GREETING; id -u; pwd')
    assert.equal(seen, 'content\nhi\n1234\n/in\n')
    // The result is the beginning of another one.
    const next = context('FROM first\nUSER root\nRUN echo more >> /out\n')
    await world.ok(['build', '-f', join(next, 'Dockerfile'), '-t', 'second', next])
    assert.equal(await inside('second', 'cat', '/out'), 'content\nmore\n')
  })

  test('DF-1 46-heredocs has the files that BuildKit gives', async () => {
    const found = dockerfileCases().find((one) => one.name === '46-heredocs')
    assert.ok(found)
    const lines = linesOf(await builtByUs(world, found, bases))
    for (const line of found.expected) assert.ok(lines.includes(line), line)
  })

  test('DF-2 a step is built again only if what it reads changed, and the build says what', async () => {
    const made = context(from('COPY used /\nRUN cat /used > /copy\n'), { used: '1\n', unused: '1\n' })
    await world.ok(words(made))
    const again = await build(made, '-v')
    assert.match(again.stderr, /COPY used \/ \(cached\)/)
    assert.match(again.stderr, /RUN cat \/used > \/copy \(cached\)/)
    writeFileSync(join(made, 'unused'), '2\n')
    assert.doesNotMatch((await build(made)).stderr, /^\[/m)
    writeFileSync(join(made, 'used'), '2\n')
    const { stderr } = await build(made)
    assert.match(stderr, /COPY used \/ \(changed: used\)/)
    assert.match(stderr, /RUN cat \/used > \/copy \(a step before it changed\)/)
    assert.match((await build(made, '--no-cache')).stderr, /COPY used \/ \(the cache is not used\)/)
  })

  test('DF-3 stages that nothing needs are left out, and --target builds one', async () => {
    const made = context(
      'ARG BASE\nFROM $BASE AS broken\nRUN exit 7\nFROM $BASE AS fine\nRUN echo fine > /fine\n',
    )
    await world.ok(words(made))
    const failed = await build(made, '--target', 'broken')
    assert.notEqual(failed.code, 0)
    assert.match(failed.stderr, /Dockerfile:3: RUN exit 7 failed: exit code 7/)
    assert.match((await build(made, '--target', 'none')).stderr, /has no stage "none"/)
  })

  test('DF-4 a secret is where the command expects it, and nowhere afterwards', async () => {
    // IM-08
    const value = 'a-very-secret-value'
    const made = context(
      from(
        [
          'RUN --mount=type=secret,id=t cat /run/secrets/t && test "$(wc -c < /run/secrets/t)" = 19',
          'RUN --mount=type=secret,id=t,target=/root/.netrc test "$(wc -c < /root/.netrc)" = 19',
          'RUN --mount=type=secret,id=t,env=TOKEN,required=true test "$(printf %s $TOKEN | wc -c)" = 19',
          '',
        ].join('\n'),
      ),
    )
    const missing = await build(made)
    assert.match(missing.stderr, /Dockerfile:5: RUN .* needs the secret "t", and none was given/)
    assert.match(missing.stderr, /--secret id=t,src=FILE/)
    writeFileSync(join(made, 'value'), value)
    const done = await build(made, '-v', '-t', 'secretive', '--secret', `id=t,src=${join(made, 'value')}`)
    assert.equal(done.code, 0, done.stderr)
    assert.match(done.stderr, /^\*\*\*/m)
    // The control: the name of the image is found, the value is not.
    const holds = (text: string): boolean => {
      const look = 'find "$0" -type f -size -64M -print0 | xargs -0 grep -lsa -e "$1"'
      return spawnSync('sh', ['-c', look, world.home, text], { encoding: 'utf8' }).stdout !== ''
    }
    assert.ok(holds('secretive'))
    assert.ok(!holds(value))
    assert.equal(
      await inside('secretive', 'sh', '-c', 'ls -a /root /run/secrets 2>&1 | grep -c netrc || :'),
      '0\n',
    )
  })

  test('DF-5 only allowed hosts are reached, and the error names the option for others', {
    skip: noInternet(),
  }, async () => {
    await using internet = await Internet.open(['site.example'])
    internet.name('site.example', [SITE])
    await using online = internet.world()
    const made = context('FROM scratch\nADD https://site.example/file /got\n')
    const ask = (...more: string[]): Promise<CliResult> =>
      online.cli(['build', '-f', join(made, 'Dockerfile'), ...more, made])
    const refused = await ask()
    assert.notEqual(refused.code, 0)
    assert.match(refused.stderr, /refused: site\.example:/)
    assert.match(refused.stderr, /to allow it: --allow site\.example$/m)
    const allowed = await ask('--allow', 'site.example')
    assert.equal(allowed.code, 0, allowed.stderr)
  })

  test('DF-6 a cache outlives the build and is no part of the image', async () => {
    const step = (n: number): string =>
      from(
        `RUN --mount=type=cache,target=/var/keep echo ${n} >> /var/keep/log; wc -l < /var/keep/log > /count\n`,
      )
    await world.ok(words(context(step(1)), '-t', 'counted'))
    await world.ok(words(context(step(2)), '-t', 'counted'))
    assert.equal(
      await inside('counted', 'sh', '-c', 'cat /count; ls /var 2>/dev/null || echo none'),
      '2\nnone\n',
    )
  })

  test('DF-7 a mistake is one error with its line, and nothing is left of the build', async () => {
    const cases: readonly (readonly [string, RegExp])[] = [
      ['RUNN x\n', /Dockerfile:3: unknown instruction: RUNN/],
      ['RUN echo before; exit 3\n', /Dockerfile:3: RUN echo before; exit 3 failed: exit code 3/],
      ['COPY ../outside /\n', /Dockerfile:3: COPY \.\.\/outside \/ failed: .*not found/],
      ['RUN --mount=type=ssh,required=true true\n', /Dockerfile:3: RUN --mount=type=ssh is not supported/],
      ['RUN --security=insecure true\n', /Dockerfile:3: .*insecure/],
    ]
    for (const [text, expected] of cases) {
      const { code, stderr } = await build(context(from(text)), '-t', 'never')
      assert.notEqual(code, 0, text)
      assert.match(stderr, expected)
    }
    const images = await world.client().images.list()
    assert.ok(!images.some(({ ref }) => ref.includes('never')))
    assert.deepEqual(JSON.parse(await world.ok(['ls', '--all', '--json'])).filter(isLiving), [])
  })

  test('DF-8 the linter’s warnings are shown with their lines', async () => {
    const { stderr } = await build(context('ARG BASE\nFROM $BASE as lower\nENV key value\n'))
    assert.match(stderr, /warning: Dockerfile:2: .*\(FromAsCasing\)/)
    assert.match(stderr, /warning: Dockerfile:3: .*\(LegacyKeyValueFormat\)/)
  })

  test('DF-9 the client library builds with a log, and an image is pushed by its name', async () => {
    const pod = world.client()
    const output: Buffer[] = []
    const built = await pod.builds.dockerfile(
      { content: `FROM ${bases['BASE']}\nRUN echo logged\nLABEL a=b\n`, tag: 'by-library' },
      { onOutput: (_, data) => output.push(data) },
    )
    assert.equal(Buffer.concat(output).toString(), 'logged\n')
    assert.equal(built.image?.ref, 'docker.io/library/by-library:latest')
    const target = `${registry.host}/team/by-library:1`
    await world.ok(['image', 'push', 'by-library', target])
    const pulled = await pod.images.pull(target)
    assert.deepEqual(pulled.labels, { base: 'yes', a: 'b' })
    await assert.rejects(
      pod.builds.dockerfile({ content: `FROM ${bases['BASE']}\nCOPY x /\n` }),
      (error) => isAgentPodError(error, 'invalid_argument') && error.reason === 'dockerfile.context',
    )
  })

  test('ENV-14 an environment in code starts from a Dockerfile, and steps are built on it', async () => {
    const made = context(
      'ARG BASE\nFROM $BASE AS a\nCOPY f /\nRUN echo said\nUSER 1234\nFROM a\nRUN exit 1\n',
      {
        f: 'one\n',
      },
    )
    const pod = world.client()
    const environment = EnvironmentBuilder.dockerfile(join(made, 'Dockerfile'), {
      target: 'a',
      args: { BASE: bases['BASE'] ?? '' },
    }).run('cat /f > /g; id -u >> /g')
    const log: string[] = []
    const built = await environment.build(pod, { onLog: (line) => log.push(line) })
    assert.ok(log.includes('said'), log.join('\n'))
    const sandbox = await pod.create({ environment: built })
    const { stdout } = await sandbox.exec('sh', { args: ['-c', 'cat /g; id -u'] }).wait()
    assert.equal(stdout, 'one\n0\n1234\n')
    await sandbox.destroy()
    log.length = 0
    await environment.build(pod, { onLog: (line) => log.push(line) })
    assert.ok(
      log.some((line) => /^\[1\/1\] cat \/f > \/g; id -u >> \/g: cached$/.test(line)),
      log.join('\n'),
    )
    assert.ok(!log.some((line) => line.includes('done in')))
    writeFileSync(join(made, 'f'), 'two\n')
    await environment.build(pod, { onLog: (line) => log.push(line) })
    assert.ok(log.some((line) => /COPY f \/: done in/.test(line)))
    await assert.rejects(EnvironmentBuilder.dockerfile(join(made, 'none')).build(pod), {
      reason: 'dockerfile.missing',
    })
  })
})

function isLiving({ state }: { readonly state: string }): boolean {
  return state !== 'destroyed' && state !== 'failed'
}
