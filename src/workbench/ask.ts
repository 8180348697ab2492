/**
 * How the workbench reaches a person. The command line, a page and an editor each implement `Person`;
 * programs without one use `nobody`.
 */
import type { BuildStep } from '../client/builds.ts'
import type { RunInfo } from '../client/runs.ts'
import type { PermissionAbout } from '../core/run.ts'
import type { GatedFile } from '../sync/git/gate/gate.ts'

export interface Person {
  /**
   * Asks, and gives the answer. Undefined when nobody can answer: the caller then takes the choice that
   * grants nothing. Rejects when `signal` aborts.
   */
  question<K extends QuestionKind>(
    kind: K,
    about: Questions[K]['about'],
    o?: { readonly signal?: AbortSignal | undefined },
  ): Promise<Questions[K]['answer'] | undefined>
  /** Says something that needs no answer. */
  notice(notice: Notice): void
  /** Shows a piece of work until it is disposed of. */
  progress(work: Work): WorkProgress
}

/** Every question that the workbench asks, with the type of its answer. */
export interface Questions {
  /** The project's file asks for more than the user has granted. */
  readonly grant: {
    readonly about: { readonly file: string; readonly lines: readonly string[] }
    readonly answer: boolean
  }
  /** Changed files would run later on this machine. The answer lists the paths to take. */
  readonly gated: {
    readonly about: { readonly by: string; readonly files: readonly GatedFile[] }
    readonly answer: readonly string[]
  }
  /** Files that were not committed when the work began would be committed with its result. */
  readonly uncommitted: {
    readonly about: { readonly paths: readonly string[] }
    readonly answer: boolean
  }
  /** An agent asks for a permission. */
  readonly permission: {
    readonly about: { readonly run: RunInfo; readonly wants: PermissionAbout }
    readonly answer: 'once' | 'always' | 'deny'
  }
}

export type QuestionKind = keyof Questions

/**
 * `note` is about something the user may want to change later; `info` is about what happens now. The text may
 * hold names from a project or a sandbox: a front end escapes it for its medium.
 */
export interface Notice {
  readonly kind: 'info' | 'note'
  readonly text: string
}

export interface Work {
  /** The project whose environment is built: the front end keeps a log of each step under this name. */
  readonly project?: string | undefined
  /** Whether its Dockerfile is built, whose hosts the project's file allows. */
  readonly isDockerfile?: boolean | undefined
}

export interface WorkProgress extends Disposable {
  /** What happens now, in a few words. */
  status(text: string): void
  /** A step of a build begins, ends or is found in the cache. */
  step(step: BuildStep): void
  /** Output of a step of a build. */
  output(step: string, data: Buffer): void
  /** The work failed; the front end shows what the last step printed. */
  failed(error: unknown): void
}

/**
 * For programs without a person: every question stays unanswered, so nothing beyond the user's files is
 * granted.
 */
export const nobody: Person = {
  question: async () => undefined,
  notice: () => undefined,
  progress: () => ({
    status: () => undefined,
    step: () => undefined,
    output: () => undefined,
    failed: () => undefined,
    [Symbol.dispose]: () => undefined,
  }),
}
