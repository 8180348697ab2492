/** All kinds of bases, by name. */
import type { Base, Environment } from '../core/environment.ts'
import type { Provider } from '../core/provider.ts'
import type { Optional } from '../util/optional.ts'
import type { BaseKind, ReadyBase } from './base-kind.ts'
import { debian } from './debian.ts'
import { host } from './host.ts'
import { image } from './image.ts'

const KINDS: Readonly<Record<Base, BaseKind>> = { host, debian, image }

export function baseKind(base: Base): BaseKind {
  return KINDS[base]
}

export function allBaseKinds(): readonly BaseKind[] {
  return Object.values(KINDS)
}

/** A name, with or without a group, or numbers. */
const USER = /^(?:([a-z_][a-z0-9_-]{0,31})(?::.*)?|([0-9]{1,10}(?::[0-9]{1,10})?)(?::.*)?)$/

/**
 * Fills in the user, the working directory and the variables that a request leaves out: those of the image,
 * else the defaults of the base. A group beside the name of a user is left out: the user's groups apply.
 */
export function withBaseDefaults(
  environment: Environment,
  asked: Optional<Pick<Environment, 'user' | 'workdir'>>,
  ready: Pick<ReadyBase, 'user' | 'workdir' | 'variables'>,
): Environment {
  const [, name, numbers] = USER.exec(ready.user ?? '') ?? []
  const user = name ?? numbers ?? baseKind(environment.base).system.user
  return {
    ...environment,
    ...(ready.variables && { inherited: ready.variables }),
    user: asked.user ?? user,
    workdir: asked.workdir ?? ready.workdir ?? environment.workdir,
  }
}

/**
 * The base of a sandbox when none is named: the image if one is given, else this machine's tools if the
 * provider supports them, else Debian.
 */
export function defaultBase(asked: Pick<Environment, 'image'>, provider: Provider): Base {
  if (asked.image !== undefined) return image.name
  return provider.host ? host.name : debian.name
}
