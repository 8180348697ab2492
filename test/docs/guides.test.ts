/** The commands of the guides, each guide on a state directory that did not exist. */
import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { NO_DOCKER } from '../support/docker-daemon.ts'
import { NO_ENGINE_INSIDE } from '../support/docker-inside.ts'
import { openDocker } from '../support/docker-provider.ts'
import { commandsIn, runAll } from '../support/documented.ts'
import { NOT_LONG } from '../support/long.ts'
import { makeImage } from '../support/made-image.ts'
import type { TarEntry } from '../support/tar-bytes.ts'
import { busyboxFiles, NO_BUSYBOX } from '../support/tiny-images.ts'
import { ToyRegistry } from '../support/toy-registry.ts'
import { ROOT, World } from '../support/world.ts'

const GUIDES = join(ROOT, 'docs', 'guides')
const PROVIDERS = join(ROOT, 'docs', 'providers')

/**
 * The guide whose reader starts in an empty directory, where a repository is created: branches must not be
 * made in this one.
 */
const IN_ITS_OWN = 'agents.md'

/** Its code is run by test/findings/daily.test.ts. */
const CODE = 'sdk.md'

/** Its commands need a Docker daemon, and an image that is there. */
const ON_DOCKER = 'docker.md'
const ON_CRUN = 'local.md'

/** Its commands are run by ci.test.ts, in each setting that it describes. */
const IN_CI = 'ci.md'

/** It builds several environments. */
const SLOW = 'environments.md'

/** Its commands need gVisor, and a Docker engine among the machine's tools. */
const WITH_ENGINE = 'docker-inside.md'

function skipOf(guide: string): string | false {
  if (guide === SLOW) return NOT_LONG
  return guide === WITH_ENGINE && (NOT_LONG || NO_BUSYBOX || NO_ENGINE_INSIDE)
}

/** Its images come from a registry of the test, which stands before the real one. */
const WITH_IMAGES = ['images.md', 'dockerfiles.md']

/** Its code is run by test/long/environments-in-code.test.ts. */
const IN_CODE = 'environments-in-code.md'

for (const guide of readdirSync(GUIDES).filter(
  (name) => name.endsWith('.md') && ![IN_ITS_OWN, CODE, IN_CI, ...WITH_IMAGES, IN_CODE].includes(name),
)) {
  test(`${guide} works as written`, { skip: skipOf(guide), timeout: 120_000 }, async () => {
    await using world = new World()
    const lines = commandsIn(readFileSync(join(GUIDES, guide), 'utf8'))
    assert.ok(lines.length >= 5)
    runAll(lines, world.home)
  })
}

test(`${IN_ITS_OWN} works as written, in an empty directory`, {
  skip: NOT_LONG,
  timeout: 240_000,
}, async () => {
  await using world = new World()
  const place = world.directory()
  const [cwd, user] = [join(place, 'sums'), join(place, 'user')]
  for (const directory of [cwd, user]) mkdirSync(directory)
  writeFileSync(join(user, '.gitconfig'), '[user]\n\tname = Reader\n\temail = reader@example.com\n')
  const lines = commandsIn(readFileSync(join(GUIDES, IN_ITS_OWN), 'utf8'))
  assert.ok(lines.length >= 20)
  runAll(lines, world.home, { cwd, env: { HOME: user, PATH: `${ROOT}:${process.env['PATH']}` } })
})

for (const guide of WITH_IMAGES)
  test(`${guide} works as written, with a mirror`, { skip: NO_BUSYBOX, timeout: 120_000 }, async () => {
    await using world = new World()
    await using registry = await ToyRegistry.start()
    const release: TarEntry[] = [{ name: 'etc/os-release', content: 'ID=debian\n' }]
    registry.put('library/debian', '12', makeImage({ layers: [busyboxFiles(), release] }))
    writeFileSync(
      join(world.home, 'config.toml'),
      `[registries."docker.io"]\nmirrors = ["${registry.host}"]\n[registries."${registry.host}"]\ninsecure = true\n`,
    )
    const lines = commandsIn(readFileSync(join(GUIDES, guide), 'utf8'))
    assert.ok(lines.length >= 8)
    await runAllAside(lines, world, world.directory())
  })

/** The registry is in this process, so the commands must not block it. */
async function runAllAside(lines: readonly string[], world: World, cwd: string): Promise<void> {
  for (const line of lines) {
    const { code, stdout, stderr } = await world.cli(['-c', line], {
      program: ['sh'],
      cwd,
      env: { PATH: `${ROOT}:${process.env['PATH']}` },
    })
    assert.equal(code, 0, `${line}\n${stdout}${stderr}`)
  }
}

test(`${ON_CRUN} of the providers works as written`, { timeout: 120_000 }, async () => {
  await using world = new World()
  const lines = commandsIn(readFileSync(join(PROVIDERS, ON_CRUN), 'utf8'))
  assert.ok(lines.length >= 5)
  runAll(lines, world.home)
})

test(`${ON_DOCKER} of the providers works as written, on a daemon of its own`, {
  skip: NO_DOCKER || NOT_LONG,
  timeout: 240_000,
}, async () => {
  const { daemon, rootFile, close } = await openDocker()
  try {
    daemon.docker('import', rootFile, 'debian:12')
    const env = { DOCKER_HOST: `unix://${daemon.socket}`, DOCKER_CONFIG: daemon.directory }
    await using world = new World({ env })
    const lines = commandsIn(readFileSync(join(PROVIDERS, ON_DOCKER), 'utf8'))
    assert.ok(lines.length >= 5)
    runAll(lines, world.home, { env })
  } finally {
    await close()
  }
})
