/** What must be inside a sandbox, whatever provider gives it. */
export const BASES = ['host', 'debian'] as const
export type Base = (typeof BASES)[number]

export interface Environment {
  readonly base: Base
  readonly variables: Readonly<Record<string, string>>
  /** Who commands run as when nobody says. */
  readonly user: string
  /** Where commands run when nobody says; empty means the user's home. */
  readonly workdir: string
  /** Whether programs inside may become root inside. */
  readonly sudo: boolean
}

export const DEFAULT_ENVIRONMENT: Environment = {
  base: 'host',
  variables: {},
  user: 'user',
  workdir: '',
  sudo: false,
}
