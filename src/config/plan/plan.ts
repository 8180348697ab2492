/** The plan of an environment: every choice with its reason. */

import type { ResolvedBase } from '../../bases/base-kind.ts'
import type { AgentPodError } from '../../core/error.ts'
import type { ServiceSettings } from '../compose/service-settings.ts'
import type { Finding, Language, Verb } from '../detect/finding.ts'
import type { ExtraPackage } from '../detect/formats/format-file.ts'
import type { Choice, Evidence, Rank, Rejected } from '../evidence.ts'
import type { ClientPreset, EnvironmentPreset } from '../presets/catalog.ts'
import type { ResourcesWish } from '../project/data.ts'
import type { AddonPlan } from './addons/addon-plan.ts'
import type { DevcontainerEnvironment } from './devcontainer/devcontainer-environment.ts'
import type { ToolchainSource } from './languages/find-toolchain.ts'
import type { ServicePlan } from './services/service-plan.ts'

export interface LanguagePlan {
  readonly language: Language
  /** The request, with its evidence. */
  readonly wish: Choice
  /** The request before agentpod.lock is applied. */
  readonly asked: string
  readonly source: ToolchainSource
}

export interface ToolPlan {
  readonly name: string
  readonly version: string | undefined
  readonly evidence: Evidence
  /** `base`: already part of the base. `packages`: from Debian packages, if the base can install them. */
  readonly from: 'base' | 'npm' | 'pip' | 'packages'
  /** The directory of a tool of the machine. */
  readonly directory?: string | undefined
}

export interface PackagePlan {
  readonly name: string
  readonly evidence: Evidence
  /** Whether the machine already has its content. */
  readonly isThere: boolean
  /**
   * Only CI installs it, perhaps by a name of another distribution: it is installed if available, and affects
   * no choice.
   */
  readonly isOptional: boolean
  /** Whether agentpod.toml names it. */
  readonly isAsked: boolean
  readonly beat: readonly Rejected[]
}

/** One step that installs dependencies. */
export interface SetupPlan {
  /** `dependencies`, or `dependencies/web` for a directory. */
  readonly name: string
  readonly directory: string
  /** What installs them: `npm`, `poetry`, or `your command`. */
  readonly manager: string
  readonly run: string
  readonly evidence: Evidence
  readonly inputs: readonly string[]
  readonly stubs: Readonly<Record<string, string>>
  readonly presets: readonly ClientPreset[]
  readonly variables: Readonly<Record<string, string>>
  readonly beat?: readonly Rejected[] | undefined
  /** The commands as a file has them, if `run` adds to them. */
  readonly script?: string | undefined
}

export interface CommandPlan {
  readonly directory: string
  readonly run: string
  readonly rank: Rank
  readonly evidence: Evidence
  readonly beat: readonly Rejected[]
  /** The commands as a file has them, if `run` adds to them. */
  readonly script?: string | undefined
}

export interface PortPlan {
  readonly port: number
  readonly label: string | undefined
  readonly isPublic: boolean
  readonly evidence: Evidence
  readonly beat: readonly Rejected[]
}

export interface VariablePlan {
  readonly name: string
  readonly value: string
  /** If left out, the file decides. */
  readonly rank?: Rank | undefined
  readonly evidence: Evidence
  readonly beat: readonly Rejected[]
}

/** A requested language or service that is not available. */
export interface UnavailableItem {
  /** The key in `config explain`: `languages.python`. */
  readonly key: string
  readonly wish: Choice
  readonly error: AgentPodError
}

export interface Plan {
  readonly name: string
  /** The directory of the project's copy in the sandbox. */
  readonly workspace: string
  readonly user: string
  readonly sudo: boolean
  /** The name of a base, or of a named base. */
  readonly base: Choice
  readonly resolvedBase: ResolvedBase
  readonly languages: readonly LanguagePlan[]
  /** Empty if the plan can be built. */
  readonly refused: readonly UnavailableItem[]
  readonly tools: readonly ToolPlan[]
  readonly packages: readonly PackagePlan[]
  readonly extra: Readonly<Record<ExtraPackage['manager'], readonly string[]>>
  /** Where the packages in `extra` that agentpod.toml does not name come from. */
  readonly extraFrom: readonly ExtraPackage[]
  readonly services: readonly ServicePlan[]
  readonly addons: readonly AddonPlan[]
  readonly findings: readonly Finding[]
  readonly setups: readonly SetupPlan[]
  readonly commands: Readonly<Record<Verb, readonly CommandPlan[]>>
  /** Commands of other files that run at every start, if agentpod.toml has none. */
  readonly starts: readonly CommandPlan[]
  readonly ports: readonly PortPlan[]
  readonly variables: readonly VariablePlan[]
  /** Variables that commands do not have, even if the image or the user's shell sets them. */
  readonly unset: readonly Pick<VariablePlan, 'name' | 'evidence'>[]
  /** Directories before the PATH. */
  readonly path: readonly string[]
  /** Presets whose hosts builds and sandboxes may reach. */
  readonly presets: readonly { readonly name: EnvironmentPreset; readonly evidence: Evidence }[]
  /** Directories that setup creates; they are not part of the project. */
  readonly generated: readonly string[]
  readonly resources: ResourcesWish
  /** Set if the environment is that of a compose file's service. */
  readonly service?: ServiceSettings | undefined
  /** Set if the environment is made from a devcontainer. */
  readonly devcontainer?: DevcontainerEnvironment | undefined
  readonly notes: readonly string[]
}
