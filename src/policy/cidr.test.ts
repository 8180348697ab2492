import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { isAgentPodError } from '../core/error.ts'
import { parseAddress } from './address.ts'
import { isInBlock, isInBlocks, parseBlock, readBlock } from './cidr.ts'

describe('a block of addresses', () => {
  const inside: readonly (readonly [block: string, address: string])[] = [
    ['192.0.2.7', '192.0.2.7'],
    ['192.0.2.7/32', '192.0.2.7'],
    ['192.0.2.0/24', '192.0.2.0'],
    ['192.0.2.0/24', '192.0.2.255'],
    ['192.0.2.99/24', '192.0.2.1'],
    ['0.0.0.0/0', '203.0.113.9'],
    ['10.0.0.0/8', '::ffff:10.1.2.3'],
    ['192.0.2.0/24', '64:ff9b::192.0.2.8'],
    ['::ffff:192.0.2.0/120', '192.0.2.4'],
    ['2001:db8::/32', '2001:db8:ffff::1'],
    ['2001:db8::1', '2001:db8::1'],
    ['::/0', '2001:db8::1'],
    ['198.51.100.128/25', '198.51.100.128'],
  ]
  for (const [block, address] of inside)
    test(`the block ${block} contains ${address}`, () => {
      assert.equal(isInBlock(parseBlock(block), parseAddress(address)), true)
    })

  const outside: readonly (readonly [block: string, address: string])[] = [
    ['192.0.2.7', '192.0.2.8'],
    ['192.0.2.0/24', '192.0.3.0'],
    ['198.51.100.128/25', '198.51.100.127'],
    ['0.0.0.0/0', '2001:db8::1'],
    ['::/0', '192.0.2.1'],
    ['::/0', '::ffff:192.0.2.1'],
    ['2001:db8::/32', '2001:db9::1'],
    ['64:ff9b::/96', '64:ff9b::192.0.2.8'],
  ]
  for (const [block, address] of outside)
    test(`the block ${block} does not contain ${address}`, () => {
      assert.equal(isInBlock(parseBlock(block), parseAddress(address)), false)
    })

  const malformed = [
    ...['', '/', '/24', '192.0.2.0/', '192.0.2.0/33', '192.0.2.0/-1', '192.0.2.0/024', '192.0.2.0/ 24'],
    ...['192.0.2/24', '192.0.2.0/24/24', '0x7f.1', '::/129', '::1%eth0', '[::1]/128', 'example.com', '1/8'],
    ...['192.0.2.0/1e1', '192.0.2.0/255.255.255.0', ' 192.0.2.0/24', '192.0.2.0\\24'],
  ]
  for (const text of malformed)
    test(`${JSON.stringify(text)} is not a block`, () => {
      assert.equal(readBlock(text), undefined)
      assert.throws(
        () => parseBlock(text),
        (error) => isAgentPodError(error, 'invalid_argument'),
      )
    })

  test('an address is found in one of several blocks', () => {
    const blocks = ['192.0.2.0/24', '2001:db8::/32'].map(parseBlock)
    assert.equal(isInBlocks(blocks, parseAddress('2001:db8::7')), true)
    assert.equal(isInBlocks(blocks, parseAddress('203.0.113.1')), false)
    assert.equal(isInBlocks([], parseAddress('203.0.113.1')), false)
  })
})
