/** Each Dockerfile of test/dockerfiles, built by us and by Docker's own builder: the same image. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { DockerDaemon, NO_DOCKER } from '../support/docker-daemon.ts'
import {
  builtByDocker,
  builtByUs,
  comparable,
  dockerfileCases,
  linesOf,
  putBases,
} from '../support/dockerfiles.ts'
import { NO_BUSYBOX } from '../support/tiny-images.ts'
import { ToyRegistry } from '../support/toy-registry.ts'
import { World } from '../support/world.ts'

describe('Dockerfiles beside Docker', { skip: NO_DOCKER || NO_BUSYBOX }, () => {
  const world = new World()
  let registry: ToyRegistry
  let daemon: DockerDaemon
  let bases: Record<string, string> = {}

  before(async () => {
    registry = await ToyRegistry.start()
    daemon = await DockerDaemon.start()
    bases = putBases(registry)
    writeFileSync(join(world.home, 'config.toml'), `[registries."${registry.host}"]\ninsecure = true\n`)
  })

  after(async () => {
    await world[Symbol.asyncDispose]()
    await daemon?.[Symbol.asyncDispose]()
    await registry?.[Symbol.asyncDispose]()
  })

  for (const one of dockerfileCases()) {
    test(`DF-1 ${one.name} gives the same files, modes, owners and settings`, async () => {
      const ours = await builtByUs(world, one, bases)
      if (one.noDocker === undefined) {
        const theirs = await builtByDocker(daemon.env, one, bases)
        assert.deepEqual(comparable(ours), comparable(theirs))
      }
      const lines = new Set(linesOf(ours))
      for (const line of one.expected)
        assert.ok(lines.has(line), `${line}\nis not in\n${[...lines].join('\n')}`)
    })
  }
})
