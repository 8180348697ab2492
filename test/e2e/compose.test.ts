/** Repositories with a compose file and no agentpod.toml: their services run beside the project's sandbox. */
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
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

  test('CMP-12 an interrupt while a member starts leaves nothing, also with --keep', async () => {
    const file = join(project, 'compose.override.yaml')
    writeFileSync(file, 'services:\n  db: { healthcheck: { test: "false", interval: 60s, retries: 9 } }\n')
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      const child = world.start(['run', '--keep', '--', 'true'], { cwd: project })
      const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
      await until('a member is running', async () =>
        (await pod.groups.list()).some(({ members }) =>
          members.some(({ sandbox }) => sandbox?.state === 'running'),
        ),
      )
      assert.equal(child.exitCode, null)
      child.kill(signal)
      await ended
      await nothingIsLeft()
    }
    writeFileSync(file, 'services: {}\n')
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
