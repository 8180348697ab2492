/** A value that stays outside; a sandbox holds a placeholder that is worth something in one slot only. */
import type { Budget } from './network.ts'

/** How the value stands in its header: bare, behind a word, or as the password of Basic authorization. */
export type SecretScheme =
  | { readonly kind: 'bare' }
  | { readonly kind: 'prefix'; readonly prefix: string }
  | { readonly kind: 'basic'; readonly user: string }

export interface SecretSlot {
  /** Exact names. */
  readonly hosts: readonly string[]
  readonly port: number
  /** Lower case. */
  readonly header: string
  readonly scheme: SecretScheme
  readonly methods?: readonly string[] | undefined
  readonly paths?: readonly string[] | undefined
  readonly budget?: Budget | undefined
}

/** What is known of a secret; its value is never given out. */
export interface Secret {
  readonly name: string
  readonly owner: string
  /** The variable whose value a program expects it in. */
  readonly variable: string
  readonly slot: SecretSlot
  readonly version: number
  readonly createdAt: number
  readonly rotatedAt: number
}

/** A secret as the way out holds it for one sandbox. */
export interface BoundSecret {
  readonly name: string
  readonly placeholder: string
  readonly value: string
  readonly slot: SecretSlot
}
