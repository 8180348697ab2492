/** What must be inside a sandbox, whatever provider gives it. What each of them is: src/bases/. */
export const BASES = ['host', 'debian', 'image'] as const
export type Base = (typeof BASES)[number]

/** The base that a provider begins with where nobody names one. */
export const DEFAULT_BASE = 'default'

/** A long-running program of the environment. It is started before anybody's command, and is ready by then. */
export interface Service {
  readonly name: string
  /** For /bin/sh. It stays in the foreground and writes its log to its output. */
  readonly run: string
  readonly user: string
  /** Empty means the user's home. */
  readonly workdir: string
  readonly variables: Readonly<Record<string, string>>
  readonly ready: Readiness
  /** Whether it needs files of the project, which come after the sandbox is made: it then waits to be asked for. */
  readonly needsProject: boolean
  /** What asks it to end; it has `stopMs` for it. */
  readonly stopSignal: StopSignal
  readonly stopMs: number
}

/** When a service counts as ready: a command that succeeds, else a port that takes connections, else at once. */
export interface Readiness {
  readonly command?: string | undefined
  readonly port?: number | undefined
  readonly timeoutMs: number
}

export const STOP_SIGNALS = ['SIGTERM', 'SIGINT', 'SIGQUIT'] as const
export type StopSignal = (typeof STOP_SIGNALS)[number]

export interface Environment {
  readonly base: Base
  /** Of the base `image`: its reference, such as `debian:12`. */
  readonly image?: string | undefined
  /** The layers of a recipe that was built, by the digest that the build answered with. Its base is then the recipe's. */
  readonly digest?: string | undefined
  /**
   * The last layers of other recipes, by the digests that their builds answered with. They lie over everything else, in this order, and each
   * keeps to paths of its own. A sandbox that begins with a snapshot has those of the snapshot's too.
   */
  readonly extras?: readonly string[] | undefined
  readonly variables: Readonly<Record<string, string>>
  /** Directories put before the PATH of the root file system. */
  readonly path?: readonly string[] | undefined
  /** Who commands run as when nobody says. */
  readonly user: string
  /** Where commands run when nobody says; empty means the user's home. */
  readonly workdir: string
  /** Whether programs inside may become root inside. */
  readonly sudo: boolean
  /** Started in this order, ended in the reverse. */
  readonly services?: readonly Service[] | undefined
  /** For /bin/sh: run after the services are ready, at every start. It needs the project's files too. */
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
