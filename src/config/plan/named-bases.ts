/** Named bases: Debian with languages and packages, by the names that `base` accepts. */
import { BASES, type Base } from '../../core/environment.ts'
import type { Language } from '../detect/finding.ts'

/** The base of all named bases. */
const NAMED_ON: Base = 'debian'

const C = ['build-essential', 'pkg-config']

export function baseOf(name: string): Base {
  return BASES.find((base) => base === name) ?? NAMED_ON
}

export interface NamedBase {
  readonly about: string
  readonly languages: readonly Language[]
  readonly packages: readonly string[]
}

export const NAMED_BASES: Readonly<Record<string, NamedBase>> = {
  js: { about: 'Debian with Node', languages: ['node'], packages: [...C] },
  python: { about: 'Debian with Python', languages: ['python'], packages: [] },
  go: { about: 'Debian with Go', languages: ['go'], packages: [...C] },
  rust: { about: 'Debian with Rust', languages: ['rust'], packages: ['libssl-dev'] },
  java: { about: 'Debian with a JDK and Maven', languages: ['java'], packages: ['maven'] },
  fullstack: {
    about: 'Debian with Node, Python and database clients',
    languages: ['node', 'python'],
    packages: ['postgresql-client', 'redis-tools', 'sqlite3', 'libpq-dev'],
  },
  polyglot: {
    about: 'Debian with Node, Python, Go, Rust and Java',
    languages: ['node', 'python', 'go', 'rust', 'java'],
    packages: ['maven', 'cmake', 'ninja-build', 'libssl-dev', 'libpq-dev', 'sqlite3'],
  },
}

/** Undefined for a base that is not one of these, such as `host`. */
export function namedBase(name: string): NamedBase | undefined {
  return Object.hasOwn(NAMED_BASES, name) ? NAMED_BASES[name] : undefined
}
