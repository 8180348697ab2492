/**
 * Commands that the server itself runs inside: build steps, services and their checks. Their output is
 * untrusted.
 */
import { randomUUID } from 'node:crypto'
import type { Readable } from 'node:stream'
import { isAgentPodError } from '../core/error.ts'
import type { Guest } from '../core/guest.ts'
import type { ProcessExit } from '../core/guest-process.ts'
import { canceled, connectionLost, insideError } from './guest-error.ts'

export interface InsideCommand {
  /** A script for /bin/sh. */
  readonly run: string
  readonly user: string
  /** Empty means the user's home. */
  readonly workdir: string
  readonly variables: Readonly<Record<string, string>>
  /** Identifies the process later; random by default. */
  readonly tag?: string | undefined
  /** Kills it and all its children after this time. */
  readonly timeoutMs?: number | undefined
}

/**
 * Runs a command to its end. `canceled` when the signal aborts; the command itself keeps running then.
 * `deadline_exceeded` when it takes too long. A slow reader of the output slows down the command.
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
  throw connectionLost()
}

/** Waits for the work, which may never finish, until the signal aborts. */
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

/** A command that keeps running when its output is no longer read. */
export interface StartedCommand {
  /** Its output from now on, and its end. Leaving the loop does not stop the command. */
  readonly events: AsyncGenerator<InsideEvent>
}

export function startInside(guest: Guest, command: InsideCommand, signal: AbortSignal): StartedCommand {
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

/** A process that the guest knows, by its tag. */
export interface InsideProcess {
  readonly tag: string
  readonly isRunning: boolean
}

/** All processes with a tag. */
export async function processesInside(guest: Guest, signal: AbortSignal): Promise<InsideProcess[]> {
  const processes = await guest.processes.list({ signal }).catch((error: unknown) => {
    throw insideError(error, signal)
  })
  return processes.flatMap(({ tag, ended }) =>
    tag === undefined ? [] : [{ tag, isRunning: ended === undefined }],
  )
}

/** Sends a signal, `SIGTERM` for example, to the process group. Succeeds if the process is already gone. */
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

/** Unpacks a tar archive inside, as the user. An error of the archive stream itself is thrown unchanged. */
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
