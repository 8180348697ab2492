/** The processor time that the processes of a world have used, by name. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { World } from '../support/world.ts'

/** The kernel counts in hundredths of a second. */
const TICK_MS = 10

export type ProcessorTimes = ReadonlyMap<string, number>

/** User and system time of this process, of the server and of its children, in milliseconds. */
export function processorTimes(world: World): ProcessorTimes {
  const times = new Map<string, number>()
  for (const [pid, name] of processesOf(world)) {
    const { ownMs, childrenMs } = processorTimeOf(pid)
    times.set(name, (times.get(name) ?? 0) + ownMs)
    if (name === 'podhost') times.set('children of podhost', childrenMs)
  }
  return times
}

/** User and system time of a process, and of its children that have ended. */
export function processorTimeOf(pid: number): { readonly ownMs: number; readonly childrenMs: number } {
  const fields = read(pid, 'stat').split(') ').at(-1)?.split(' ') ?? []
  const [user = 0, system = 0, childUser = 0, childSystem = 0] = fields.slice(11, 15).map(Number)
  return { ownMs: (user + system) * TICK_MS, childrenMs: (childUser + childSystem) * TICK_MS }
}

/** What each process used between the two, for one of so many lives. */
export function processorTimeOfOne(
  before: ProcessorTimes,
  after: ProcessorTimes,
  lives: number,
): Map<string, number> {
  return new Map([...after].map(([name, ms]) => [name, (ms - (before.get(name) ?? 0)) / lives]))
}

/** This process as `client`, and those of the world that belong to no single sandbox. */
export function processesOf(world: World): Map<number, string> {
  const server = world.serverPid
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  const found = pids.map((pid): [number, string | undefined] => [
    Number(pid),
    nameOf(Number(pid), world, server),
  ])
  return new Map(found.filter((one): one is [number, string] => one[1] !== undefined))
}

function nameOf(pid: number, world: World, server: number): string | undefined {
  if (pid === process.pid) return 'client'
  if (pid === server) return 'server'
  const words = read(pid, 'cmdline').split('\0')
  if (words.includes('serve-inside') && words.includes(world.home)) return 'podhost'
  const isEgress = words.some((word) => word.endsWith('egress.js'))
  return isEgress && words.some((word) => word.startsWith(world.home)) ? 'egress' : undefined
}

function read(pid: number, file: string): string {
  try {
    return readFileSync(join('/proc', String(pid), file), 'utf8')
  } catch {
    return ''
  }
}
