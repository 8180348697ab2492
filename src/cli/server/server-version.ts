/**
 * Whether the server in the background is another one than this command came with: it goes on as it was when
 * AgentPod is updated.
 */
import { readFileSync } from 'node:fs'
import type { Home } from '../../core/home.ts'

export interface Program {
  readonly version: string
  /** Undefined where it is run from its sources. */
  readonly build: string | undefined
}

interface RunningServer extends Program {
  readonly pid: number
}

export interface OtherServer {
  /** What is different, for people. */
  readonly note: string
  /** Whether `server stop` and the next command put one of this version in its place, and nothing is lost. */
  readonly canRestart: boolean
  /** Names the pair, so that a no is remembered. */
  readonly key: string
}

/** Undefined where there is nothing to tell. Reads a file, since a request would cost every command. */
export function otherServer(home: Home, mine: Program): OtherServer | undefined {
  const server = runningServer(home)
  if (!server) return undefined
  const key = `${server.pid} ${server.version} ${server.build} ${mine.version} ${mine.build}`
  if (server.version !== mine.version) {
    const isNewer = compareVersions(server.version, mine.version) > 0
    return {
      note: `the server in the background is version ${server.version}, this command is ${mine.version}`,
      // An older server does not read what a newer one wrote.
      canRestart: !isNewer && isInBackground(server.pid),
      key,
    }
  }
  // From its sources this command cannot say which build it is.
  if (mine.build === undefined || server.build === mine.build) return undefined
  return {
    note: `the server in the background is another build of version ${mine.version} (${server.build ?? 'unnamed'}) than this command (${mine.build})`,
    canRestart: isInBackground(server.pid),
    key,
  }
}

/** A server that a person started in the foreground is for that person to restart. */
function isInBackground(pid: number): boolean {
  try {
    const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
    return words.includes('serve') && words.includes('--background')
  } catch {
    return false
  }
}

function runningServer(home: Home): RunningServer | undefined {
  try {
    const said = JSON.parse(readFileSync(home.serverFile, 'utf8')) as Record<string, unknown>
    const pid = Number(said['pid'])
    // Throws where nobody has this number.
    process.kill(pid, 0)
    const version = nameIn(said['version'])
    return version === undefined ? undefined : { pid, version, build: nameIn(said['build']) }
  } catch {
    return undefined
  }
}

function nameIn(value: unknown): string | undefined {
  return typeof value === 'string' && /^[\w.+-]{1,40}$/.test(value) ? value : undefined
}

/** By their numbers; what follows a hyphen or a plus does not count. */
function compareVersions(a: string, b: string): number {
  const numbers = (text: string): number[] => (text.split(/[-+]/, 1)[0] ?? '').split('.').map(Number)
  const [left, right] = [numbers(a), numbers(b)]
  for (let i = 0; i < Math.max(left.length, right.length); i++) {
    const difference = (left[i] ?? 0) - (right[i] ?? 0)
    if (difference !== 0) return difference
  }
  return 0
}
