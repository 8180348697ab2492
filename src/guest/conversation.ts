/**
 * A program inside that the server talks with, line by line, and goes on talking with after it was killed itself: input is known by its offset, and so is
 * output. Both are bytes of a sandbox.
 */
import { AgentPodError, isAgentPodError } from '../core/error.ts'
import type { Guest } from '../core/guest.ts'
import type { ProcessExit, ProcessInfo } from '../core/guest-process.ts'
import { sleep, systemClock } from '../util/clock.ts'
import { canceled, cut, insideError, malformed } from './guest-error.ts'

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
  const [command = '', ...args] = o.command
  const { user, workdir, variables, tag, stdin, timeoutMs } = o
  const program = { command, args, env: variables, cwd: workdir || undefined }
  try {
    const events = guest.processes.start({ ...program, user, tag, stdin, timeoutMs }, { signal })
    for await (const { kind } of events) if (kind === 'start') return
  } catch (error) {
    if (isAgentPodError(error, 'already_exists')) return
    throw insideError(error, signal)
  }
  throw cut()
}

export type ConversationEvent =
  /** `offset` is how many bytes of stdout came before these. */
  | { readonly kind: 'stdout'; readonly data: Buffer; readonly offset: number }
  | { readonly kind: 'stderr'; readonly data: Buffer; readonly offset: number }
  /** So many bytes of stdout were not kept for us; what comes next is at `offset`. */
  | { readonly kind: 'gap'; readonly bytes: number; readonly offset: number }
  | { readonly kind: 'end'; readonly exit: ProcessExit }

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
      if (isAgentPodError(error, 'not_found')) throw unknown(tag)
      const failure = insideError(error, o.signal)
      if (failure.code !== 'unavailable' || ++tries > MOST_TRIES) throw failure
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
  for await (const event of guest.processes.attach({ tag }, { stdout: from }, { signal })) {
    if (event.kind === 'gap') {
      if (event.stdout < offset) throw malformed(new Error('a gap that goes back'))
      const bytes = event.stdout - offset
      offset = event.stdout
      // Of stderr alone nobody counts the bytes.
      if (bytes > 0) yield { kind: 'gap', bytes, offset }
    } else if (event.kind === 'stdout' || event.kind === 'stderr') {
      const { kind, data } = event
      yield { kind, data, offset }
      if (kind === 'stdout') offset += data.length
    } else if (event.kind === 'end') yield event
  }
}

/** Guests take no message that is much larger. */
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
  try {
    return await guest.processes.writeAt(tag, offset, data, { signal })
  } catch (error) {
    throw isAgentPodError(error, 'not_found') ? unknown(tag) : insideError(error, signal)
  }
}

/** How many bytes of input it was given, whether it has read them or not. */
export async function inputAccepted(guest: Guest, tag: string, signal: AbortSignal): Promise<number> {
  const found = await find(guest, tag, signal)
  if (!found) throw unknown(tag)
  return found.stdinBytes
}

/** `unknown`: it was never started in this life of the sandbox, or ended so long ago that nobody remembers. */
export type ConversationState =
  | { readonly kind: 'running' }
  | { readonly kind: 'ended'; readonly exit: ProcessExit }
  | { readonly kind: 'unknown' }

export async function conversationState(
  guest: Guest,
  tag: string,
  signal: AbortSignal,
): Promise<ConversationState> {
  const found = await find(guest, tag, signal)
  if (!found) return { kind: 'unknown' }
  return found.ended ? { kind: 'ended', exit: found.ended.exit } : { kind: 'running' }
}

async function find(guest: Guest, tag: string, signal: AbortSignal): Promise<ProcessInfo | undefined> {
  try {
    return (await guest.processes.list({ tag, signal })).find((one) => one.tag === tag)
  } catch (error) {
    throw insideError(error, signal)
  }
}

function unknown(tag: string): AgentPodError {
  return new AgentPodError({
    code: 'not_found',
    reason: 'conversation.unknown',
    message: `nothing inside goes by ${tag}`,
  })
}
