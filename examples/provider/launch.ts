/** Starts podd in its own namespaces, and opens byte streams to it. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { open, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Duplex, type Readable, type Writable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { AgentPodError, type CreatePlan } from 'agentpod/provider'
import { type Entry, isAlive, type Process, parseStat, type Records } from './records.ts'

/** The name in inside.sh. Abstract sockets belong to the network namespace. */
const SOCKET = '@agentpod'
/** Users of a sandbox are mapped to ids of this machine that own nothing. */
const USER_MAP = '0 700000 65536\n'
const TOOLS = ['unshare', 'nsenter', 'setpriv', 'mount', 'pivot_root', 'hostname', 'ip']
/** Sandboxes must not inherit the server's variables. */
const ENV = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' }

export function missingTools(): string[] {
  const directories = ENV.PATH.split(':')
  return TOOLS.filter((tool) => !directories.some((directory) => existsSync(join(directory, tool))))
}

/** Resolves when podd listens. The shell waits until the record is written, so nothing runs unrecorded. */
export async function launch(
  records: Records,
  podd: string,
  plan: CreatePlan,
  token: string,
  signal: AbortSignal,
): Promise<void> {
  const { sandboxId, owner } = plan
  const child = await supervise(records, podd, plan)
  const ended = once(child, 'exit')
  const [stdin, , , , told] = child.stdio
  try {
    const first = once(told as Readable, 'data', { signal }) as Promise<Buffer[]>
    const [line] = await Promise.race([first, ended.then(() => [])])
    if (!line) throw notStarted(await readFile(records.logFile(sandboxId), 'utf8'))
    const { pid, startTime } = parseStat(line.toString('latin1'))
    await records.write({ sandboxId, owner, pid, startTime, token })
    for (const map of ['uid_map', 'gid_map']) await writeFile(`/proc/${pid}/${map}`, USER_MAP)
    stdin?.write(`\n${token}\n`)
    await untilListening({ pid, startTime }, records.logFile(sandboxId), signal)
  } catch (error) {
    // A shell that still waits for its lines exits. One that has read them has a record, and is destroyed.
    stdin?.destroy()
    if (!(await records.read(sandboxId))) await ended
    throw error
  } finally {
    stdin?.destroy()
    told?.destroy()
    child.unref()
  }
}

/** The supervisor outlives this process: it records how podd ended. */
async function supervise(records: Records, podd: string, plan: CreatePlan): Promise<ChildProcess> {
  const { sandboxId, hostname, resources } = plan
  await using log = await open(records.logFile(sandboxId), 'w', 0o600)
  await using program = await open(podd)
  const words = [records.exitFile(sandboxId), hostname, resources.diskMib, resources.files].map(String)
  const child = spawn('sh', [join(import.meta.dirname, 'supervise.sh'), ...words], {
    cwd: '/',
    detached: true,
    env: ENV,
    stdio: ['pipe', 'ignore', log.fd, program.fd, 'pipe'],
  })
  child.stdin?.on('error', () => undefined)
  await once(child, 'spawn')
  return child
}

async function untilListening(podd: Process, logFile: string, signal: AbortSignal): Promise<void> {
  const sockets = (): Promise<string> => readFile(`/proc/${podd.pid}/net/unix`, 'latin1').catch(() => '')
  while (!(await sockets()).includes(SOCKET)) {
    if (!isAlive(podd)) throw notStarted(await readFile(logFile, 'utf8'))
    await sleep(5, undefined, { signal })
  }
}

/** One stream: `podd connect`, run in the sandbox's network by its root, copies to and from podd. */
export async function dial({ pid, startTime, token }: Entry, podd: string): Promise<Duplex> {
  if (!isAlive({ pid, startTime })) throw new Error('the sandbox has ended')
  await using program = await open(podd)
  const enter = ['--target', String(pid), '--user', '--net']
  const child = spawn('nsenter', [...enter, '--', '/proc/self/fd/3', 'connect', SOCKET], {
    cwd: '/',
    env: ENV,
    stdio: ['pipe', 'pipe', 'ignore', program.fd],
  })
  await once(child, 'spawn')
  const stream = Duplex.from({ readable: child.stdout as Readable, writable: child.stdin as Writable })
  stream.once('close', () => child.kill())
  stream.write(`agentpod ${token}\n`)
  return stream
}

function notStarted(log: string): AgentPodError {
  return new AgentPodError({
    code: 'unavailable',
    reason: 'namespaces.start',
    message: `the sandbox did not start: ${log.trim().split('\n').at(-1) || 'it gave no reason'}`,
    hint: '`agentpod provider check namespaces` shows what is missing',
  })
}
