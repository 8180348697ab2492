/** Images: from nothing to the first command, and from a stored image; beside Docker on the same registry. */
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { DockerDaemon, NO_DOCKER } from '../support/docker-daemon.ts'
import { makeImage } from '../support/made-image.ts'
import { busyboxFiles, NO_BUSYBOX } from '../support/tiny-images.ts'
import { ToyRegistry } from '../support/toy-registry.ts'
import { World } from '../support/world.ts'
import { type Case, roundRobin, timed } from './measure.ts'
import type { Report } from './report.ts'

const LAYERS = 8
const LAYER_BYTES = 16 * 1024 * 1024

export async function imageLives(report: Report, o: { readonly rounds: number }): Promise<void> {
  report.heading(
    `An image of ${LAYERS} layers, ${(LAYERS * LAYER_BYTES) >> 20} MiB, from a registry on loopback`,
  )
  if (NO_BUSYBOX) return report.say(`Not here: ${NO_BUSYBOX}.`)
  await using world = new World()
  await using registry = await ToyRegistry.start()
  writeFileSync(join(world.home, 'config.toml'), `[registries."${registry.host}"]\ninsecure = true\n`)
  const layers = Array.from({ length: LAYERS - 1 }, (_, n) => [
    { name: `data${n}`, content: pseudoRandom(LAYER_BYTES, n) },
  ])
  const image = makeImage({ layers: [busyboxFiles(), ...layers], config: { Env: ['PATH=/bin'] } })
  const ref = registry.put('bench/image', '1', image)
  const once = (): Promise<unknown> => world.ok(['run', '--no-project', '--image', ref, '--', 'true'])
  await once()
  const cases: Case[] = [
    {
      name: 'agentpod: pull and first command',
      once: async () => {
        await world.ok(['image', 'rm', ref])
        return timed(once)
      },
    },
    { name: 'agentpod: command, image is stored', once: () => timed(once) },
  ]
  if (NO_DOCKER) {
    report.say(`Docker is not here: ${NO_DOCKER}.\n`)
    return report.table(await roundRobin(cases, Math.min(o.rounds, 10), 1))
  }
  await using daemon = await DockerDaemon.start()
  const docker = (...args: string[]): Promise<unknown> =>
    promisify(execFile)('docker', args, { env: daemon.env })
  const inDocker = (): Promise<unknown> => docker('run', '--rm', '--network=none', ref, 'true')
  await inDocker()
  cases.push(
    {
      name: 'docker: pull and first command',
      once: async () => {
        await docker('image', 'rm', ref)
        return timed(inDocker)
      },
    },
    { name: 'docker: command, image is stored', once: () => timed(inDocker) },
  )
  report.table(await roundRobin(cases, Math.min(o.rounds, 10), 1))
}

/** Bytes that do not compress. */
function pseudoRandom(count: number, seed: number): Buffer {
  const words = new Uint32Array(count / 4)
  let state = seed + 1
  for (let at = 0; at < words.length; at++) {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    words[at] = state
  }
  return Buffer.from(words.buffer)
}
