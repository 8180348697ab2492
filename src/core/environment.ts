/** What must be inside a sandbox, on every provider. The bases themselves are in src/bases/. */
export const BASES = ['host', 'debian', 'image'] as const
export type Base = (typeof BASES)[number]

/** Stands for the default base of the provider. */
export const DEFAULT_BASE = 'default'

/** A long-running program of the environment. It is ready before any command runs. */
export interface Service {
  readonly name: string
  /** A command for /bin/sh. It stays in the foreground and logs to its output. */
  readonly run: string
  readonly user: string
  /** Empty means the user's home. */
  readonly workdir: string
  readonly variables: Readonly<Record<string, string>>
  readonly ready: Readiness
  /**
   * Whether it needs files of the project. Those arrive after the sandbox is created, so it starts on
   * request.
   */
  readonly needsProject: boolean
  /** The signal that stops it; it then has `stopMs` to end. */
  readonly stopSignal: StopSignal
  readonly stopMs: number
}

/**
 * When a service is ready: when the command succeeds, else when the port accepts connections, else at once.
 */
export interface Readiness {
  readonly command?: string | undefined
  readonly port?: number | undefined
  readonly timeoutMs: number
  /** How long one run of the command may take; ten seconds if left out. */
  readonly commandMs?: number | undefined
}

export const STOP_SIGNALS = ['SIGTERM', 'SIGINT', 'SIGQUIT'] as const
export type StopSignal = (typeof STOP_SIGNALS)[number]

export interface Environment {
  readonly base: Base
  /** For the base `image`: its reference, such as `debian:12`. */
  readonly image?: string | undefined
  /** A built environment, by the digest that the build returned. The base is then that of the recipe. */
  readonly digest?: string | undefined
  /**
   * Layers of other recipes, by the digests that their builds returned. They lie above everything else, in
   * this order, and each has its own paths. A sandbox from a snapshot also has the extras of the snapshot.
   */
  readonly extras?: readonly string[] | undefined
  readonly variables: Readonly<Record<string, string>>
  /** Variables that the base sets, such as those of an image. All others take precedence. */
  readonly inherited?: Readonly<Record<string, string>> | undefined
  /** Names of variables that the base sets and commands do not have. */
  readonly unset?: readonly string[] | undefined
  /** Directories added in front of the PATH of the root file system. */
  readonly path?: readonly string[] | undefined
  /** The default user of commands. */
  readonly user: string
  /** The default directory of commands; empty means the home of the user. */
  readonly workdir: string
  /** Whether programs inside may become root inside. */
  readonly sudo: boolean
  /** Started in this order, stopped in reverse. */
  readonly services?: readonly Service[] | undefined
  /**
   * A command for /bin/sh that runs at every start, after the services are ready. It may use files of the
   * project.
   */
  readonly start?: string | undefined
}

export const MOST_EXTRAS = 16

export const DEFAULT_ENVIRONMENT: Environment = {
  base: 'host',
  variables: {},
  user: 'user',
  workdir: '',
  sudo: false,
}

/** A user's home directory inside. */
export function homeOf(user: string): string {
  return user === 'root' ? '/root' : `/home/${user}`
}
