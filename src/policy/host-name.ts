/**
 * The only parser of host names. A sandbox may send bytes that mean one thing to a check and another to a
 * resolver, so a name is parsed once, here, and everything after it (rules, the resolver, SNI) uses the
 * result.
 */
import { domainToASCII, domainToUnicode } from 'node:url'
import { type AgentPodError, invalid } from '../core/error.ts'

declare const brand: unique symbol
/**
 * Lowercase letters, digits and hyphens in dotted labels, IDN as punycode, no trailing dot, never an address.
 */
export type HostName = string & { readonly [brand]: 'HostName' }

const REFUSALS = {
  empty: 'a host name is empty',
  'too-long': 'a host name has at most 253 characters, and 63 between dots',
  encoding: 'a host name is not valid UTF-8',
  character: 'a host name consists of letters, digits, hyphens and dots',
  label: 'a host name is made of labels that neither begin nor end with a hyphen, with one dot between them',
  address: 'this is an address, not a host name',
  idn: 'an international host name is not in its normal form',
} as const
export type HostRefusal = keyof typeof REFUSALS

export type HostReading =
  | { readonly ok: true; readonly host: HostName }
  | { readonly ok: false; readonly refusal: HostRefusal }

const LONGEST_INPUT = 1024
const LONGEST_NAME = 253
const LONGEST_LABEL = 63
const LDH = /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/
// biome-ignore lint/suspicious/noControlCharactersInRegex: the class is ASCII.
const ASCII = /^[\x00-\x7f]*$/
const PLAUSIBLE = /^[a-z0-9.\-\u{a0}-\u{10ffff}]+$/iu
const BRACKETS_OR_COLONS = /^(?:\[.*\]?|[0-9a-f.]*:[0-9a-f.:]*:[0-9a-f.:]*(?:%.*)?)$/is
// INVARIANT: every text that inet_aton accepts as an address ends in a decimal, octal or hexadecimal number.
const NUMBER = /^(?:[0-9]+|0[xob][0-9a-f]*)$/

/**
 * Bytes are read as UTF-8. A header that Node decoded as latin1 must be passed as its original bytes.
 *
 * SECURITY: NW-11, NW-13. Nothing is unescaped, trimmed or repaired: anything but a valid name is refused.
 */
export function readHostName(raw: string | Uint8Array): HostReading {
  if (raw.length > LONGEST_INPUT) return refuse('too-long')
  const text = typeof raw === 'string' ? raw : decode(raw)
  if (!text?.isWellFormed()) return refuse('encoding')
  if (text === '') return refuse('empty')
  if (BRACKETS_OR_COLONS.test(text)) return refuse('address')
  if (!PLAUSIBLE.test(text)) return refuse('character')

  const written = text.endsWith('.') ? text.slice(0, -1) : text
  if (written.split('.').includes('')) return refuse('label')
  const name = ASCII.test(written) ? written.toLowerCase() : fromUnicode(written)
  if (name === undefined) return refuse('idn')

  const labels = name.split('.')
  if (name.length > LONGEST_NAME || labels.some((label) => label.length > LONGEST_LABEL))
    return refuse('too-long')
  if (!labels.every((label) => LDH.test(label))) return refuse('label')
  if (NUMBER.test(labels.at(-1) ?? '')) return refuse('address')
  if (!isNormalPunycode(name)) return refuse('idn')
  return { ok: true, host: name as HostName }
}

/** The message does not contain the name, which may contain anything. */
export function parseHostName(raw: string | Uint8Array): HostName {
  const reading = readHostName(raw)
  if (reading.ok) return reading.host
  throw hostRefused(reading.refusal)
}

export function hostRefused(refusal: HostRefusal): AgentPodError {
  const hint =
    refusal === 'address' ? 'use the name that the address has in DNS or in the hosts file' : undefined
  return invalid(`host.${refusal}`, REFUSALS[refusal], hint)
}

function refuse(refusal: HostRefusal): HostReading {
  return { ok: false, refusal }
}

function decode(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined
  }
}

/**
 * Mapping may fold case and compose accents. SECURITY: NW-13. A letter, digit or dot that only becomes ASCII
 * by mapping (full-width, circled, ideographic full stop, soft hyphen) is refused, since it looks different
 * from what it becomes.
 */
function fromUnicode(written: string): string | undefined {
  const folded = written.toLowerCase().normalize('NFC')
  const name = domainToASCII(written)
  if (name === '' || domainToUnicode(name) !== folded) return undefined
  const [before, after] = [written.split('.'), name.split('.')]
  if (before.length !== after.length) return undefined
  const isTranslated = before.every((label, at) =>
    // A label is punycode exactly if it was written in Unicode; a name in mixed notation is refused.
    ASCII.test(label) ? !isPunycode(label) : isPunycode(after[at] ?? ''),
  )
  return isTranslated ? name : undefined
}

/** Node does not check punycode in an ASCII name, so it is decoded and encoded again here. */
function isNormalPunycode(name: string): boolean {
  if (!name.split('.').some(isPunycode)) return true
  const unicode = domainToUnicode(name)
  const written = unicode.split('.')
  return (
    domainToASCII(unicode) === name &&
    name.split('.').every((label, at) => isPunycode(label) !== ASCII.test(written[at] ?? ''))
  )
}

function isPunycode(label: string): boolean {
  return /^xn--/i.test(label)
}
