/** Processes inside a sandbox, as a guest offers them. A process goes on when nobody follows it. */
import type { GuestCall } from './call.ts'

export interface GuestProcesses {
  /**
   * Starts a program and follows it from its first byte. Leaving the loop after `start` leaves it running. `not_found`: no
   * such program. `already_exists`: the tag is taken. `deadline_exceeded`: `timeoutMs` is over, and the program is killed.
   */
  start(command: GuestCommand, o: GuestCall): AsyncIterable<ProcessEvent>
  /**
   * Follows a process, ended ones included: `start`, its output from a place on, `end`. `invalid_argument` for a place
   * that the output has not come to.
   */
  attach(process: ProcessRef, from: OutputPlace, o: GuestCall): AsyncIterable<ProcessEvent>
  /** Live and remembered processes, oldest first; with a tag, the one that has it. */
  list(o: GuestCall & { readonly tag?: string | undefined }): Promise<readonly ProcessInfo[]>
  /** Gives the next bytes of input. Waits while the process does not read. `failed_precondition` where it takes none. */
  write(process: ProcessRef, to: 'stdin' | 'pty', data: Buffer, o: GuestCall): Promise<void>
  /**
   * Gives stdin what begins at byte `offset` of all its input, and answers how many bytes it was given by now. Bytes that
   * it was given before are left out. `failed_precondition` where something before `offset` is missing.
   */
  writeAt(tag: string, offset: number, data: Buffer, o: GuestCall): Promise<number>
  closeStdin(process: ProcessRef, o: GuestCall): Promise<void>
  /** Sends a signal, by its name (`SIGTERM`), to the process and what it started. `not_found` when it has ended. */
  signal(process: ProcessRef, name: string, o: GuestCall): Promise<void>
  resize(process: ProcessRef, size: TerminalSize, o: GuestCall): Promise<void>
}

export interface GuestCommand {
  /** The program; no shell is in between. */
  readonly command: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  /** The default directory when left out. */
  readonly cwd?: string | undefined
  /** The default user when left out. */
  readonly user?: string | undefined
  /** What it is found by later, for as long as the guest remembers it. */
  readonly tag?: string | undefined
  /** Gives it a terminal: its output is `pty` then, and so is its input. */
  readonly pty?: TerminalSize | undefined
  /** Whether it can be given input; without a terminal. */
  readonly stdin: boolean
  /** Ends it, and everything it started, after this long, whether or not anybody follows it. */
  readonly timeoutMs?: number | undefined
}

export interface TerminalSize {
  readonly cols: number
  readonly rows: number
}

export type ProcessRef = { readonly pid: number } | { readonly tag: string }

/**
 * `offset` counts the bytes of all output events in the order they were sent. `stdout` counts the bytes of stdout alone;
 * what stderr got between them and the next one comes first. `now` begins with what comes next.
 */
export type OutputPlace = { readonly offset: number } | { readonly stdout: number } | 'now'

export type ProcessEvent =
  | { readonly kind: 'start'; readonly pid: number }
  | { readonly kind: 'stdout' | 'stderr' | 'pty'; readonly data: Buffer }
  /** Output from offset `from` to `to` was not kept. `stdout` bytes of stdout came before `to`. */
  | { readonly kind: 'gap'; readonly from: number; readonly to: number; readonly stdout: number }
  | { readonly kind: 'end'; readonly exit: ProcessExit }

export interface ProcessExit {
  readonly exitCode: number
  /** The name of the signal that ended it. */
  readonly signal: string | undefined
  readonly oomKilled: boolean
}

export interface ProcessInfo {
  readonly pid: number
  readonly tag?: string | undefined
  readonly command: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd?: string | undefined
  /** RFC 3339. */
  readonly startedAt: string
  /** While it runs there is none. */
  readonly ended?: { readonly at: string; readonly exit: ProcessExit } | undefined
  readonly outputBytes: number
  /** What was written to stdin or the terminal, whether the process has read it or not. */
  readonly stdinBytes: number
}
