/**
 * How the files of an environment are made: a base, and steps that each add a layer. Every description of an
 * environment becomes a recipe.
 */
import type { Base } from './environment.ts'
import type { NetworkRule } from './network.ts'

/** Known releases of Debian, newest first. */
export const SUITES = ['trixie', 'bookworm', 'bullseye'] as const
export type Suite = (typeof SUITES)[number]

/** What the `debian` base has besides the system: nothing, or the usual development tools. */
export const KITS = ['plain', 'development'] as const
export type Kit = (typeof KITS)[number]

export interface RecipeBase {
  readonly name: Base
  /** The Debian release; that of the machine if left out. */
  readonly suite?: string | undefined
  /**
   * For `host`: the tools of the machine that the steps use, by name, with version and path. Other tools give
   * other layers.
   */
  readonly tools?: Readonly<Record<string, string>> | undefined
  /** For `debian`: what it has besides the system; `plain` if left out. */
  readonly kit?: Kit | undefined
  /** For `image`: its reference. */
  readonly image?: string | undefined
  /** For `image`: the digest that the reference must resolve to, `sha256:...`. */
  readonly digest?: string | undefined
}

/** A base as a request names it. */
export interface BaseWish extends Pick<RecipeBase, 'name' | 'suite' | 'kit' | 'image' | 'digest'> {
  /** For `image`: pulled without the credentials of the user who runs the server. */
  readonly isAnonymous?: boolean | undefined
}

/** Input files of a step, as a tar archive that the caller uploads. */
export interface StepFiles {
  /** sha256 of the archive, whose entries have a fixed order and fixed times. */
  readonly digest: string
  /** The directory they are unpacked in, as the user of the step. */
  readonly to: string
  /** Paths and content digests, to report later which files changed. */
  readonly entries: Readonly<Record<string, string>>
}

/**
 * One layer: files are unpacked, then the command runs. Everything here except the title is part of the key
 * of the layer.
 */
export interface Step {
  /** Unique in its recipe: `system`, `node`, `dependencies`. */
  readonly name: string
  /** For people: `node 22.21.1 from npm`. */
  readonly title: string
  /** A command for /bin/sh; empty if the step only has files. */
  readonly run: string
  readonly user: string
  readonly workdir: string
  /** Directories added in front of the PATH. */
  readonly path: readonly string[]
  readonly variables: Readonly<Record<string, string>>
  readonly files?: StepFiles | undefined
  /** The only hosts that the command may reach. */
  readonly network: readonly NetworkRule[]
  /** Whether it may reach every public host as well. The caller's key must allow that. */
  readonly anyHost?: boolean | undefined
  readonly timeoutMs: number
  /** Of a Dockerfile: where something was mounted. An image has no empty directory for that. */
  readonly mountPoints?: readonly string[] | undefined
}

export interface Recipe {
  readonly base: RecipeBase
  readonly steps: readonly Step[]
}

export const MOST_STEPS = 100
export const LONGEST_STEP_MS = 2 * 3_600_000
export const DEFAULT_STEP_MS = 30 * 60_000
