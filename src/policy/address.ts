/**
 * Classifies an address and decides whether it may be dialed. Applied to the exact address that is dialed.
 */
import { invalid } from '../core/error.ts'

/** 128 bits; an IPv4 address is stored in its v4-mapped form. */
export interface Address {
  readonly family: 4 | 6
  readonly bits: bigint
}

export type AddressClass =
  | 'public'
  | 'documentation'
  | 'private'
  | 'cgnat'
  | 'loopback'
  | 'unspecified'
  | 'link-local'
  | 'metadata'
  | 'multicast'
  | 'broadcast'
  | 'benchmark'
  | 'reserved'

/** How an IPv6 address embeds an IPv4 address, whose class then applies. */
export type AddressForm =
  | 'plain'
  | 'v4-mapped'
  | 'v4-translated'
  | 'v4-compatible'
  | 'nat64'
  | 'nat64-local'
  | '6to4'
  | 'teredo'

export interface Classified {
  readonly class: AddressClass
  readonly form: AddressForm
}

const V4_PREFIX = 0xffffn << 32n
const V4_MASK = 0xffff_ffffn
const DECIMAL = /^(?:0|[1-9][0-9]{0,2})$/
const GROUP = /^[0-9a-f]{1,4}$/i
const LONGEST_TEXT = 45

/** Dotted decimal without leading zeros, or RFC 4291 text: no zone, brackets, prefix length or spaces. */
export function readAddress(text: string): Address | undefined {
  if (text.length > LONGEST_TEXT) return undefined
  const v4 = readV4(text)
  if (v4 !== undefined) return { family: 4, bits: V4_PREFIX | v4 }
  const v6 = readV6(text)
  return v6 === undefined ? undefined : { family: 6, bits: v6 }
}

export function parseAddress(text: string): Address {
  const address = readAddress(text)
  if (address) return address
  throw invalid(
    'address.malformed',
    'an address is written as dotted decimal or IPv6, without brackets, zone or port',
  )
}

function readV4(text: string): bigint | undefined {
  const parts = text.split('.')
  if (parts.length !== 4 || !parts.every((part) => DECIMAL.test(part) && Number(part) <= 255))
    return undefined
  return parts.reduce((bits, part) => (bits << 8n) | BigInt(part), 0n)
}

function readV6(text: string): bigint | undefined {
  const halves = text.split('::')
  if (halves.length > 2) return undefined
  const [before, after] = [groupsOf(halves[0] ?? '', halves.length === 1), groupsOf(halves[1] ?? '', true)]
  if (!before || !after) return undefined
  const missing = 8 - before.length - after.length
  if (halves.length === 1 ? missing !== 0 : missing < 1) return undefined
  const groups = [...before, ...Array<bigint>(missing).fill(0n), ...after]
  return groups.reduce((bits, group) => (bits << 16n) | group, 0n)
}

/** The sixteen-bit groups of one side of a `::`. Only the last may be dotted decimal. */
function groupsOf(text: string, isLast: boolean): bigint[] | undefined {
  if (text === '') return []
  const groups: bigint[] = []
  const parts = text.split(':')
  for (const [at, part] of parts.entries()) {
    const v4 = isLast && at === parts.length - 1 ? readV4(part) : undefined
    if (v4 !== undefined) groups.push(v4 >> 16n, v4 & 0xffffn)
    else if (GROUP.test(part)) groups.push(BigInt(`0x${part}`))
    else return undefined
  }
  return groups
}

/** RFC 5952 text, so that texts are equal exactly if the addresses are. */
export function formatAddress({ family, bits }: Address): string {
  if (family === 4) return formatV4(bits & V4_MASK)
  if (bits >> 32n === 0xffffn) return `::ffff:${formatV4(bits & V4_MASK)}`
  const groups = Array.from({ length: 8 }, (_, at) =>
    ((bits >> BigInt(112 - 16 * at)) & 0xffffn).toString(16),
  )
  const runs = groups.map((_, at) => {
    const end = groups.findIndex((group, index) => index >= at && group !== '0')
    return (end < 0 ? 8 : end) - at
  })
  const longest = Math.max(...runs)
  if (longest < 2) return groups.join(':')
  const start = runs.indexOf(longest)
  return `${groups.slice(0, start).join(':')}::${groups.slice(start + longest).join(':')}`
}

function formatV4(v4: bigint): string {
  return [24n, 16n, 8n, 0n].map((shift) => (v4 >> shift) & 0xffn).join('.')
}

interface Range {
  readonly family: 4 | 6
  readonly prefix: bigint
  readonly shift: bigint
}

function range(text: string): Range {
  const [start = '', length = ''] = text.split('/')
  const { family, bits } = parseAddress(start)
  const shift = BigInt((family === 4 ? 32 : 128) - Number(length))
  return { family, prefix: bits >> shift, shift }
}

function isIn({ family, prefix, shift }: Range, address: Address): boolean {
  return address.family === family && address.bits >> shift === prefix
}

/** The first range that contains an address gives its class, so exceptions come first. */
const CLASSES: readonly (readonly [AddressClass, readonly Range[]])[] = (
  [
    // SECURITY: NW-03. Clouds use link-local, carrier, unique local and even public addresses for metadata.
    ['metadata', '169.254.169.254/32 169.254.170.2/32 169.254.170.23/32 169.254.42.42/32 100.100.100.200/32'],
    ['metadata', '168.63.129.16/32 192.0.0.192/32 fe80::a9fe:a9fe/128'],
    ['metadata', 'fd00:ec2::254/128 fd00:ec2::23/128 fd20:ce::254/128 fd00:42::42/128'],
    ['unspecified', '0.0.0.0/32 ::/128'],
    ['loopback', '127.0.0.0/8 ::1/128'],
    ['private', '10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 fc00::/7'],
    ['cgnat', '100.64.0.0/10'],
    ['link-local', '169.254.0.0/16 fe80::/10'],
    ['documentation', '192.0.2.0/24 198.51.100.0/24 203.0.113.0/24 2001:db8::/32 3fff::/20'],
    // The resolver inside a sandbox also answers with these: they stand for names and are not real.
    ['benchmark', '198.18.0.0/15 2001:2::/48'],
    ['multicast', '224.0.0.0/4 ff00::/8'],
    ['broadcast', '255.255.255.255/32'],
    ['reserved', '0.0.0.0/8 192.0.0.0/24 192.88.99.0/24 240.0.0.0/4 2001::/23'],
    ['public', '0.0.0.0/0 2000::/3'],
    ['reserved', '::/0'],
  ] satisfies [AddressClass, string][]
).map(([name, ranges]) => [name, ranges.split(' ').map(range)])

interface Embedding {
  readonly form: AddressForm
  readonly range: Range
  /** The offset of the IPv4 address from the right, in bits. */
  readonly shift?: bigint
  readonly isInverted?: boolean
}

const EMBEDDINGS: readonly Embedding[] = [
  { form: 'v4-mapped', range: range('::ffff:0:0/96') },
  { form: 'v4-translated', range: range('::ffff:0:0:0/96') },
  { form: 'nat64', range: range('64:ff9b::/96') },
  { form: '6to4', range: range('2002::/16'), shift: 80n },
  { form: 'teredo', range: range('2001::/32'), isInverted: true },
  { form: 'v4-compatible', range: range('::/96') },
]
const NAT64_LOCAL = range('64:ff9b:1::/48')
const LOW_NAMES: readonly bigint[] = [0n, 1n]

export function classify(address: Address): Classified {
  // RFC 8215 does not define where the IPv4 address is, so it cannot be classified by it.
  if (isIn(NAT64_LOCAL, address)) return { class: 'reserved', form: 'nat64-local' }
  const embedding =
    address.family === 6 && !LOW_NAMES.includes(address.bits)
      ? EMBEDDINGS.find((one) => isIn(one.range, address))
      : undefined
  if (!embedding) return { class: classOf(address), form: 'plain' }
  const bits = (address.bits >> (embedding.shift ?? 0n)) & V4_MASK
  const v4 = embedding.isInverted ? bits ^ V4_MASK : bits
  return { class: classOf({ family: 4, bits: V4_PREFIX | v4 }), form: embedding.form }
}

function classOf(address: Address): AddressClass {
  return CLASSES.find(([, ranges]) => ranges.some((one) => isIn(one, address)))?.[0] ?? 'reserved'
}

/**
 * SECURITY: NW-03, NW-04, NW-13. No rule allows the host, link-local, metadata, multicast or reserved
 * addresses; `allowPrivate` only allows private and carrier addresses. Obsolete tunnel addresses (6to4,
 * Teredo, v4-compatible, v4-translated) are never dialed.
 */
export function isDialable(address: Address, { allowPrivate }: { readonly allowPrivate: boolean }): boolean {
  const { class: name, form } = classify(address)
  if (form !== 'plain' && form !== 'v4-mapped' && form !== 'nat64') return false
  if (name === 'public' || name === 'documentation') return true
  // RFC 6052 forbids the well-known prefix for private addresses.
  return allowPrivate && form !== 'nat64' && (name === 'private' || name === 'cgnat')
}
