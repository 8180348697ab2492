/** A command, and what it is given. */
import type { AgentPod } from '../client/client.ts'
import type { Workbench } from '../workbench/workbench.ts'
import type { OptionSpec, Parsed, WordCount } from './args/parse.ts'
import type { Terminal } from './output/terminal.ts'

export interface CommandContext extends Workbench {
  readonly terminal: Terminal
  /** All commands. */
  readonly commands: Readonly<Record<string, CommandEntry>>
  /** A client. It starts the server when none is running, unless `start` is false. */
  client(o?: { readonly start?: boolean }): Promise<AgentPod>
}

export interface Command {
  readonly usage: string
  readonly examples: readonly string[]
  readonly options: Readonly<Record<string, OptionSpec>>
  /** Lines for the help that are loaded only when it is shown. */
  readonly details?: (() => Promise<readonly string[]>) | undefined
  /** Subcommands, for completions. */
  readonly verbs?: readonly string[] | undefined
  readonly words: WordCount
  /** Gives the exit code. */
  run(ctx: CommandContext, parsed: Parsed): Promise<number>
}

/** A command's summary, and how to load the rest of it. */
export interface CommandEntry {
  readonly summary: string
  readonly load: () => Promise<{ readonly command: Command }>
}
