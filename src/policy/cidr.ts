/** Address blocks: `192.0.2.0/24`, `2001:db8::/32`, or one address. */
import { invalid } from '../core/error.ts'
import { type Address, classify, readAddress } from './address.ts'

export interface Block {
  readonly family: 4 | 6
  readonly prefix: bigint
  /** The number of bits after the prefix. */
  readonly shift: bigint
}

const LENGTH = /^(?:0|[1-9][0-9]{0,2})$/
const V4_PREFIX = 0xffffn
const V4_MASK = 0xffff_ffffn

/**
 * Ignores bits after the prefix, because many people write a host address with the prefix length of its
 * network.
 */
export function readBlock(text: string): Block | undefined {
  const slash = text.indexOf('/')
  const address = readAddress(slash < 0 ? text : text.slice(0, slash))
  if (!address) return undefined
  const length = slash < 0 ? undefined : text.slice(slash + 1)
  if (length !== undefined && !LENGTH.test(length)) return undefined
  const width = address.family === 4 ? 32 : 128
  const kept = length === undefined ? width : Number(length)
  if (kept > width) return undefined
  // A block in v4-mapped form means IPv4 addresses.
  const isMapped = address.family === 6 && address.bits >> 32n === V4_PREFIX && kept >= 96
  const shift = BigInt(width - kept)
  return { family: isMapped ? 4 : address.family, prefix: address.bits >> shift, shift }
}

export function parseBlock(text: string): Block {
  const block = readBlock(text)
  if (block) return block
  throw invalid(
    'cidr.malformed',
    'a block is an address, or an address with a slash and a prefix length',
    'for example 192.0.2.0/24 or 2001:db8::/32',
  )
}

/**
 * SECURITY: NW-13. The v4-mapped and NAT64 forms of an IPv4 address reach the same host, so they belong to
 * its IPv4 blocks and to no IPv6 block.
 */
export function isInBlock(block: Block, address: Address): boolean {
  const { family, bits } = effectiveAddress(address)
  return family === block.family && bits >> block.shift === block.prefix
}

export function isInBlocks(blocks: readonly Block[], address: Address): boolean {
  return blocks.some((block) => isInBlock(block, address))
}

/** The address that is actually reached: IPv4 for v4-mapped and NAT64 addresses. */
export function effectiveAddress(address: Address): Address {
  if (address.family === 4) return address
  const { form } = classify(address)
  if (form !== 'v4-mapped' && form !== 'nat64') return address
  return { family: 4, bits: (V4_PREFIX << 32n) | (address.bits & V4_MASK) }
}
