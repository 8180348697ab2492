/** A compose project as AgentPod understands it: typed, merged, with the place that each part comes from. */
import type { Evidence } from '../evidence.ts'

export interface ComposeBuild {
  /** Relative to the project; empty for the project itself. */
  readonly context: string
  /** Relative to the context. */
  readonly dockerfile: string | undefined
  readonly args: Readonly<Record<string, string>>
  readonly target: string | undefined
}

export interface ComposePort {
  /** The port inside. */
  readonly target: number
  /** The port on this machine; any free one if undefined. */
  readonly published: number | undefined
  readonly file: string
  readonly line: number | undefined
}

export type ComposeMount =
  | { readonly kind: 'volume'; readonly name: string; readonly target: string; readonly isReadOnly: boolean }
  /** A file or directory of the project, relative to it; empty for the project itself. */
  | { readonly kind: 'bind'; readonly source: string; readonly target: string; readonly isReadOnly: boolean }
  /** A directory that is never kept. */
  | { readonly kind: 'tmpfs'; readonly target: string; readonly sizeMib?: number | undefined }
  /** An empty directory of the sandbox: an anonymous volume. */
  | { readonly kind: 'empty'; readonly target: string }

export const CONDITIONS = ['service_started', 'service_healthy', 'service_completed_successfully'] as const
export type Condition = (typeof CONDITIONS)[number]

export interface ComposeDependency {
  readonly service: string
  readonly condition: Condition
  readonly isRequired: boolean
  readonly file: string
  readonly line: number | undefined
}

export interface ComposeHealthcheck {
  /** A command for /bin/sh, or the words of a program; undefined if the check is off. */
  readonly test: string | readonly string[] | undefined
  readonly timeoutMs: number
  /** How long the service may take until the check succeeds. */
  readonly readyMs: number
}

/** A file that a config or secret puts into a service. */
export interface ComposeFileMount {
  readonly target: string
  /** A file of the project, or the text itself. */
  readonly file: string | undefined
  readonly content: string | undefined
}

export interface ComposeService {
  readonly name: string
  readonly file: string
  readonly line: number | undefined
  readonly image: string | undefined
  readonly build: ComposeBuild | undefined
  /** Undefined: the image's own. */
  readonly command: readonly string[] | undefined
  readonly entrypoint: readonly string[] | undefined
  /** Names may have dots and hyphens, as Docker allows. */
  readonly environment: Readonly<Record<string, string>>
  readonly ports: readonly ComposePort[]
  readonly expose: readonly number[]
  readonly mounts: readonly ComposeMount[]
  readonly files: readonly ComposeFileMount[]
  readonly dependsOn: readonly ComposeDependency[]
  readonly healthcheck: ComposeHealthcheck | undefined
  readonly workingDir: string | undefined
  readonly user: string | undefined
  readonly profiles: readonly string[]
  /** Further host names: network aliases, the hostname and the container's name. */
  readonly aliases: readonly string[]
  readonly cpus: number | undefined
  readonly memoryMib: number | undefined
  readonly pids: number | undefined
  readonly stopSignal: string | undefined
  readonly stopMs: number | undefined
}

export interface InactiveService {
  readonly name: string
  readonly file: string
  readonly line: number | undefined
  readonly profiles: readonly string[]
}

export interface ComposeProject {
  /** The files that were named, in their order. Files that these include or extend are not among them. */
  readonly files: readonly string[]
  /** As the file names it; undefined if it does not. */
  readonly name: string | undefined
  /** The services of the active profiles, each after those that it depends on. */
  readonly services: readonly ComposeService[]
  /** Services that only other profiles have. */
  readonly inactive: readonly InactiveService[]
  /** What is not used, with the reason. */
  readonly notes: readonly Evidence[]
}
