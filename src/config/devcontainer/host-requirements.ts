/** `hostRequirements`: the largest of each, over everything that is merged. */
import { isObject, type JsonObject } from '../../util/untrusted-json.ts'
import type { HostRequirements } from './properties.ts'

type Gpu = HostRequirements['gpu']

const UNITS: Readonly<Record<string, number>> = { tb: 2 ** 40, gb: 2 ** 30, mb: 2 ** 20, kb: 2 ** 10 }

/** `8gb` in bytes; zero for anything else. */
export function requirementBytes(text = '0'): number {
  const [, digits, unit = ''] = /^([0-9]+)([tgmk]b)?$/.exec(text) ?? []
  return digits === undefined ? 0 : Number(digits) * (UNITS[unit] ?? 1)
}

/** In the official shape: sizes are texts of bytes. Undefined if nothing is required. */
export function hostRequirementsOf(all: readonly (HostRequirements | undefined)[]): JsonObject | undefined {
  const most = (of: (one: HostRequirements) => number): number =>
    Math.max(0, ...all.map((one) => (one ? of(one) : 0)))
  const cpus = most((one) => one.cpus ?? 0)
  const memory = most((one) => requirementBytes(one.memory))
  const storage = most((one) => requirementBytes(one.storage))
  const gpu = all.map((one) => one?.gpu).reduce<Gpu>(mergedGpu, undefined)
  if (cpus === 0 && memory === 0 && storage === 0 && !gpu) return undefined
  return { cpus, memory: sizeText(memory), storage: sizeText(storage), gpu }
}

function mergedGpu(one: Gpu, other: Gpu): Gpu {
  if (one === undefined || one === false) return other
  if (other === undefined || other === false) return one
  if (one === 'optional' && other === 'optional') return 'optional'
  const [a, b] = [isObject(one) ? one : {}, isObject(other) ? other : {}]
  const cores = Math.max(a.cores ?? 0, b.cores ?? 0)
  const memory = Math.max(requirementBytes(a.memory), requirementBytes(b.memory))
  return { cores: cores === 0 ? undefined : cores, memory: sizeText(memory) }
}

function sizeText(bytes: number): string | undefined {
  return bytes === 0 ? undefined : String(bytes)
}
