/** What an environment will be: everything that was found and asked for, decided, each thing with its reason. */
import type { Ground } from '../../bases/kind.ts'
import type { AgentPodError } from '../../core/error.ts'
import type { Finding, Language, Verb } from '../detect/finding.ts'
import type { Choice, Evidence, Rank } from '../evidence.ts'
import type { ClientPreset } from '../presets/catalog.ts'
import type { ResourcesWish } from '../project/data.ts'
import type { ServicePlan } from './service-plan.ts'
import type { Source } from './sources.ts'

export interface LanguagePlan {
  readonly language: Language
  /** What was asked for; its evidence says by whom. */
  readonly wish: Choice
  /** What was asked for without agentpod.lock. */
  readonly asked: string
  readonly source: Source
}

export interface ToolPlan {
  readonly name: string
  readonly version: string | undefined
  readonly evidence: Evidence
  /** `base`: it lies there already. `packages`: packages of Debian bring it, where the base installs any. */
  readonly from: 'base' | 'npm' | 'pip' | 'packages'
  /** Of a tool of the machine: where it is. */
  readonly directory?: string | undefined
}

export interface PackagePlan {
  readonly name: string
  readonly evidence: Evidence
  /** Whether the machine has what it would bring. */
  readonly isThere: boolean
  /** Only CI installs it, with names of another distribution maybe: it is put in where it is available, and decides nothing. */
  readonly isOptional: boolean
}

/** One run of dependencies' installation. */
export interface SetupPlan {
  /** `dependencies`, or `dependencies/web` for a directory. */
  readonly name: string
  readonly directory: string
  /** What installs: `npm`, `poetry`, or `your command`. */
  readonly manager: string
  readonly run: string
  readonly evidence: Evidence
  readonly inputs: readonly string[]
  readonly stubs: Readonly<Record<string, string>>
  readonly presets: readonly ClientPreset[]
  readonly variables: Readonly<Record<string, string>>
}

export interface CommandPlan {
  readonly directory: string
  readonly run: string
  readonly rank: Rank
  readonly evidence: Evidence
}

export interface PortPlan {
  readonly port: number
  readonly label: string | undefined
  readonly isPublic: boolean
  readonly evidence: Evidence
}

export interface VariablePlan {
  readonly name: string
  readonly value: string
  readonly evidence: Evidence
}

/** Something that was asked for and is not available. */
export interface Refused {
  /** As `config explain` calls it: `languages.python`. */
  readonly key: string
  readonly wish: Choice
  readonly error: AgentPodError
}

export interface Plan {
  readonly name: string
  /** Where the project's copy lies inside. */
  readonly workspace: string
  readonly user: string
  readonly sudo: boolean
  /** The name of a base, or of a recipe of ours. */
  readonly base: Choice
  readonly ground: Ground
  readonly languages: readonly LanguagePlan[]
  /** Of a plan that can be built there are none. */
  readonly refused: readonly Refused[]
  readonly tools: readonly ToolPlan[]
  readonly packages: readonly PackagePlan[]
  readonly extra: Readonly<Record<'npm' | 'pip' | 'cargo' | 'go', readonly string[]>>
  readonly services: readonly ServicePlan[]
  readonly findings: readonly Finding[]
  readonly setups: readonly SetupPlan[]
  readonly commands: Readonly<Record<Verb, readonly CommandPlan[]>>
  readonly ports: readonly PortPlan[]
  readonly variables: readonly VariablePlan[]
  /** Directories before the PATH. */
  readonly path: readonly string[]
  /** Whose hosts builds and sandboxes may reach. */
  readonly presets: readonly { readonly name: ClientPreset; readonly evidence: Evidence }[]
  /** Directories that installing makes; they are not part of the project. */
  readonly generated: readonly string[]
  readonly resources: ResourcesWish
  readonly notes: readonly string[]
}
