/** A value that stays outside. The sandbox has a placeholder, which works in one slot only. */
import type { Budget } from './network.ts'

/**
 * How the value is written in its header: bare, after a scheme, or as the password of Basic authorization.
 */
export type SecretScheme =
  | { readonly kind: 'bare' }
  | { readonly kind: 'prefix'; readonly prefix: string }
  | { readonly kind: 'basic'; readonly user: string }

export interface SecretSlot {
  /** Exact host names. */
  readonly hosts: readonly string[]
  readonly port: number
  /** Lower case. */
  readonly header: string
  readonly scheme: SecretScheme
  readonly methods?: readonly string[] | undefined
  readonly paths?: readonly string[] | undefined
  readonly budget?: Budget | undefined
}

/** A secret without its value, which is never returned. */
export interface Secret {
  readonly name: string
  readonly owner: string
  /** The variable in which programs expect it. */
  readonly variable: string
  readonly slot: SecretSlot
  readonly version: number
  readonly createdAt: number
  readonly rotatedAt: number
}

/** A secret as the egress process has it for one sandbox. */
export interface BoundSecret {
  readonly name: string
  readonly placeholder: string
  readonly value: string
  readonly slot: SecretSlot
}
