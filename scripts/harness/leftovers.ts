// Finds what a test run leaves on the machine: mounts, cgroups, processes and loop devices of ours that were not there before it.

import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Case, failed, passed } from './result.ts'

const SETTLE_MS = 5_000
const POLL_MS = 250
const CGROUP_DEPTH = 4

export async function checkLeftovers(before: ReadonlySet<string>): Promise<Case> {
  const deadline = performance.now() + SETTLE_MS
  for (;;) {
    const left = [...(await findTraces())].filter((trace) => !before.has(trace))
    if (left.length === 0) return passed('nothing is left behind')
    // A server that was asked to stop may still be about it.
    if (performance.now() > deadline) return failed('nothing is left behind', left.join('\n'))
    await sleep(POLL_MS)
  }
}

/** Names every trace of AgentPod on this machine, one line each. */
export async function findTraces(): Promise<Set<string>> {
  const found = await Promise.all([
    findMounts(),
    findCgroups('/sys/fs/cgroup', CGROUP_DEPTH),
    findProcesses(),
    findLoops(),
  ])
  return new Set(found.flat())
}

async function findMounts(): Promise<string[]> {
  const mounts = (await readFile('/proc/mounts', 'utf8')).split('\n')
  return mounts
    .filter((line) => line.includes('agentpod'))
    .map((line) => `mount ${line.split(' ', 2).join(' on ')}`)
}

// A cgroup of ours may stay as long as it is empty: making it again costs more than keeping it.
async function findCgroups(dir: string, depth: number): Promise<string[]> {
  const found = (await directories(dir)).map(async (name): Promise<string[]> => {
    const path = `${dir}/${name}`
    if (name.startsWith('agentpod')) {
      return (await directories(path)).map((child) => `cgroup ${path}/${child}`)
    }
    return depth > 1 ? findCgroups(path, depth - 1) : []
  })
  return (await Promise.all(found)).flat()
}

async function directories(dir: string): Promise<string[]> {
  const entries = await readdir(dir, { withFileTypes: true }).catch(ifGone([]))
  return entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name)
}

async function findLoops(): Promise<string[]> {
  const names = (await readdir('/sys/block').catch(ifGone([]))).filter((name) => name.startsWith('loop'))
  const found = names.map(async (name) => {
    const file = await readFile(`/sys/block/${name}/loop/backing_file`, 'utf8').catch(ifGone(''))
    return file.includes('agentpod') ? [`loop /dev/${name} on ${file.trim()}`] : []
  })
  return (await Promise.all(found)).flat()
}

async function findProcesses(): Promise<string[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const lines = await Promise.all(
    pids.map(async (pid) => {
      const args = (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(ifGone('')))
        .split('\0')
        .filter(Boolean)
      return isOurs(args) ? [`process ${pid}: ${args.join(' ')}`] : []
    }),
  )
  return lines.flat()
}

function isOurs(args: readonly string[]): boolean {
  const program = args[0]?.split('/').at(-1) ?? ''
  if (program === 'podd' || program === 'podhost') return true
  const script = args.findIndex((arg) => /(^|\/)(agentpod|dist\/cli\.js|src\/cli\/main\.ts)$/.test(arg))
  return script >= 0 && args[script + 1] === 'serve'
}

// Processes and cgroups come and go while they are listed.
function ifGone<T>(fallback: T): (error: unknown) => T {
  return (error) => {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code === 'ENOENT' || code === 'ESRCH' || code === 'ENODEV') return fallback
    throw error
  }
}
