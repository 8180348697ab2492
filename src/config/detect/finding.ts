/**
 * The result of a detector: one ecosystem in one directory. Detectors only report; choices between findings
 * are made later.
 */
import type { Candidate, Evidence } from '../evidence.ts'
import type { FileTree } from '../file-tree.ts'
import type { ClientPreset } from '../presets/catalog.ts'

/** The languages that detection knows. */
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
  /** A language without a choice of versions; `label` names it. */
  'other',
] as const
export type Language = (typeof LANGUAGES)[number]

/** The names that messages use. */
export const LANGUAGE_NAMES: Readonly<Record<Language, string>> = {
  node: 'Node.js',
  python: 'Python',
  go: 'Go',
  rust: 'Rust',
  java: 'Java',
  kotlin: 'Kotlin',
  c: 'C',
  ruby: 'Ruby',
  php: 'PHP',
  deno: 'Deno',
  bun: 'Bun',
  dotnet: '.NET',
  elixir: 'Elixir',
  static: 'static site',
  shell: 'shell',
  other: 'other',
}

/** Actions on a project. `setup` installs its dependencies, `start` runs it as in production. */
export const VERBS = ['setup', 'dev', 'test', 'lint', 'build', 'start'] as const
export type Verb = (typeof VERBS)[number]

/** A command for /bin/sh in the finding's directory, and where it was found. */
export interface FoundCommand {
  readonly run: string
  readonly evidence: Evidence
}

/** A program that the commands need besides the language, such as a package manager. */
export interface FoundTool {
  /** `pnpm`, `yarn`, `poetry`, `uv`, `maven`, `cmake`. */
  readonly name: string
  /** Exact, a range, or undefined for any version. */
  readonly version?: string | undefined
  readonly evidence: Evidence
}

/** A Debian package that the project needs. */
export interface FoundPackage {
  readonly name: string
  readonly evidence: Evidence
}

export interface Finding {
  readonly language: Language
  /** The name of an `other` language: `Swift`. */
  readonly label?: string | undefined
  /** Relative to the project, `''` for its root. Members of a workspace belong to the finding of its root. */
  readonly directory: string
  /** The file by which it was found. */
  readonly evidence: Evidence
  /** All version candidates; the order of precedence is applied later. */
  readonly versions: readonly Candidate[]
  /**
   * The package manager: `npm`, `pnpm`, `yarn`, `yarn-berry`, `bun`, `pip`, `uv`, `poetry`, `pdm`, `pipenv`,
   * `go`, `cargo`, `maven`, `gradle`, `cmake`, `meson`, `make`, ...
   */
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
  /**
   * Every file that `setup` reads, relative to the project: manifests, lockfiles, configuration of the
   * package manager, also those of workspace members.
   */
  readonly inputs: readonly string[]
  /**
   * Files that must exist for `setup` but whose content does not matter, with substitute content: sources
   * that a manifest names.
   */
  readonly stubs?: Readonly<Record<string, string>> | undefined
  readonly commands: Partial<Readonly<Record<Verb, FoundCommand>>>
  readonly packages: readonly FoundPackage[]
  /**
   * Directories that `setup` creates, relative to the project: `node_modules`, `.venv`, `target`. They are
   * not part of the project.
   */
  readonly generated: readonly string[]
  /** Presets whose hosts `setup` needs. */
  readonly presets: readonly ClientPreset[]
  /**
   * Variables that the commands need, such as `VIRTUAL_ENV`. `$WORKSPACE` stands for the project's directory
   * in the sandbox.
   */
  readonly variables?: Readonly<Record<string, string>> | undefined
  /** Directories to put before the PATH, with `$WORKSPACE` as above. */
  readonly path?: readonly string[] | undefined
  readonly ports?: readonly { readonly port: number; readonly evidence: Evidence }[] | undefined
  /** Names of members, if it is a workspace. */
  readonly members?: readonly string[] | undefined
  /** Remarks for the user, such as files that could not be used; one sentence each. */
  readonly notes?: readonly string[] | undefined
}

/**
 * One service that a project talks to: `postgres`, `redis`, `mysql`, `mariadb`, `mongodb`, `rabbitmq`,
 * `memcached`, `elasticsearch`, ...
 */
export interface FoundService {
  readonly name: string
  /** A major version, if a file names one. */
  readonly version?: string | undefined
  readonly account?: ServiceAccount | undefined
  readonly evidence: Evidence
}

/** The login that a project uses for a service. */
export interface ServiceAccount {
  readonly user: string | undefined
  readonly password: string | undefined
  /** RabbitMQ: the virtual host. */
  readonly database: string | undefined
  readonly rootPassword: string | undefined
}

export type Detector = (tree: FileTree) => readonly Finding[]
