/** What a command is, and what it is given. */
import type { AgentPod } from '../client/client.ts'
import type { Home } from '../core/home.ts'
import type { OptionSpec, Parsed } from './args/parse.ts'
import type { Terminal } from './output/terminal.ts'

export interface CommandContext {
  readonly home: Home
  readonly env: Readonly<Record<string, string | undefined>>
  readonly cwd: string
  readonly terminal: Terminal
  /** Every command there is. */
  readonly commands: Readonly<Record<string, Entry>>
  /** A client; it starts the server when none listens, unless told not to. */
  client(o?: { readonly start?: boolean }): Promise<AgentPod>
}

export interface Command {
  readonly usage: string
  readonly examples: readonly string[]
  readonly options: Readonly<Record<string, OptionSpec>>
  /** Words that may come first and say what to do; for completions. */
  readonly verbs?: readonly string[] | undefined
  /** How many words may follow; `rest` takes everything after the first one as the command to run. */
  readonly words: { readonly min: number; readonly max: number; readonly rest?: boolean | undefined }
  /** Answers the exit code. */
  run(ctx: CommandContext, parsed: Parsed): Promise<number>
}

/** A command's one line, and the way to the rest of it. */
export interface Entry {
  readonly summary: string
  readonly load: () => Promise<{ readonly command: Command }>
}
