/** Repositories with a compose file and no agentpod.toml: their services run beside the project's sandbox. */
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { readCompose } from '../../src/config/compose/compose-project.ts'
import { makeImage } from '../support/made-image.ts'
import { busyboxFiles, NO_BUSYBOX } from '../support/tiny-images.ts'
import { ToyRegistry } from '../support/toy-registry.ts'
import { until, World } from '../support/world.ts'

const world = new World()
const pod = world.client()
let registry: ToyRegistry
let project = ''

const ENTRY = `#!/bin/sh
echo "$@" > /started
mkdir -p /www && cp /seed.txt /www/seed.txt && hostname > /www/host
(sleep 1; touch /tmp/ready) &
exec httpd -f -p "$PORT" -h /www
`
const compose = (image: string): string => `
services:
  web:
    image: ${image}
    volumes: [".:/app"]
    ports: ["18080:8080"]
    environment: { DB: "http://db:8000", GREETING: "\${WORD:-hello}" }
    depends_on:
      setup: { condition: service_completed_successfully }
      cache: { condition: service_started }
  db:
    image: ${image}
    command: [serve, "two words"]
    environment: { PORT: 8000 }
    volumes: ["./db/seed.txt:/seed.txt:ro", "data:/data"]
    healthcheck: { test: test -f /tmp/ready, interval: 1s, retries: 20 }
  setup:
    image: ${image}
    entrypoint: [sh, -c]
    command: ['test "$$(wget -qO- http://db:8000/seed.txt)" = seeded']
    depends_on: { db: { condition: service_healthy } }
  cache:
    image: ${image}
    entrypoint: [sh, -c]
    command: ["while true; do echo PONG | nc -l -p 6379; done"]
    networks: { default: { aliases: [redis] } }
  tool: { image: ${image}, profiles: [tools] }
volumes: { data: }
`

/** Three services of which two are built, one of them in its own directory. */
const built = (image: string): Readonly<Record<string, string>> => ({
  'compose.yaml': `services:
  web:
    build: { context: ., args: { GREETING: hi } }
    volumes: [".:/app", "data:/data", "parts:/app/parts"]
    entrypoint: [sh, -c]
    command: ['echo serving; wget -qO- http://api:9000/page']
    working_dir: /app
    user: "1234"
    mem_limit: 256m
    environment: { NAME: web, ODD.NAME: x }
    healthcheck: { test: "true" }
    depends_on: { api: { condition: service_healthy } }
    secrets: [pw]
  api:
    extends: { service: server, file: api/base.yaml }
    environment: { KIND: api }
  debug: { image: ${image}, profiles: [debugging] }
volumes: { data: , parts: }
secrets: { pw: { content: x } }
`,
  'api/base.yaml': `services:
  server:
    build: .
    volumes: ["data:/shared"]
    healthcheck: { test: wget -qO- http://127.0.0.1:9000/page, interval: 1s, retries: 30 }
`,
  Dockerfile: `FROM ${image}\nARG GREETING\nWORKDIR /app\nCOPY . .\nRUN echo $GREETING > /greeting; mkdir -p /app/parts /app/stale; echo part > /app/parts/one\n`,
  'api/Dockerfile': `FROM ${image}\nCOPY page /www/page\nENTRYPOINT ["/bin/sh", "-c", "echo from-api > /shared/api; exec httpd -f -p 9000 -h /www"]\n`,
  'api/page': 'the page\n',
  'note.txt': 'here\n',
})

const TOML = `
[environment]
base = "debian"
[environment.variables]
DATABASE_URL = "postgres://u@localhost:5432/u"
PRICE = "$5"
[services]
postgres = {}
worker = { run = "sleep 9", ready = "true" }
[lifecycle]
dev = "python3 -m http.server 8000"
[ports]
8000 = { label = "web" }
`

describe('compose files', { skip: NO_BUSYBOX }, () => {
  before(async () => {
    registry = await ToyRegistry.start()
    const image = registry.put(
      'team/server',
      '1',
      makeImage({
        layers: [busyboxFiles(), [{ name: 'entry.sh', content: ENTRY, mode: 0o755 }]],
        config: { Env: ['PATH=/bin'], Entrypoint: ['/bin/sh', '/entry.sh'], Cmd: ['default'] },
      }),
    )
    writeFileSync(join(world.home, 'config.toml'), `[registries."${registry.host}"]\ninsecure = true\n`)
    project = join(world.home, 'shop')
    mkdirSync(join(project, 'db'), { recursive: true })
    writeFileSync(join(project, 'compose.yaml'), compose(image))
    writeFileSync(join(project, '.env'), 'WORD=from-env\n')
    writeFileSync(join(project, 'db', 'seed.txt'), 'seeded\n')
  })
  after(async () => {
    pod.close()
    await registry?.[Symbol.asyncDispose]()
    await world[Symbol.asyncDispose]()
  })

  const inShop = (...args: string[]): ReturnType<World['cli']> =>
    world.cli(args, { cwd: project, timeoutMs: 120_000 })
  const nothingIsLeft = (): Promise<void> =>
    until('nothing is left', async () => (await pod.groups.list()).length + (await pod.list()).length === 0)
  const PROBE = 'echo "$GREETING $(wget -qO- $DB/seed.txt)"; nc redis 6379 < /dev/null'

  test('CMP-11 CF-02: without an approval of its images no service runs, and one approval covers them all', async () => {
    const refused = await inShop('run', '--', 'sh', '-c', 'echo "alone $GREETING"')
    assert.equal(refused.stdout, 'alone \n', refused.stderr)
    assert.match(refused.stderr, /compose\.yaml asks for more than you have granted/)
    assert.match(refused.stderr, /the image \S+team\/server:1, whose programs may run as root/)
    assert.match(refused.stderr, /the services of compose\.yaml do not run/)
    assert.deepEqual(await pod.images.list(), [])
    const explained = await inShop('config', 'explain')
    assert.match(explained.stdout, /do not run until `agentpod policy approve`/)
    const approved = await inShop('policy', 'approve')
    assert.match(approved.stdout + approved.stderr, /granted: the image \S+team\/server:1/)
    const allowed = await inShop('run', '--', 'sh', '-c', 'echo "with $GREETING"')
    assert.equal(allowed.stdout, 'with from-env\n', allowed.stderr)
    assert.match(allowed.stderr, /this sandbox is the service web/)
    await nothingIsLeft()
  })

  test('CMP-7 run starts the services in their order, reaches them by name, and leaves nothing', async () => {
    const { code, stdout, stderr } = await inShop('run', '--', 'sh', '-c', PROBE)
    assert.equal(code, 0, stderr)
    assert.equal(stdout, 'from-env seeded\nPONG\n')
    assert.match(stderr, /compose\.yaml:\d+: this sandbox is the service web/)
    await nothingIsLeft()
    const explained = await inShop('config', 'explain')
    assert.match(explained.stdout, /^compose\.web +this sandbox +compose\.yaml:\d+ /m, explained.stderr)
    assert.match(explained.stdout, /^compose\.db +a sandbox named db in its group/m)
  })

  test('CMP-7 in a repository the same, and a kept sandbox keeps its group', async () => {
    const git = (...args: string[]): Buffer =>
      execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b', ...args], { cwd: project })
    git('init', '-q')
    git('add', '.')
    git('commit', '-qm', 'first')
    const { code, stdout, stderr } = await inShop('run', '--keep', '--name', 'kept', '--', 'sh', '-c', PROBE)
    assert.equal(code, 0, stderr)
    assert.match(stdout, /from-env seeded\nPONG/)
    const [group] = await pod.groups.list()
    assert.deepEqual(
      group?.members.map(({ name, main, sandbox }) => [name, main, sandbox?.state]),
      [
        ['db', false, 'running'],
        ['setup', false, 'running'],
        ['cache', false, 'running'],
        ['web', true, 'running'],
      ],
    )
    const db = await pod.get(group?.members[0]?.sandbox?.id ?? '')
    assert.equal(await db.readText('/started', { user: 'root' }), 'serve two words\n')
    assert.ok(db.info.volumes?.some(({ path }) => path === '/data'))
    await world.ok(['destroy', 'kept'])
    await nothingIsLeft()
  })

  test('CMP-8 a service that fails ends everything, and the error names it with its line', async () => {
    const file = join(project, 'compose.override.yaml')
    writeFileSync(file, 'services:\n  setup: { command: ["echo broken-setup; exit 3"] }\n')
    const failed = await inShop('run', '--', 'true')
    assert.equal(failed.code, 125)
    assert.match(failed.stderr, /compose\.yaml:\d+: service setup: it ended with code 3: broken-setup/)
    await nothingIsLeft()
    writeFileSync(file, 'services:\n  db: { privileged: true }\n')
    const refused = await inShop('run', '--', 'true')
    assert.match(refused.stderr, /compose\.override\.yaml:2:\d+: services\.db\.privileged/)
    assert.match(refused.stderr, /--no-compose/)
    const without = await inShop('run', '--no-compose', '--', 'echo', 'alone')
    assert.equal(without.stdout, 'alone\n', without.stderr)
    writeFileSync(file, 'services: {}\n')
  })

  test('CMP-15 services that are built run from their own Dockerfiles, and the project is in its own', async () => {
    const directory = join(world.home, 'built')
    const image = (await pod.images.list())[0]?.ref ?? ''
    for (const [file, text] of Object.entries(built(image))) {
      mkdirSync(dirname(join(directory, file)), { recursive: true })
      writeFileSync(join(directory, file), text)
    }
    const here = (...args: string[]): ReturnType<World['cli']> =>
      world.cli(args, { cwd: directory, timeoutMs: 120_000 })
    const refused = await here('run', '--', 'true')
    assert.match(refused.stderr, /the Dockerfile Dockerfile\b.*\n.*the Dockerfile api\/Dockerfile/)
    assert.match(refused.stderr, /the services of compose\.yaml do not run, and the file is not used/)
    await here('policy', 'approve')
    const probe =
      'cat /greeting note.txt parts/one; ls; pwd; id -u; echo $NAME; wget -qO- http://api:9000/page; cat /data/api'
    const ran = await here('run', '--keep', '--name', 'built', '--', 'sh', '-c', probe)
    assert.equal(
      ran.stdout,
      `hi\nhere\npart\nDockerfile\napi\ncompose.yaml\nnote.txt\nparts\n/app\n1234\nweb\nthe page\nfrom-api\n`,
      ran.stderr,
    )
    const { resources, volumes = [] } = (await pod.get('built')).info
    assert.equal(resources.memoryMib, 256)
    assert.deepEqual(
      volumes.map(({ path }) => path),
      ['/data'],
    )
    await world.ok(['destroy', 'built'])
    for (const note of [
      /compose\.yaml:2: this sandbox is the service web, because it mounts the project; api runs beside it/,
      /compose\.yaml:2: service web: nothing waits for the health check of this service/,
      /compose\.yaml:2: service web: the variable ODD\.NAME is not set here/,
      /compose\.yaml:2: service web: the volume parts is a directory of the sandbox, because it is in the project/,
      /compose\.yaml:2: service web: the file \/run\/secrets\/pw is not in this sandbox/,
      /compose\.yaml:\d+: debug does not run, .*--compose-profile debugging starts it/,
    ])
      assert.match(ran.stderr, note)
    const explained = (await here('config', 'explain')).stdout
    assert.match(explained, /^base +image \(Dockerfile, GREETING=hi\) +compose\.yaml:2 .*\(compose file\)/m)
    assert.match(explained, /^variables\.NAME +web +compose\.yaml:2 services\.web\.environment NAME/m)
    assert.match(explained, /^compose\.web\.directory +\/app /m)
    assert.match(explained, /^compose\.api\.variables\.KIND +api +compose\.yaml:14 environment/m)
    assert.match(explained, /^commands\.dev +sh -c/m)
    const dev = await here('dev')
    assert.match(dev.stdout, /serving\nthe page/, dev.stderr)
    await nothingIsLeft()
    rmSync(join(directory, 'api/Dockerfile'))
    const missing = await here('run', '--', 'true')
    assert.match(missing.stderr, /compose\.yaml:\d+: service api: there is no Dockerfile "api\/Dockerfile"/)
    assert.match(missing.stderr, /correct build: of the service; --no-compose/)
  })

  test('CMP-17 wrong options end with code 2 and a hint, and build and lock cover the services or say so', async () => {
    const wrong: readonly (readonly [readonly string[], RegExp])[] = [
      [['config', 'check', '--service', 'web'], /--service does not apply to `agentpod config check`/],
      [['config', 'compose', '--compose-profile', 'x'], /--compose-profile does not apply to/],
      [['policy', 'show', '--no-compose', 'x'], /--no-compose is for `agentpod policy approve`/],
      [['run', '--service', 'web', '--bare', '--', 'true'], /--service has no effect with --bare/],
      [['run', '--service', 'wbe', '--', 'true'], /compose\.yaml.* has no active service "wbe"/],
    ]
    for (const [args, message] of wrong) {
      const { code, stderr } = await inShop(...args)
      assert.equal(code, 2, stderr)
      assert.match(stderr, message)
      assert.match(stderr, /^hint: /m)
    }
    const locked = await inShop('config', 'lock')
    assert.equal(locked.code, 6)
    assert.match(
      locked.stderr,
      /compose\.yaml:3: the environment is that of the service web, which agentpod\.lock/,
    )
    const { code, stdout, stderr } = await inShop('build', '--json')
    assert.equal(code, 0, stderr)
    assert.deepEqual(Object.keys((JSON.parse(stdout) as { services: object }).services), [
      'db',
      'setup',
      'cache',
    ])
  })

  test('CMP-12 an interrupt while a member starts leaves nothing, also with --keep', async () => {
    const file = join(project, 'compose.override.yaml')
    writeFileSync(file, 'services:\n  db: { healthcheck: { test: "false", interval: 60s, retries: 9 } }\n')
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      const child = world.start(['run', '--keep', '--', 'true'], { cwd: project })
      let said = ''
      child.stderr?.on('data', (data: Buffer) => (said += data.toString()))
      const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
      await until('a member is running', async () =>
        (await pod.groups.list()).some(({ members }) =>
          members.some(({ sandbox }) => sandbox?.state === 'running'),
        ),
      )
      assert.equal(child.exitCode, null)
      child.kill(signal)
      await ended
      assert.doesNotMatch(said, /error: (?!interrupted)/)
      await nothingIsLeft()
    }
    writeFileSync(file, 'services: {}\n')
  })

  test('CMP-12 an interrupt while a repository is prepared leaves nothing', async () => {
    const directory = join(world.home, 'large')
    mkdirSync(directory)
    execFileSync('git', ['init', '-q'], { cwd: directory })
    writeFileSync(join(directory, 'large.bin'), randomBytes(32 * 1024 * 1024))
    const child = world.start(['run', '--', 'true'], { cwd: directory })
    const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
    await until('a sandbox prepares the project', async () =>
      (await pod.list()).some(({ labels }) => labels['agentpod/preparing'] === 'project'),
    )
    assert.equal(child.exitCode, null)
    child.kill('SIGINT')
    await ended
    await nothingIsLeft()
  })

  test('CMP-9 config compose writes a file that Docker’s own command accepts, and that says the same', async () => {
    const directory = join(world.home, 'written')
    mkdirSync(directory)
    writeFileSync(join(directory, 'agentpod.toml'), TOML)
    const { code, stdout, stderr } = await world.cli(['config', 'compose'], { cwd: directory })
    assert.equal(code, 0, stderr)
    const { services } = readCompose({
      files: ['compose.yaml'],
      read: (file) => (file === 'compose.yaml' ? stdout : undefined),
    })
    const byName = new Map(services.map((one) => [one.name, one]))
    assert.deepEqual(byName.get('app')?.environment['DATABASE_URL'], 'postgres://u@postgres:5432/u')
    assert.deepEqual(byName.get('app')?.environment['PRICE'], '$5')
    assert.deepEqual(
      byName.get('app')?.dependsOn.map(({ service, condition }) => [service, condition]),
      [['postgres', 'service_healthy']],
    )
    assert.match(byName.get('postgres')?.image ?? '', /^postgres:\d/)
    assert.ok(byName.get('postgres')?.healthcheck?.test)
    assert.match(stdout, /127\.0\.0\.1:8000:8000/)
    assert.match(stdout, /postgres-data:\/var\/lib\/postgresql\/data/)
    const command = spawnSync('docker-compose', ['-f', '-', 'config', '--quiet'], {
      input: stdout,
      cwd: directory,
      encoding: 'utf8',
    })
    // Where Debian's docker-compose is not installed, our own reader is the only check.
    if (command.error === undefined) assert.equal(command.status, 0, command.stderr)
    const missing = await world.cli(['config', 'compose'], { cwd: project })
    assert.match(missing.stderr, /no agentpod\.toml/)
  })
})
