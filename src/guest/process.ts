/** Commands that the server itself runs inside: steps of a build, services and their checks. What they say is hostile bytes, kept bounded. */
import { randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'
import { AgentPodError, isAgentPodError } from '../core/error.ts'
import type { Guest, GuestRequest, GuestResponse } from '../core/guest.ts'
import { encodeFrame, FrameError, FrameReader } from '../util/connect-frame.ts'

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

export interface InsideExit {
  readonly exitCode: number
  readonly signal: string | undefined
  readonly oomKilled: boolean
}

const STREAM = 'application/connect+json'
const ANSWER_BYTES = 64 * 1024

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
  const body = encodeFrame(message)
  const response = await forward(
    guest,
    {
      method: 'POST',
      path: '/process.Process/Start',
      headers: {
        'content-type': STREAM,
        'content-length': String(body.length),
        authorization: userHeader(command.user),
        ...(command.timeoutMs !== undefined && { 'connect-timeout-ms': String(command.timeoutMs) }),
      },
      body: Readable.from([body], { objectMode: false }),
    },
    signal,
  )
  if (response.status !== 200) throw await refused(response)
  yield* events(response, signal)
}

/** A call that nobody waits for any more is not a sandbox that does not answer. */
async function forward(guest: Guest, request: GuestRequest, signal: AbortSignal): Promise<GuestResponse> {
  try {
    return await guest.forward(request, { signal })
  } catch (error) {
    throw signal.aborted ? canceled(error) : error
  }
}

async function* events(response: GuestResponse, signal: AbortSignal): AsyncGenerator<InsideEvent> {
  const reader = new FrameReader()
  try {
    for await (const chunk of response.body as AsyncIterable<Buffer>) {
      for (const { last, message } of reader.push(chunk)) {
        const fields = message as Record<string, unknown>
        if (last) {
          if (fields['error']) throw failed(fields['error'])
          return
        }
        const event = eventOf((fields['event'] ?? fields) as Record<string, unknown>)
        if (event) yield event
      }
    }
  } catch (error) {
    if (isAgentPodError(error)) throw error
    if (signal.aborted) throw canceled(error)
    if (error instanceof FrameError) throw malformed(error)
    throw cut(error)
  } finally {
    response.body.destroy()
  }
}

function eventOf(event: Record<string, unknown>): InsideEvent | undefined {
  if (event['start']) return { kind: 'start' }
  const data = event['data'] as Record<string, unknown> | undefined
  const text = data?.['stdout'] ?? data?.['stderr']
  if (typeof text === 'string') return { kind: 'output', data: Buffer.from(text, 'base64') }
  const end = event['end'] as Record<string, unknown> | undefined
  if (!end) return undefined
  const signal = end['signal']
  return {
    kind: 'end',
    exit: {
      exitCode: Number(end['exitCode'] ?? 0),
      signal: typeof signal === 'string' ? signal : undefined,
      oomKilled: end['oomKilled'] === true,
    },
  }
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

function parsed(said: string): unknown {
  try {
    return JSON.parse(said)
  } catch (error) {
    throw malformed(error)
  }
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

function userHeader(user: string): string {
  return `Basic ${Buffer.from(`${user}:`).toString('base64')}`
}

async function text({ body }: GuestResponse, most: number): Promise<string> {
  const parts: Buffer[] = []
  let size = 0
  for await (const chunk of body as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > most) throw malformed(new Error('the answer is too long'))
    parts.push(chunk)
  }
  return Buffer.concat(parts).toString('utf8')
}

async function refused(response: GuestResponse): Promise<AgentPodError> {
  const said = await text(response, ANSWER_BYTES).catch(() => '')
  try {
    const body = JSON.parse(said) as Record<string, unknown>
    return failed(body['error'] ?? body)
  } catch {
    return failed({ message: `status ${response.status}` })
  }
}

/** SECURITY: these are a sandbox's words: bounded, and nothing that a terminal obeys. */
function failed(error: unknown): AgentPodError {
  const { code, message } = error as { code?: unknown; message?: unknown }
  const words = String(message)
    .slice(0, 300)
    .replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, '?')
  if (code === 'deadline_exceeded')
    return new AgentPodError({ code, reason: 'inside.late', message: 'its time was over before it ended' })
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'inside.failed',
    message: `the sandbox could not do it: ${words}`,
  })
}

function malformed(cause: unknown): AgentPodError {
  return new AgentPodError({
    code: 'data_loss',
    reason: 'guest.protocol',
    message: 'the sandbox answered in a way that is not known',
    cause,
  })
}

function canceled(cause: unknown): AgentPodError {
  return new AgentPodError({ code: 'canceled', reason: 'canceled', message: 'it was canceled', cause })
}

function cut(cause?: unknown): AgentPodError {
  return new AgentPodError({
    code: 'unavailable',
    reason: 'stream.cut',
    message: 'the connection into the sandbox was cut',
    cause,
  })
}
