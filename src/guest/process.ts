/** Commands that the server itself runs inside: steps of a build, services and their checks. What they say is hostile bytes, kept bounded. */
import { randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'
import { isAgentPodError } from '../core/error.ts'
import type { Guest } from '../core/guest.ts'
import {
  ANSWER_BYTES,
  canceled,
  cut,
  exitOf,
  forward,
  type InsideExit,
  malformed,
  messages,
  parsed,
  refused,
  text,
  userHeader,
} from './exchange.ts'

export interface InsideCommand {
  /** For /bin/sh. */
  readonly run: string
  readonly user: string
  /** Empty means the user's home. */
  readonly workdir: string
  readonly variables: Readonly<Record<string, string>>
  /** What it is found by later; nobody's business when left out. */
  readonly tag?: string | undefined
  /** Ends it, and everything it started, after this long. */
  readonly timeoutMs?: number | undefined
}

/**
 * Runs a command to its end. `canceled` when the signal aborts; the command itself goes on then. `deadline_exceeded` when its time is over.
 * Whoever takes long over the output holds the command back.
 */
export async function runInside(
  guest: Guest,
  command: InsideCommand,
  o: { readonly signal: AbortSignal; onOutput?(data: Buffer): void | Promise<void> },
): Promise<InsideExit> {
  for await (const event of begin(guest, command, o.signal)) {
    if (event.kind === 'output') await orAborted(o.onOutput?.(event.data), o.signal)
    if (event.kind === 'end') return event.exit
  }
  throw cut()
}

/** Waits for something that may never come, as long as somebody waits for it. */
async function orAborted(work: void | Promise<void>, signal: AbortSignal): Promise<void> {
  if (!work) return
  const { promise, reject } = Promise.withResolvers<never>()
  const abort = (): void => reject(canceled(signal.reason))
  if (signal.aborted) abort()
  signal.addEventListener('abort', abort, { once: true })
  try {
    await Promise.race([work, promise])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

/** A command that goes on when nobody listens any more. */
export interface Started {
  /** Its output from here on, and its end. Leaving the loop lets it run on. */
  readonly events: AsyncGenerator<InsideEvent>
}

export function startInside(guest: Guest, command: InsideCommand, signal: AbortSignal): Started {
  return { events: begin(guest, command, signal) }
}

export type InsideEvent =
  | { readonly kind: 'output'; readonly data: Buffer }
  | { readonly kind: 'end'; readonly exit: InsideExit }
  | { readonly kind: 'start' }

async function* begin(
  guest: Guest,
  command: InsideCommand,
  signal: AbortSignal,
): AsyncGenerator<InsideEvent> {
  const message = {
    process: {
      cmd: '/bin/sh',
      args: ['-c', command.run],
      envs: command.variables,
      ...(command.workdir && { cwd: command.workdir }),
    },
    tag: command.tag ?? randomUUID(),
    stdin: false,
  }
  const headers = {
    authorization: userHeader(command.user),
    ...(command.timeoutMs !== undefined && { 'connect-timeout-ms': String(command.timeoutMs) }),
  }
  for await (const said of messages(guest, { path: '/process.Process/Start', message, headers }, signal)) {
    const event = eventOf(said)
    if (event) yield event
  }
}

function eventOf(event: Record<string, unknown>): InsideEvent | undefined {
  if (event['start']) return { kind: 'start' }
  const data = event['data'] as Record<string, unknown> | undefined
  const text = data?.['stdout'] ?? data?.['stderr']
  if (typeof text === 'string') return { kind: 'output', data: Buffer.from(text, 'base64') }
  const end = event['end'] as Record<string, unknown> | undefined
  return end && { kind: 'end', exit: exitOf(end) }
}

/** A process that the sandbox remembers, by what it was started with. */
export interface InsideProcess {
  readonly tag: string
  readonly isRunning: boolean
}

/** Those that have a tag. */
export async function processesInside(guest: Guest, signal: AbortSignal): Promise<InsideProcess[]> {
  const response = await forward(guest, { method: 'GET', path: '/agentpod/processes', headers: {} }, signal)
  const list = parsed(await text(response, 4 * 1024 * 1024))
  if (!Array.isArray(list)) throw malformed(new Error('no list of processes'))
  return list.flatMap((one: Record<string, unknown> | null) => {
    const tag = one?.['tag']
    return typeof tag === 'string' ? [{ tag, isRunning: one?.['endedAt'] === undefined }] : []
  })
}

/** `SIGTERM` and the like go to its process group. One that is gone is success. */
export async function signalInside(
  guest: Guest,
  tag: string,
  name: string,
  signal: AbortSignal,
): Promise<void> {
  const body = Buffer.from(JSON.stringify({ process: { tag }, signal: `SIGNAL_${name}` }))
  const response = await forward(
    guest,
    {
      method: 'POST',
      path: '/process.Process/SendSignal',
      headers: { 'content-type': 'application/json', 'content-length': String(body.length) },
      body: Readable.from([body], { objectMode: false }),
    },
    signal,
  )
  await text(response, ANSWER_BYTES)
  if (response.status !== 200 && response.status !== 404) throw cut()
}

/** Unpacks a tar archive inside, as the user. What is wrong with the archive itself is told as it is. */
export async function unpackInside(
  guest: Guest,
  o: { readonly archive: Readable; readonly to: string; readonly user: string; readonly signal: AbortSignal },
): Promise<void> {
  const { archive, to, user, signal } = o
  try {
    const response = await forward(
      guest,
      {
        method: 'POST',
        path: `/agentpod/tar?${new URLSearchParams({ path: to, username: user })}`,
        headers: { 'content-type': 'application/x-tar' },
        body: archive,
      },
      signal,
    )
    if (response.status !== 200 && response.status !== 204) throw await refused(response)
    await text(response, ANSWER_BYTES)
  } catch (error) {
    if (isAgentPodError(archive.errored)) throw archive.errored
    throw isAgentPodError(error) ? error : signal.aborted ? canceled(error) : cut(error)
  } finally {
    archive.destroy()
  }
}
