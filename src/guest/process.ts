/** Commands that the server itself runs inside: steps of a build, services and their checks. What they say is hostile bytes, kept bounded. */
import { randomUUID } from 'node:crypto'
import type { Readable } from 'node:stream'
import { isAgentPodError } from '../core/error.ts'
import type { Guest } from '../core/guest.ts'
import type { ProcessExit } from '../core/guest-process.ts'
import { canceled, cut, insideError } from './guest-error.ts'

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
): Promise<ProcessExit> {
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
  | { readonly kind: 'end'; readonly exit: ProcessExit }
  | { readonly kind: 'start' }

async function* begin(
  guest: Guest,
  command: InsideCommand,
  signal: AbortSignal,
): AsyncGenerator<InsideEvent> {
  const { run, user, workdir, variables, tag = randomUUID(), timeoutMs } = command
  const program = { command: '/bin/sh', args: ['-c', run], env: variables, cwd: workdir || undefined }
  try {
    const events = guest.processes.start({ ...program, user, tag, stdin: false, timeoutMs }, { signal })
    for await (const event of events) {
      if (event.kind === 'stdout' || event.kind === 'stderr') yield { kind: 'output', data: event.data }
      else if (event.kind === 'end') yield { kind: 'end', exit: event.exit }
      else if (event.kind === 'start') yield { kind: 'start' }
    }
  } catch (error) {
    throw insideError(error, signal)
  }
}

/** A process that the sandbox remembers, by what it was started with. */
export interface InsideProcess {
  readonly tag: string
  readonly isRunning: boolean
}

/** Those that have a tag. */
export async function processesInside(guest: Guest, signal: AbortSignal): Promise<InsideProcess[]> {
  const processes = await guest.processes.list({ signal }).catch((error: unknown) => {
    throw insideError(error, signal)
  })
  return processes.flatMap(({ tag, ended }) =>
    tag === undefined ? [] : [{ tag, isRunning: ended === undefined }],
  )
}

/** `SIGTERM` and the like go to its process group. One that is gone is success. */
export async function signalInside(
  guest: Guest,
  tag: string,
  name: string,
  signal: AbortSignal,
): Promise<void> {
  try {
    await guest.processes.signal({ tag }, name, { signal })
  } catch (error) {
    if (!isAgentPodError(error, 'not_found')) throw insideError(error, signal)
  }
}

/** Unpacks a tar archive inside, as the user. What is wrong with the archive itself is told as it is. */
export async function unpackInside(
  guest: Guest,
  o: { readonly archive: Readable; readonly to: string; readonly user: string; readonly signal: AbortSignal },
): Promise<void> {
  const { archive, to, user, signal } = o
  try {
    await guest.archive.unpack(to, archive, { user, signal })
  } catch (error) {
    throw isAgentPodError(archive.errored) ? archive.errored : insideError(error, signal)
  } finally {
    archive.destroy()
  }
}
