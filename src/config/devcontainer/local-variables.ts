/** Where a devcontainer.json reads variables of this machine: `${localEnv:NAME}` or `${env:NAME}`. */
import { isObject } from '../../util/untrusted-json.ts'
import type { Path } from '../toml/positions.ts'

const LOCAL = /\$\{(?:localEnv|env):([^:}]*)/g

export interface LocalVariable {
  readonly path: Path
  readonly name: string
}

export function localVariables(value: unknown, path: Path = []): LocalVariable[] {
  if (typeof value === 'string') return [...value.matchAll(LOCAL)].map(([, name = '']) => ({ path, name }))
  if (Array.isArray(value)) return value.flatMap((one, index) => localVariables(one, [...path, index]))
  if (!isObject(value)) return []
  return Object.entries(value).flatMap(([key, one]) => localVariables(one, [...path, key]))
}
