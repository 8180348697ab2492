/** A sandbox as the host's kernel shows it, for tests that must not trust answers from inside. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { Podhost } from '../../src/providers/local/podhost.ts'
import type { DockerDaemon } from './docker-daemon.ts'
import { ROOT, until, type World } from './world.ts'

const ASK = { timeoutMs: 20_000 }

/** podhost, spoken to directly. The world must have been used before, so that its podhost is the server's. */
export function podhostOf(world: World): Podhost {
  const bin = join(ROOT, 'dist', 'bin')
  return new Podhost({ home: world.home, podhost: join(bin, 'podhost'), podd: join(bin, 'podd') })
}

/** The host's pid of a sandbox's podd. */
export async function poddPid(podhost: Podhost, id: string): Promise<number> {
  const { pid } = await podhost.call('sandbox.inspect', { id }, ASK)
  assert.equal(typeof pid, 'number')
  return pid as number
}

/**
 * The host's pid of what a sandbox runs as on the chosen provider: podd, the supervisor of gVisor or of a
 * machine, or podd in a container of Docker.
 */
export async function outsidePid(world: World, id: string): Promise<number> {
  if (world.docker)
    return Number(world.docker.docker('inspect', '-f', '{{.State.Pid}}', containerOf(world.docker, id)))
  const podhost = podhostOf(world)
  try {
    return await poddPid(podhost, id)
  } finally {
    await podhost.close()
  }
}

/** What the chosen provider holds, without asking the server. */
export async function heldOutside(world: World): Promise<{ sandboxes: string[]; snapshots: string[] }> {
  if (world.docker) {
    const listed = (kind: 'ps' | 'images', label: string, ...words: string[]): string[] =>
      (world.docker?.docker(kind, '--filter', `label=${label}`, ...words) ?? '').split('\n').filter(Boolean)
    return {
      sandboxes: listed('ps', 'agentpod.sandbox', '-a', '--format', '{{.Label "agentpod.sandbox"}}'),
      snapshots: listed('images', 'agentpod.snapshot', '-q'),
    }
  }
  const podhost = podhostOf(world)
  try {
    const held = async (kind: 'sandbox' | 'snapshot'): Promise<string[]> => {
      const answer = await podhost.call(`${kind}.list`, {}, ASK)
      return (answer[kind === 'sandbox' ? 'sandboxes' : 'snapshots'] as { id: string }[]).map(({ id }) => id)
    }
    return { sandboxes: await held('sandbox'), snapshots: await held('snapshot') }
  } finally {
    await podhost.close()
  }
}

function containerOf(daemon: DockerDaemon, id: string): string {
  return daemon.docker('ps', '-aq', '--filter', `label=agentpod.sandbox=${id}`)
}

/** Waits until podhost has so many shells ready, and returns the host's pids of their podds. */
export async function readyShells(world: World, count: number, timeoutMs?: number): Promise<number[]> {
  const podhost = podhostOf(world)
  let shells: number[] = []
  await until(
    `${count} shells are ready`,
    async () => {
      shells = ((await podhost.call('hello', {}, ASK)) as { shells: number[] }).shells
      return shells.length === count
    },
    timeoutMs,
  )
  await podhost.close()
  return shells
}

/** The podds that this podhost has started and that serve: one that still prepares itself has no filter. */
export function servingPodds(podhost: number): number[] {
  return allPids().filter((pid) => {
    const status = quietly(() => readFileSync(`/proc/${pid}/status`, 'utf8')) ?? ''
    return [/^Name:\tpodd$/m, new RegExp(`^PPid:\\t${podhost}$`, 'm'), /^Seccomp:\t2$/m].every((line) =>
      line.test(status),
    )
  })
}

/** The first user id of a sandbox on the host, and whether no other process uses any of its 65,536 ids. */
export async function idsOf(podhost: Podhost, id: string): Promise<{ base: number; own: boolean }> {
  const { ids } = (await podhost.call('sandbox.inspect', { id }, ASK)) as {
    ids: { base: number; own: boolean }
  }
  return ids
}

/**
 * The files of a sandbox as the host sees them: in the pool, which only podhost's namespace has, or in the
 * state directory.
 */
export async function upperOf(podhost: Podhost, world: World, id: string): Promise<string> {
  const { pid, pool } = (await podhost.call('hello', {}, ASK)) as { pid: number; pool: { kind: string } }
  if (pool.kind === 'copy') return join(world.home, 'sandboxes', id, 'upper')
  const mounts = readFileSync(`/proc/${pid}/mountinfo`, 'utf8').split('\n')
  const point = mounts.find((line) => / - btrfs /.test(line))?.split(' ')[4] ?? join(world.home, 'pool')
  return join(`/proc/${pid}/root`, point, 'sandboxes', id, 'upper')
}

/** The host's pids of all processes in the pid namespace of this one. */
export function pidsBeside(podd: number): number[] {
  const namespace = readlinkSync(`/proc/${podd}/ns/pid`)
  return allPids().filter((pid) => quietly(() => readlinkSync(`/proc/${pid}/ns/pid`)) === namespace)
}

/** The host's pid of a process that has this pid inside. */
export function hostPid(podd: number, inside: number): number {
  const found = pidsBeside(podd).find((pid) => namespacePid(pid) === inside)
  assert.ok(found, `process ${inside} inside has a pid outside`)
  return found
}

function namespacePid(pid: number): number | undefined {
  const status = quietly(() => readFileSync(`/proc/${pid}/status`, 'utf8')) ?? ''
  return Number(/^NSpid:\s*(.*)$/m.exec(status)?.[1]?.trim().split(/\s+/).at(-1))
}

export function allPids(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
}

/** The directory of a process's group in one cgroup v1 hierarchy, or the v2 one. */
export function cgroupDirectory(pid: number, controller: string): string {
  const lines = readFileSync(`/proc/${pid}/cgroup`, 'utf8').trim().split('\n')
  for (const line of lines) {
    const [, controllers = '', path = ''] = /^\d+:([^:]*):(.*)$/.exec(line) ?? []
    if (controllers.split(',').includes(controller)) return join('/sys/fs/cgroup', controller, path)
  }
  const unified = lines.find((line) => line.startsWith('0::'))?.slice(3) ?? '/'
  return join('/sys/fs/cgroup', unified)
}

/** Undefined if the file disappeared meanwhile. */
export function quietly<T>(look: () => T): T | undefined {
  try {
    return look()
  } catch {
    return undefined
  }
}
