/**
 * A Docker engine inside a sandbox, at each level that has one: why it cannot run here, and a state directory
 * with an image for it.
 */
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { engineImage, NO_DEBIAN } from './debian-images.ts'
import { NO_GVISOR } from './gvisor.ts'
import { NO_QEMU } from './qemu.ts'
import { ToyRegistry } from './toy-registry.ts'
import { World } from './world.ts'

const PROGRAMS = ['/usr/sbin/dockerd', '/usr/sbin/iptables-legacy', '/bin/busybox']
const MISSING = PROGRAMS.filter((path) => !existsSync(path))

/** Why an engine of this machine's programs cannot run inside; false if it can. */
export const NO_ENGINE_INSIDE: string | false =
  NO_GVISOR ?? (MISSING.length > 0 && `needs ${MISSING.join(', ')}`)

export interface EngineLevel {
  readonly isolation: 'gvisor' | 'vm'
  readonly provider: string
  /** Why an engine in an image cannot run at this level here; false if it can. */
  readonly skip: string | false
}

export const ENGINE_LEVELS: readonly EngineLevel[] = [
  { isolation: 'gvisor', provider: 'gvisor', skip: NO_GVISOR ?? NO_DEBIAN },
  { isolation: 'vm', provider: 'qemu', skip: NO_QEMU ?? NO_DEBIAN },
]

/** An emulated machine on a busy host takes minutes for what takes seconds elsewhere. */
export const SLOW = { timeoutMs: 600_000 }

/**
 * A state directory that has an image with an engine. Its server has stopped, so that another one can run on
 * a test internet, where the registry is out of reach.
 */
export async function homeWithEngine({
  provider,
}: EngineLevel): Promise<{ readonly home: string; readonly image: string }> {
  await using registry = await ToyRegistry.start()
  const world = new World()
  const image = registry.put('team/engine', '1', engineImage())
  writeFileSync(join(world.home, 'config.toml'), `[registries."${registry.host}"]\ninsecure = true\n`)
  try {
    await world.ok(['image', 'pull', image, '--provider', provider], SLOW)
    await world.ok(['server', 'stop'])
    return { home: world.home, image }
  } catch (error) {
    await world[Symbol.asyncDispose]()
    throw error
  }
}

/** The options of a sandbox with an engine. The machine is large enough for PostgreSQL. */
export function engineOptions({ isolation }: EngineLevel, image: string): string[] {
  return ['--docker', '--isolation', isolation, '--image', image, '--memory', '2g', '--cpus', '2']
}
