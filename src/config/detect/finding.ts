/** What a detector finds: one ecosystem in one directory. Detectors read and say; nothing is decided between them here. */
import type { Candidate, Evidence } from '../evidence.ts'
import type { ClientPreset } from '../presets/catalog.ts'
import type { FileTree } from '../tree.ts'

/** Languages with a toolchain of their own. */
export const LANGUAGES = [
  'node',
  'python',
  'go',
  'rust',
  'java',
  'kotlin',
  'c',
  'ruby',
  'php',
  'deno',
  'bun',
  'dotnet',
  'elixir',
  'static',
  'shell',
  /** One that has no versions to choose from: `label` says which. */
  'other',
] as const
export type Language = (typeof LANGUAGES)[number]

/** What people do with a project. `setup` installs its dependencies, `start` runs it as in production. */
export const VERBS = ['setup', 'dev', 'test', 'lint', 'build', 'start'] as const
export type Verb = (typeof VERBS)[number]

/** A command for /bin/sh in the finding's directory, and where it was found. */
export interface FoundCommand {
  readonly run: string
  readonly evidence: Evidence
}

/** A program that the commands need beside the language: a package manager, mostly. */
export interface FoundTool {
  /** `pnpm`, `yarn`, `poetry`, `uv`, `maven`, `cmake`. */
  readonly name: string
  /** Exact, a range, or undefined for whatever there is. */
  readonly version?: string | undefined
  readonly evidence: Evidence
}

/** A package of Debian's that must be there. */
export interface FoundPackage {
  readonly name: string
  readonly evidence: Evidence
}

export interface Finding {
  readonly language: Language
  /** What `other` is: `Swift`. */
  readonly label?: string | undefined
  /** Relative to the project, `''` for its root. Members of a workspace are not findings of their own: their root is. */
  readonly directory: string
  /** What made us see it, first the file that decided. */
  readonly evidence: Evidence
  /** Everything that says which version; the order of precedence is applied later, over all of them. */
  readonly versions: readonly Candidate[]
  /** The package manager: `npm`, `pnpm`, `yarn`, `yarn-berry`, `bun`, `pip`, `uv`, `poetry`, `pdm`, `pipenv`, `go`, `cargo`, `maven`, `gradle`, `cmake`, `meson`, `make`, ... */
  readonly manager?:
    | {
        readonly name: string
        readonly evidence: Evidence
        readonly beat: readonly { readonly name: string; readonly evidence: Evidence; readonly why: string }[]
      }
    | undefined
  readonly tools: readonly FoundTool[]
  /** Relative to the project. */
  readonly lockfile?: string | undefined
  /** Every file that `setup` reads: manifests, lockfiles, configuration of the package manager; those of workspace members too. Relative to the project. */
  readonly inputs: readonly string[]
  /** Files that must exist for `setup` and whose content does not matter, with the content to put in their place: sources that a manifest names. */
  readonly stubs?: Readonly<Record<string, string>> | undefined
  readonly commands: Partial<Readonly<Record<Verb, FoundCommand>>>
  readonly packages: readonly FoundPackage[]
  /** Directories that `setup` makes, relative to the project: `node_modules`, `.venv`, `target`. They are not part of the project. */
  readonly generated: readonly string[]
  /** Whose hosts `setup` needs. */
  readonly presets: readonly ClientPreset[]
  /** Variables that the commands need: `VIRTUAL_ENV`. `$WORKSPACE` stands for the project's directory inside. */
  readonly variables?: Readonly<Record<string, string>> | undefined
  /** Directories put before the PATH, `$WORKSPACE` as above. */
  readonly path?: readonly string[] | undefined
  readonly ports?: readonly { readonly port: number; readonly evidence: Evidence }[] | undefined
  /** Names of members, where it is a workspace. */
  readonly members?: readonly string[] | undefined
  /** What was seen and could not be made use of, in a sentence each. */
  readonly notes?: readonly string[] | undefined
}

/** One service that a project talks to: `postgres`, `redis`, `mysql`, `mariadb`, `mongodb`, `rabbitmq`, `memcached`, `elasticsearch`, ... */
export interface FoundService {
  readonly name: string
  /** A major version, where somebody says one. */
  readonly version?: string | undefined
  readonly account?: ServiceAccount | undefined
  readonly evidence: Evidence
}

/** What a project expects to log in to a service with. */
export interface ServiceAccount {
  readonly user: string | undefined
  readonly password: string | undefined
  /** RabbitMQ: the virtual host. */
  readonly database: string | undefined
  readonly rootPassword: string | undefined
}

export type Detector = (tree: FileTree) => readonly Finding[]
