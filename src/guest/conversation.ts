/**
 * A program inside that the server talks with, line by line, and goes on talking with after it was killed itself: input is known by its offset, and so is
 * output. Both are bytes of a sandbox.
 */
import { Readable } from 'node:stream'
import { AgentPodError, isAgentPodError } from '../core/error.ts'
import type { Guest } from '../core/guest.ts'
import { sleep, systemClock } from '../util/clock.ts'
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
  saidCode,
  text,
  userHeader,
} from './exchange.ts'

export interface ConversationStart {
  /** The program and its arguments; no shell is in between. */
  readonly command: readonly string[]
  readonly user: string
  /** Empty means the user's home. */
  readonly workdir: string
  readonly variables: Readonly<Record<string, string>>
  /** What it is found by later. */
  readonly tag: string
  /** Whether it can be sent anything. */
  readonly stdin: boolean
  /** Ends it, and everything it started, after this long, whoever listens. */
  readonly timeoutMs?: number | undefined
}

/** Answers when it runs, which it goes on doing by itself. A second start with the same tag finds the first one's. */
export async function startConversation(
  guest: Guest,
  o: ConversationStart,
  signal: AbortSignal,
): Promise<void> {
  const [cmd, ...args] = o.command
  const message = {
    process: { cmd, args, envs: o.variables, ...(o.workdir && { cwd: o.workdir }) },
    tag: o.tag,
    stdin: o.stdin,
  }
  const headers = {
    authorization: userHeader(o.user),
    ...(o.timeoutMs !== undefined && { 'connect-timeout-ms': String(o.timeoutMs) }),
  }
  try {
    const said = messages(guest, { path: '/process.Process/Start', message, headers }, signal)
    for await (const event of said) if (event['start']) return
  } catch (error) {
    if (saidCode(error) === 'already_exists') return
    throw error
  }
  throw cut()
}

export type ConversationEvent =
  /** `offset` is how many bytes of stdout came before these. */
  | { readonly kind: 'stdout'; readonly data: Buffer; readonly offset: number }
  | { readonly kind: 'stderr'; readonly data: Buffer; readonly offset: number }
  /** So many bytes of stdout were not kept for us; what comes next is at `offset`. */
  | { readonly kind: 'gap'; readonly bytes: number; readonly offset: number }
  | { readonly kind: 'end'; readonly exit: InsideExit }

const TRY_AGAIN_MS = 100
const MOST_TRIES = 50

/**
 * Its output from where `offset` bytes of stdout have come, then as it comes, then its end. What it wrote to stderr around that place may come twice, stdout
 * never does. A connection that breaks is made again where it was. `not_found` where there is no such conversation; `canceled` when the signal aborts.
 */
export async function* followConversation(
  guest: Guest,
  tag: string,
  o: { readonly offset: number; readonly signal: AbortSignal },
): AsyncGenerator<ConversationEvent> {
  let [offset, tries] = [o.offset, 0]
  for (;;) {
    try {
      for await (const event of attach(guest, tag, offset, o.signal)) {
        tries = 0
        if (event.kind === 'gap') offset = event.offset
        if (event.kind === 'stdout') offset += event.data.length
        yield event
        if (event.kind === 'end') return
      }
      throw cut()
    } catch (error) {
      if (saidCode(error) === 'not_found') throw unknown(tag)
      if (!isAgentPodError(error, 'unavailable') || ++tries > MOST_TRIES) throw error
      await sleep(systemClock, TRY_AGAIN_MS, o.signal).catch((reason: unknown) => {
        throw canceled(reason)
      })
    }
  }
}

async function* attach(
  guest: Guest,
  tag: string,
  from: number,
  signal: AbortSignal,
): AsyncGenerator<ConversationEvent> {
  let offset = from
  const message = { process: { tag }, stdout: String(offset) }
  for await (const said of messages(guest, { path: '/agentpod/attach', message }, signal)) {
    const event = eventOf(said, offset)
    if (event?.kind === 'gap') {
      offset = event.offset
      // Of stderr alone nobody counts the bytes.
      if (event.bytes === 0) continue
    }
    if (event?.kind === 'stdout') offset += event.data.length
    if (event) yield event
  }
}

function eventOf(event: Record<string, unknown>, offset: number): ConversationEvent | undefined {
  const data = event['data'] as Record<string, unknown> | undefined
  for (const kind of ['stdout', 'stderr'] as const) {
    const encoded = data?.[kind]
    if (typeof encoded === 'string') return { kind, data: Buffer.from(encoded, 'base64'), offset }
  }
  const gap = event['gap'] as Record<string, unknown> | undefined
  if (gap) {
    const to = countOf(gap['stdout'])
    if (to < offset) throw malformed(new Error('a gap that goes back'))
    return { kind: 'gap', bytes: to - offset, offset: to }
  }
  const end = event['end'] as Record<string, unknown> | undefined
  return end && { kind: 'end', exit: exitOf(end) }
}

/** podd takes no larger message. */
const LARGEST_INPUT = 1024 * 1024

/**
 * Sends what begins at `offset` of all its input, and answers how many bytes it was given by now. What it was given before is left out, so it does no harm
 * to say it twice; `failed_precondition` where something before it is missing. Waits while the program does not read.
 */
export async function sendInput(
  guest: Guest,
  tag: string,
  offset: number,
  data: Buffer,
  signal: AbortSignal,
): Promise<number> {
  let accepted = offset
  for (let from = 0; from < data.length || from === 0; from += LARGEST_INPUT)
    accepted = await sendPart(guest, tag, offset + from, data.subarray(from, from + LARGEST_INPUT), signal)
  return accepted
}

async function sendPart(
  guest: Guest,
  tag: string,
  offset: number,
  data: Buffer,
  signal: AbortSignal,
): Promise<number> {
  const response = await forward(
    guest,
    {
      method: 'POST',
      path: `/agentpod/input?${new URLSearchParams({ tag, offset: String(offset) })}`,
      headers: { 'content-type': 'application/octet-stream', 'content-length': String(data.length) },
      body: Readable.from([data], { objectMode: false }),
    },
    signal,
  )
  if (response.status === 404) throw unknown(tag)
  if (response.status !== 200) throw await refused(response)
  const answer = parsed(await text(response, ANSWER_BYTES)) as Record<string, unknown> | null
  return countOf(answer?.['stdinBytes'])
}

/** How many bytes of input it was given, whether it has read them or not. */
export async function inputAccepted(guest: Guest, tag: string, signal: AbortSignal): Promise<number> {
  const found = await find(guest, tag, signal)
  if (!found) throw unknown(tag)
  return countOf(found['stdinBytes'])
}

/** `unknown`: it was never started in this life of the sandbox, or ended so long ago that nobody remembers. */
export type ConversationState =
  | { readonly kind: 'running' }
  | { readonly kind: 'ended'; readonly exit: InsideExit }
  | { readonly kind: 'unknown' }

export async function conversationState(
  guest: Guest,
  tag: string,
  signal: AbortSignal,
): Promise<ConversationState> {
  const found = await find(guest, tag, signal)
  if (!found) return { kind: 'unknown' }
  return found['endedAt'] === undefined ? { kind: 'running' } : { kind: 'ended', exit: exitOf(found) }
}

async function find(
  guest: Guest,
  tag: string,
  signal: AbortSignal,
): Promise<Record<string, unknown> | undefined> {
  const path = `/agentpod/processes?${new URLSearchParams({ tag })}`
  const response = await forward(guest, { method: 'GET', path, headers: {} }, signal)
  const list = parsed(await text(response, 4 * 1024 * 1024))
  if (!Array.isArray(list)) throw malformed(new Error('no list of processes'))
  return list.find((one: Record<string, unknown> | null) => one?.['tag'] === tag)
}

/** Numbers of bytes come as text, as all long ones do. */
function countOf(value: unknown): number {
  const count = typeof value === 'string' && /^\d{1,16}$/.test(value) ? Number(value) : value
  if (typeof count === 'number' && Number.isSafeInteger(count) && count >= 0) return count
  throw malformed(new Error('a number of bytes is missing'))
}

function unknown(tag: string): AgentPodError {
  return new AgentPodError({
    code: 'not_found',
    reason: 'conversation.unknown',
    message: `nothing inside goes by ${tag}`,
  })
}
