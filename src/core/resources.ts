import type { Optional } from '../util/optional.ts'
import { invalid } from './error.ts'

/** What one sandbox may use. Zero swap means no swap. */
export interface Resources {
  readonly memoryMib: number
  readonly swapMib: number
  readonly cpus: number
  readonly pids: number
  readonly files: number
  readonly tmpMib: number
  readonly shmMib: number
  /** The space for its files, without what they lie on. */
  readonly diskMib: number
  /** Bytes a second in each direction over the network; no limit if left out. */
  readonly bandwidthBytes?: number | undefined
}

export const LIMITED = ['memory', 'swap', 'cpus', 'pids', 'files', 'disk'] as const
export type Limited = (typeof LIMITED)[number]

/** How well a limit holds here: enforced by the kernel, roughly, or not at all. */
export interface LimitLevel {
  readonly level: 'enforced' | 'soft' | 'none'
  readonly reason?: string | undefined
}
export type LimitLevels = Readonly<Record<Limited, LimitLevel>>

export const DEFAULT_RESOURCES: Resources = {
  memoryMib: 4096,
  swapMib: 0,
  cpus: 2,
  pids: 1024,
  files: 65536,
  tmpMib: 1024,
  shmMib: 256,
  diskMib: 20_480,
}

const BOUNDS: Record<keyof Required<Resources>, { min: number; max: number; whole: boolean }> = {
  memoryMib: { min: 32, max: 4 * 1024 * 1024, whole: true },
  swapMib: { min: 0, max: 4 * 1024 * 1024, whole: true },
  cpus: { min: 0.05, max: 1024, whole: false },
  pids: { min: 8, max: 1_000_000, whole: true },
  files: { min: 64, max: 1_048_576, whole: true },
  tmpMib: { min: 1, max: 1024 * 1024, whole: true },
  shmMib: { min: 1, max: 1024 * 1024, whole: true },
  diskMib: { min: 16, max: 1024 * 1024 * 1024, whole: true },
  bandwidthBytes: { min: 1024, max: 1024 ** 4, whole: true },
}

/** Every resource that a request may name, also those without a default. */
export const RESOURCE_NAMES = Object.keys(BOUNDS) as readonly (keyof Resources)[]

/** Fills in defaults and checks every value. */
export function resolveResources(asked: Optional<Resources>): Resources {
  const resources = { ...DEFAULT_RESOURCES, ...withoutUndefined(asked) }
  for (const [key, bound] of Object.entries(BOUNDS) as [keyof Resources, (typeof BOUNDS)['cpus']][]) {
    const value = resources[key]
    if (value === undefined) continue
    const isRight = Number.isFinite(value) && (!bound.whole || Number.isInteger(value))
    if (!isRight || value < bound.min || value > bound.max) {
      throw invalid(
        `resources.${key}`,
        `${key} must be ${bound.whole ? 'a whole number' : 'a number'} from ${bound.min} to ${bound.max}, not ${value}`,
      )
    }
  }
  return resources
}

/** The limits that a caller asked for explicitly. They are refused if they cannot be enforced. */
export function askedLimits(asked: Optional<Resources>): Limited[] {
  const names: Record<Limited, keyof Resources> = {
    memory: 'memoryMib',
    swap: 'swapMib',
    cpus: 'cpus',
    pids: 'pids',
    files: 'files',
    disk: 'diskMib',
  }
  return LIMITED.filter((limit) => asked[names[limit]] !== undefined)
}

function withoutUndefined(asked: Optional<Resources>): Partial<Resources> {
  return Object.fromEntries(Object.entries(asked).filter(([, value]) => value !== undefined))
}
