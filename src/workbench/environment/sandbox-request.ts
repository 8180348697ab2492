/** What a front end asks a sandbox to be. The workbench completes it from the project's files. */
import { baseKind } from '../../bases/bases.ts'
import { image as imageBase, imageOf } from '../../bases/image.ts'
import type { CreateOptions } from '../../client/sandbox.ts'
import { BASES, type Base, DEFAULT_ENVIRONMENT } from '../../core/environment.ts'
import { invalid } from '../../core/error.ts'
import { nearest } from '../../util/nearest.ts'
import type { ComposeOptions } from '../compose/project-compose.ts'
import type { NetworkOptions } from '../network/network-options.ts'
import type { PlacementOptions } from './placement.ts'

export interface SandboxRequest {
  /** Name, labels, variables, resources and lifetime. The base is not here but below. */
  readonly options?: CreateOptions | undefined
  /** The base that is asked for, such as `debian`; without one the project decides. */
  readonly base?: string | undefined
  readonly image?: string | undefined
  readonly placement?: PlacementOptions | undefined
  readonly network?: NetworkOptions | undefined
  /** Use the base alone: detect nothing, build nothing, start no services. */
  readonly isBare?: boolean | undefined
  /** The sandbox stays after the command. Later commands in the project mean it. */
  readonly isKept?: boolean | undefined
  /** Later commands in the project mean it, as long as it exists. */
  readonly isCurrent?: boolean | undefined
  /** How the project's compose file is used. */
  readonly compose?: ComposeOptions | undefined
  /** One of several devcontainers, by name or path. */
  readonly devcontainer?: string | undefined
  /** Ignore devcontainer.json. */
  readonly isWithoutDevcontainer?: boolean | undefined
  /** Run no lifecycle commands of a devcontainer. */
  readonly isWithoutLifecycle?: boolean | undefined
  /** A person uses the sandbox, and does not wait for what a devcontainer runs in the background. */
  readonly isInteractive?: boolean | undefined
  /** One of `[profiles]` in agentpod.toml. */
  readonly profile?: string | undefined
}

/** The user that commands run as when neither the request nor an environment names one. */
export function usualUser({ options, image }: SandboxRequest): string {
  const base = image === undefined ? baseKind(DEFAULT_ENVIRONMENT.base) : imageBase
  return options?.environment?.user ?? base.system.user
}

/** The options of a sandbox without an environment of its own: the base is used as it is. */
export function bareOptions(request: SandboxRequest): CreateOptions {
  const { options = {}, image } = request
  const base = image === undefined ? { base: baseNamed(request.base) } : { base: imageBase.name, image }
  return { ...options, environment: { ...base, ...options.environment } }
}

function baseNamed(name: string | undefined): Base | undefined {
  const base = BASES.find((known) => known === name)
  if (name === undefined || base !== undefined) {
    if (base !== undefined && baseKind(base).takesImage) imageOf({ image: undefined })
    return base
  }
  const near = nearest(name, BASES)
  throw invalid(
    'option.base',
    `--base is ${BASES.slice(0, -1).join(', ')} or ${BASES.at(-1)}, not ${JSON.stringify(name)}`,
    near && `did you mean ${near}?`,
  )
}
