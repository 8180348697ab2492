import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as der from './der.ts'

const CASES: readonly [what: string, bytes: Uint8Array, hex: string][] = [
  ['an empty sequence', der.sequence(), '3000'],
  ['a short length', der.octets(Buffer.alloc(127)).subarray(0, 2), '047f'],
  ['a length of one byte', der.octets(Buffer.alloc(128)).subarray(0, 3), '048180'],
  ['a length of two bytes', der.octets(Buffer.alloc(256)).subarray(0, 4), '04820100'],
  ['zero', der.integer(Buffer.from([0, 0])), '020100'],
  ['a number with leading zeros', der.integer(Buffer.from([0, 0, 5])), '020105'],
  ['a number with its high bit set', der.integer(Buffer.from([0x80])), '02020080'],
  ['an object id', der.objectId('1.2.840.10045.4.3.2'), '06082a8648ce3d040302'],
  [
    'a time of this half century',
    der.derTime(Date.UTC(2049, 11, 31, 23, 59, 59)),
    '170d3439313233313233353935395a',
  ],
  ['a time of the next', der.derTime(Date.UTC(2050, 0, 1)), '180f32303530303130313030303030305a'],
  ['bits', der.bits(Buffer.from([0x06]), 1), '03020106'],
]

for (const [what, bytes, hex] of CASES) {
  test(what, () => assert.equal(Buffer.from(bytes).toString('hex'), hex))
}
