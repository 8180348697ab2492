/** The kinds of bases there are, by name. */
import type { Base, Environment } from '../core/environment.ts'
import type { Provider } from '../core/provider.ts'
import type { Some } from '../core/some.ts'
import { debian } from './debian.ts'
import { host } from './host.ts'
import { image } from './image.ts'
import type { BaseKind, Ready } from './kind.ts'

const KINDS: Readonly<Record<Base, BaseKind>> = { host, debian, image }

export function kindOf(base: Base): BaseKind {
  return KINDS[base]
}

export function allKinds(): readonly BaseKind[] {
  return Object.values(KINDS)
}

const USER = /^[a-z_][a-z0-9_-]{0,31}$/

/**
 * The user and the directory of commands where a request names none: an image's own, else the usual ones of the base. podd finds users by name,
 * so an image that names its user by number gets root.
 */
export function settledOn(
  environment: Environment,
  asked: Some<Pick<Environment, 'user' | 'workdir'>>,
  ready: Pick<Ready, 'user' | 'workdir'>,
): Environment {
  const [own = ''] = ready.user?.split(':') ?? []
  const user = USER.test(own) ? own : kindOf(environment.base).user
  return {
    ...environment,
    user: asked.user ?? user,
    workdir: asked.workdir ?? ready.workdir ?? environment.workdir,
  }
}

/** The base of a sandbox where nobody names one: an image that is named, this machine's tools where the provider has them, else Debian. */
export function baseFor(asked: Pick<Environment, 'image'>, provider: Provider): Base {
  if (asked.image !== undefined) return image.name
  return provider.host ? host.name : debian.name
}
