/** How an environment's files come to be: a base, and steps that each leave a layer on what is below. Whatever describes an environment becomes one of these. */
import type { Base } from './environment.ts'
import type { NetworkRule } from './network.ts'

/** Releases of Debian that we know, newest first. */
export const SUITES = ['trixie', 'bookworm', 'bullseye'] as const
export type Suite = (typeof SUITES)[number]

/** What the debian base has besides the system: nothing, or what people expect on a machine to develop on. */
export const KITS = ['plain', 'development'] as const
export type Kit = (typeof KITS)[number]

export interface RecipeBase {
  readonly name: Base
  /** Debian's release; the one of the machine when left out. */
  readonly suite?: string | undefined
  /** Of `host`: the machine's tools that the steps rely on, by name, with version and place. With another tool the layers are other ones. */
  readonly tools?: Readonly<Record<string, string>> | undefined
  /** Of `image`: its reference. */
  readonly image?: string | undefined
  /** Of `image`: the digest that the reference stands for, `sha256:...`, where the caller holds to one. */
  readonly digest?: string | undefined
}

/** A base as somebody asks for it. */
export interface BaseWish extends Pick<RecipeBase, 'name' | 'suite' | 'image' | 'digest'> {
  readonly kit?: Kit | undefined
}

/** Files that a step is given, as a tar archive that the caller uploads. */
export interface StepFiles {
  /** sha256 of the archive, whose entries are in a fixed order with fixed times. */
  readonly digest: string
  /** The directory they are unpacked in, as the step's user. */
  readonly to: string
  /** What is in it: paths and digests of contents, to say later which of them changed. */
  readonly entries: Readonly<Record<string, string>>
}

/** One layer: files are unpacked, then the command runs. Everything here but the title is part of what the layer is known by. */
export interface Step {
  /** Unique in its recipe: `system`, `node`, `dependencies`. */
  readonly name: string
  /** For people: `node 22.21.1 from npm`. */
  readonly title: string
  /** For /bin/sh. Empty where files are all there is to it. */
  readonly run: string
  readonly user: string
  readonly workdir: string
  /** Directories put before the PATH. */
  readonly path: readonly string[]
  readonly variables: Readonly<Record<string, string>>
  readonly files?: StepFiles | undefined
  /** What the command may reach, and nothing else. */
  readonly network: readonly NetworkRule[]
  readonly timeoutMs: number
}

export interface Recipe {
  readonly base: RecipeBase
  readonly steps: readonly Step[]
}

export const MOST_STEPS = 100
export const LONGEST_STEP_MS = 2 * 3_600_000
export const DEFAULT_STEP_MS = 30 * 60_000
