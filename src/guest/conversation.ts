/**
 * A long-lived program inside that the server exchanges lines with. Input and output are addressed by byte
 * offset, so a restarted server continues where the previous one stopped. SECURITY: the output is untrusted
 * bytes from a sandbox.
 */
import { AgentPodError, isAgentPodError } from '../core/error.ts'
import type { Guest } from '../core/guest.ts'
import type { ProcessExit, ProcessInfo } from '../core/guest-process.ts'
import { sleep, systemClock } from '../util/clock.ts'
import { canceled, connectionLost, insideError, malformedAnswer } from './guest-error.ts'

export interface ConversationStart {
  /** The program and its arguments; no shell is involved. */
  readonly command: readonly string[]
  readonly user: string
  /** Empty means the user's home. */
  readonly workdir: string
  readonly variables: Readonly<Record<string, string>>
  /** Identifies the process later. */
  readonly tag: string
  /** Whether it accepts input. */
  readonly stdin: boolean
  /** Kills it and all its children after this time, whether or not anybody listens. */
  readonly timeoutMs?: number | undefined
}

/**
 * Resolves when it runs; it keeps running on its own. A second start with the same tag finds the first
 * process.
 */
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
  throw connectionLost()
}

export type ConversationEvent =
  /** `offset` is the number of bytes of stdout before these. */
  | { readonly kind: 'stdout'; readonly data: Buffer; readonly offset: number }
  | { readonly kind: 'stderr'; readonly data: Buffer; readonly offset: number }
  /** This many bytes of stdout were lost; the next ones are at `offset`. */
  | { readonly kind: 'gap'; readonly bytes: number; readonly offset: number }
  | { readonly kind: 'end'; readonly exit: ProcessExit }

const TRY_AGAIN_MS = 100
const MOST_TRIES = 50

/**
 * Yields the output from byte `offset` of stdout on, live, and then the end. Reconnects after a broken
 * connection. stdout never repeats; stderr written near the offset may. `not_found` if there is no such
 * conversation; `canceled` when the signal aborts.
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
      throw connectionLost()
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
      if (event.stdout < offset) throw malformedAnswer(new Error('a gap that goes backwards'))
      const bytes = event.stdout - offset
      offset = event.stdout
      // A gap in stderr alone does not move the offset.
      if (bytes > 0) yield { kind: 'gap', bytes, offset }
    } else if (event.kind === 'stdout' || event.kind === 'stderr') {
      const { kind, data } = event
      yield { kind, data, offset }
      if (kind === 'stdout') offset += data.length
    } else if (event.kind === 'end') yield event
  }
}

/** Guests accept no message that is much larger. */
const LARGEST_INPUT = 1024 * 1024

/** Input, and its offset in the whole input of the process. */
export interface InputAt {
  readonly offset: number
  readonly data: Buffer
}

/**
 * Sends input that starts at `offset` of the whole input, and returns how many bytes the program has been
 * given. Bytes that it already has are skipped, so sending them twice is safe. `failed_precondition` if
 * earlier input is missing. Waits while the program does not read.
 */
export async function sendInput(
  guest: Guest,
  tag: string,
  { offset, data }: InputAt,
  signal: AbortSignal,
): Promise<number> {
  let accepted = offset
  for (let from = 0; from < data.length || from === 0; from += LARGEST_INPUT) {
    const part = { offset: offset + from, data: data.subarray(from, from + LARGEST_INPUT) }
    accepted = await sendPart(guest, tag, part, signal)
  }
  return accepted
}

async function sendPart(
  guest: Guest,
  tag: string,
  { offset, data }: InputAt,
  signal: AbortSignal,
): Promise<number> {
  try {
    return await guest.processes.writeAt(tag, offset, data, { signal })
  } catch (error) {
    throw isAgentPodError(error, 'not_found') ? unknown(tag) : insideError(error, signal)
  }
}

/** How many bytes of input it has been given, read or not. */
export async function inputAccepted(guest: Guest, tag: string, signal: AbortSignal): Promise<number> {
  const found = await find(guest, tag, signal)
  if (!found) throw unknown(tag)
  return found.stdinBytes
}

/**
 * `unknown`: not started since the sandbox last started, or ended so long ago that the guest has forgotten
 * it.
 */
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
    message: `no process inside has the tag ${tag}`,
  })
}
