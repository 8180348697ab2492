/** A key to the API. Its secret is shown once; what is kept is a hash. */
export const SCOPES = ['sandboxes', 'admin'] as const
export type Scope = (typeof SCOPES)[number]

export interface Key {
  readonly id: string
  readonly name: string
  /** `sandboxes`: makes and uses its own. `admin`: sees everything, and keeps keys. */
  readonly scope: Scope
  readonly createdAt: number
  readonly expiresAt: number | undefined
  readonly revokedAt: number | undefined
}
