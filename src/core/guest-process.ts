/** Processes inside a sandbox. A process continues when no client follows it. */
import type { GuestCall } from './call.ts'

export interface GuestProcesses {
  /**
   * Starts a program and follows it from its first byte. Leaving the loop after `start` leaves it running.
   * `not_found`: no such program. `already_exists`: the tag is taken. `deadline_exceeded`: `timeoutMs` is
   * over, and the program was killed.
   */
  start(command: GuestCommand, o: GuestCall): AsyncIterable<ProcessEvent>
  /**
   * Follows a process, also an ended one: `start`, its output from a position on, `end`. `invalid_argument`
   * for a position that the output has not reached.
   */
  attach(process: ProcessRef, from: OutputPlace, o: GuestCall): AsyncIterable<ProcessEvent>
  /** Running and remembered processes, oldest first; with a tag, only the process with that tag. */
  list(o: GuestCall & { readonly tag?: string | undefined }): Promise<readonly ProcessInfo[]>
  /**
   * Writes the next bytes of input. Waits while the process does not read. `failed_precondition` if it takes
   * no input.
   */
  write(process: ProcessRef, to: 'stdin' | 'pty', data: Buffer, o: GuestCall): Promise<void>
  /**
   * Writes input that starts at byte `offset` of all input to stdin, and returns how many bytes were written
   * in all. Bytes that were written before are skipped. `failed_precondition` if bytes before `offset` are
   * missing.
   */
  writeAt(tag: string, offset: number, data: Buffer, o: GuestCall): Promise<number>
  closeStdin(process: ProcessRef, o: GuestCall): Promise<void>
  /** Sends a signal by name (`SIGTERM`) to the process and its children. `not_found` if it has ended. */
  signal(process: ProcessRef, name: string, o: GuestCall): Promise<void>
  resize(process: ProcessRef, size: TerminalSize, o: GuestCall): Promise<void>
}

export interface GuestCommand {
  /** The program. It is not run by a shell. */
  readonly command: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  /** The default directory if left out. */
  readonly cwd?: string | undefined
  /** The default user if left out. */
  readonly user?: string | undefined
  /** A name to find it by later, for as long as the guest remembers it. */
  readonly tag?: string | undefined
  /** Gives it a terminal: output and input are then `pty`. */
  readonly pty?: TerminalSize | undefined
  /** Whether it takes input; for processes without a terminal. */
  readonly stdin: boolean
  /** Ends it and its children after this long, followed or not. */
  readonly timeoutMs?: number | undefined
}

export interface TerminalSize {
  readonly cols: number
  readonly rows: number
}

export type ProcessRef = { readonly pid: number } | { readonly tag: string }

/**
 * `offset` counts the bytes of all output events in the order they were sent. `stdout` counts the bytes of
 * stdout only; stderr output between them and the next byte comes first. `now` starts with the next output.
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
  /** Undefined while it runs. */
  readonly ended?: { readonly at: string; readonly exit: ProcessExit } | undefined
  readonly outputBytes: number
  /** Bytes written to stdin or the terminal, read or not. */
  readonly stdinBytes: number
}
