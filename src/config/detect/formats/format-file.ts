/**
 * What one file of another platform or agent says about the environment. Readers only report; the plan
 * chooses between files by their rank.
 */
import type { Candidate, Evidence, Rank } from '../../evidence.ts'
import type { FoundBase } from '../../project/found-base.ts'
import { rankOfFile } from '../../source-rank.ts'
import type { FoundCommand, FoundPackage, FoundService, Language, Verb } from '../finding.ts'
import type { FoundVariable } from '../services/detect.ts'

export interface FoundVersion extends Candidate {
  readonly language: Language
}

export interface FoundPort {
  readonly port: number
  readonly label?: string | undefined
  readonly evidence: Evidence
}

/** A package for `[environment.packages]`: `npm:prettier` of mise. */
export interface ExtraPackage extends FoundPackage {
  readonly manager: 'npm' | 'pip' | 'cargo' | 'go' | 'nix'
}

/** A command that runs when the environment is built. */
export interface SetupCommand extends FoundCommand {
  /** Relative to the project; left out for the project itself. */
  readonly directory?: string | undefined
}

/** A program that runs beside the project's commands. */
export interface FoundProcess {
  readonly name: string
  readonly run: string
  /** It is ready when the command succeeds, else when the port accepts connections, else at once. */
  readonly ready?: string | undefined
  readonly port?: number | undefined
  readonly evidence: Evidence
}

export interface FormatFile {
  readonly file: string
  /** In the names of build steps: `gitpod`. */
  readonly label: string
  readonly rank: Rank
  readonly bases: readonly FoundBase[]
  readonly versions: readonly FoundVersion[]
  readonly packages: readonly FoundPackage[]
  readonly extra: readonly ExtraPackage[]
  /** Run when the environment is built, in this order. */
  readonly setup: readonly SetupCommand[]
  /** Run at every start of a sandbox. */
  readonly start: readonly FoundCommand[]
  readonly commands: Partial<Readonly<Record<Verb, readonly FoundCommand[]>>>
  readonly services: readonly FoundService[]
  readonly processes: readonly FoundProcess[]
  readonly ports: readonly FoundPort[]
  readonly variables: readonly FoundVariable[]
  /** Directories before the PATH; `$WORKSPACE` stands for the project. */
  readonly path: readonly string[]
  /** One sentence for each part that is not used, with its line and the reason. */
  readonly notes: readonly string[]
  /** Why nothing of the file is used, if it is malformed. */
  readonly problem?: string | undefined
}

type Growing<T> = { -readonly [K in keyof T]: T[K] extends readonly (infer Item)[] ? Item[] : T[K] }

/** A file that is being read. */
export type FormatDraft = Omit<Growing<FormatFile>, 'commands'> & {
  readonly commands: Partial<Record<Verb, FoundCommand[]>>
}

export function newFormat(file: string, label: string): FormatDraft {
  return {
    ...{ file, label, rank: rankOfFile(file), bases: [], versions: [], packages: [], extra: [] },
    ...{ setup: [], start: [], commands: {}, services: [], processes: [], ports: [], variables: [] },
    ...{ path: [], notes: [] },
  }
}

export function addCommand(format: FormatDraft, verb: Verb, command: FoundCommand | undefined): void {
  if (!command) return
  const known = format.commands[verb]
  if (known) known.push(command)
  else format.commands[verb] = [command]
}
