// Finds what a test run leaves on the machine: mounts, cgroups, processes, sockets and loop devices of its
// own state directories. It ignores other AgentPods on this machine, such as the developer's own.

import { createHash, randomBytes } from 'node:crypto'
import { chmodSync, mkdirSync } from 'node:fs'
import { readdir, readFile, readlink, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Case, failed, passed } from './result.ts'

const SETTLE_MS = 5_000
const POLL_MS = 250
const CGROUP_DEPTH = 4

/** The TMPDIR of the tests of a run. All their state directories are below it. */
export function nameRunDirectory(): string {
  return join(tmpdir(), `agentpod-test-${randomBytes(4).toString('hex')}`)
}

export function makeRunDirectory(path: string): void {
  mkdirSync(path)
  // Writable by everybody, as /tmp: some tests act as another user.
  chmodSync(path, 0o1777)
}

/** Removes the run's directory when nothing of the run is left, and says what is left otherwise. */
export async function checkLeftovers(runDirectory: string, earlier: ReadonlySet<string>): Promise<Case> {
  const deadline = performance.now() + SETTLE_MS
  for (;;) {
    const left = await findTraces(runDirectory, earlier)
    if (left.length === 0) {
      await rm(runDirectory, { recursive: true, force: true })
      return passed('nothing is left behind')
    }
    // A server that was asked to stop may still be stopping.
    if (performance.now() > deadline) return failed('nothing is left behind', left.join('\n'))
    await sleep(POLL_MS)
  }
}

/** The cgroups that exist before a run: a killed AgentPod of another run may have left some. */
export async function findGroups(): Promise<ReadonlySet<string>> {
  return new Set((await findCgroups('/sys/fs/cgroup', CGROUP_DEPTH)).map(({ path }) => path))
}

/** Lists every trace of the AgentPods whose state directories are below this directory, one line each. */
export async function findTraces(runDirectory: string, earlier: ReadonlySet<string>): Promise<string[]> {
  const isInside = (text: string): boolean => text.includes(`${runDirectory}/`)
  // Lists the cgroups first. podhost starts before its cgroup exists, so the podhost of each listed cgroup is
  // in the list of processes.
  const groups = await findCgroups('/sys/fs/cgroup', CGROUP_DEPTH)
  const processes = await findProcesses(isInside)
  const others = new Set(processes.filter((one) => !one.isOfRun).flatMap(({ scopes }) => scopes))
  const found = await Promise.all([findMounts(isInside), findSockets(isInside), findLoops(isInside)])
  return [
    ...processes.filter((one) => one.isOfRun).map(({ pid, words }) => `process ${pid}: ${words}`),
    ...groups
      .filter(({ path, scope }) => !others.has(scope) && !earlier.has(path))
      .map(({ path }) => `cgroup ${path}`),
    ...found.flat(),
  ]
}

type Belongs = (text: string) => boolean

async function findMounts(isInside: Belongs): Promise<string[]> {
  const mounts = (await readFile('/proc/mounts', 'utf8')).split('\n')
  return mounts.filter(isInside).map((line) => `mount ${line.split(' ', 2).join(' on ')}`)
}

// The sockets of a process that belongs to another user, and so cannot be inspected, are still listed here.
async function findSockets(isInside: Belongs): Promise<string[]> {
  const lines = (await readFile('/proc/net/unix', 'utf8')).split('\n')
  return [...new Set(lines.filter(isInside).map((line) => `socket ${line.slice(line.indexOf('/'))}`))]
}

/**
 * The name of a cgroup does not show the state directory, so a cgroup counts unless an AgentPod outside the
 * run has it. An empty cgroup of ours may stay: keeping it is cheaper than creating it again.
 */
async function findCgroups(dir: string, depth: number): Promise<{ path: string; scope: string }[]> {
  const found = (await directories(dir)).map(async (name) => {
    const path = `${dir}/${name}`
    if (!name.startsWith('agentpod')) return depth > 1 ? findCgroups(path, depth - 1) : []
    return (await directories(path)).map((scope) => ({ path: `${path}/${scope}`, scope }))
  })
  return (await Promise.all(found)).flat()
}

async function directories(dir: string): Promise<string[]> {
  const entries = await readdir(dir, { withFileTypes: true }).catch(ifGone([]))
  return entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name)
}

async function findLoops(isInside: Belongs): Promise<string[]> {
  const names = (await readdir('/sys/block').catch(ifGone([]))).filter((name) => name.startsWith('loop'))
  const found = names.map(async (name) => {
    const file = await readFile(`/sys/block/${name}/loop/backing_file`, 'utf8').catch(ifGone(''))
    return isInside(file) ? [`loop /dev/${name} on ${file.trim()}`] : []
  })
  return (await Promise.all(found)).flat()
}

type Found = {
  readonly pid: string
  readonly words: string
  readonly isOfRun: boolean
  /** The names of its cgroups below `agentpod`. */
  readonly scopes: readonly string[]
}

async function findProcesses(isInside: Belongs): Promise<Found[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const found = await Promise.all(
    pids.map(async (pid): Promise<Found[]> => {
      const read = (name: string): Promise<string> =>
        readFile(`/proc/${pid}/${name}`, 'utf8').catch(ifGone(''))
      const args = (await read('cmdline')).split('\0').filter(Boolean)
      if (!isOurs(args)) return []
      // The state directory is in the environment of the server, in the arguments of podhost, and in the log
      // path of podd.
      const log = await readlink(`/proc/${pid}/fd/1`).catch(ifGone(''))
      const words = args.join(' ')
      const told = [words, log, await read('environ')]
      const scopes = [...scopesIn(await read('cgroup')), ...scopeOfHome(args)]
      return [{ pid, words, isOfRun: told.some(isInside), scopes }]
    }),
  )
  return found.flat()
}

function scopesIn(cgroups: string): string[] {
  return [...cgroups.matchAll(/\/agentpod\/([0-9a-f]+)/g)].map(([, scope = '']) => scope)
}

// podhost names the cgroups of a state directory in the same way.
function scopeOfHome(args: readonly string[]): string[] {
  const home = args[args.indexOf('--home') + 1]
  if (!args.includes('--home') || home === undefined) return []
  return [createHash('sha256').update(home).digest('hex').slice(0, 8)]
}

function isOurs(args: readonly string[]): boolean {
  const program = args[0]?.split('/').at(-1) ?? ''
  if (program === 'podd' || program === 'podhost') return true
  const script = args.findIndex((arg) => /(^|\/)(agentpod|dist\/cli\.js|src\/cli\/main\.ts)$/.test(arg))
  return script >= 0 && args[script + 1] === 'serve'
}

// Processes and cgroups appear and disappear while they are listed, and other users' processes cannot be
// inspected.
function ifGone<T>(fallback: T): (error: unknown) => T {
  return (error) => {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code === 'ENOENT' || code === 'ESRCH' || code === 'ENODEV' || code === 'EACCES' || code === 'EPERM')
      return fallback
    throw error
  }
}
