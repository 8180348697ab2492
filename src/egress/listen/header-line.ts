/**
 * The line that podd writes before the bytes of a connection. SECURITY: podd runs next to untrusted code, so
 * the line is treated as if that code had written it: it can choose a destination, as any program inside can,
 * and nothing else.
 */
import { readAddress } from '../../policy/address.ts'
import { readHostName } from '../../policy/host-name.ts'
import { findJsonFault } from '../../util/json-text.ts'
import type { Destination } from '../destination.ts'

export type HeaderLine =
  | { readonly kind: 'proxy' }
  | { readonly kind: 'direct'; readonly destination: Destination }
  /** The line has the right form but no valid name or address; the connection is refused and recorded. */
  | { readonly kind: 'malformed' }

export const LONGEST_HEADER = 1024
const KEYS: Readonly<Record<string, readonly string[]>> = {
  proxy: ['kind', 'v'],
  name: ['kind', 'name', 'port', 'v'],
  address: ['address', 'kind', 'port', 'v'],
}

/** Undefined if the line does not follow the protocol. */
export function readHeaderLine(line: Uint8Array): HeaderLine | undefined {
  const fields = readObject(line)
  if (fields?.['v'] !== 1) return undefined
  const keys = Object.keys(fields).sort().join()
  const has = (form: string): boolean => keys === KEYS[form]?.join()
  if (fields['kind'] === 'proxy') return has('proxy') ? { kind: 'proxy' } : undefined
  if (fields['kind'] !== 'direct') return undefined
  const { port, name, address } = fields
  if (typeof port !== 'number' || !Number.isInteger(port) || port < 1 || port > 65_535) return undefined
  if (has('name') && typeof name === 'string') return named(name, port)
  if (has('address') && typeof address === 'string') return addressed(address, port)
  return undefined
}

function named(name: string, port: number): HeaderLine {
  const reading = readHostName(name)
  if (!reading.ok) return { kind: 'malformed' }
  return { kind: 'direct', destination: { kind: 'name', host: reading.host, port } }
}

function addressed(text: string, port: number): HeaderLine {
  const address = readAddress(text)
  return address ? { kind: 'direct', destination: { kind: 'address', address, port } } : { kind: 'malformed' }
}

function readObject(line: Uint8Array): Record<string, unknown> | undefined {
  if (line.length > LONGEST_HEADER) return undefined
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(line)
    const value: unknown = JSON.parse(text)
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
    return findJsonFault(text, 1) ? undefined : (value as Record<string, unknown>)
  } catch {
    return undefined
  }
}
