import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseAddress } from './address.ts'
import { isNamed, parseNamedAddress } from './named-address.ts'

test('a named server is one address on one port', () => {
  const named = ['10.0.0.5:8443', '[fd00::5]:443', '93.184.215.14:80'].map(parseNamedAddress)
  const is = (text: string, port: number): boolean => isNamed(named, parseAddress(text), port)
  for (const [text, port] of [
    ['10.0.0.5', 8443],
    ['::ffff:10.0.0.5', 8443],
    ['fd00::5', 443],
    ['93.184.215.14', 80],
  ] as const)
    assert.ok(is(text, port), text)
  for (const [text, port] of [
    ['10.0.0.5', 443],
    ['10.0.0.6', 8443],
    ['fd00::5', 80],
    ['::10.0.0.5', 8443],
  ] as const)
    assert.ok(!is(text, port), text)
})

test('SECURITY: NW-03 this machine, link-local and metadata addresses cannot be named', () => {
  for (const text of [
    ...['127.0.0.1:80', '0.0.0.0:80', '[::1]:80', '[::ffff:127.0.0.1]:80', '169.254.169.254:80'],
    ...['[fe80::1]:80', '224.0.0.1:80', '[2002:7f00:1::]:80', '[64:ff9b::a00:5]:80'],
  ])
    assert.throws(() => parseNamedAddress(text), { reason: 'address.never' }, text)
  for (const text of [
    ...['10.0.0.5', '10.0.0.5:', '10.0.0.5:0', '10.0.0.5:65536', '10.0.0.0/8:80', '[10.0.0.5]:80'],
    ...['fd00::5:80', 'gateway.internal:80', '010.0.0.5:80', '10.5:80', '', ':80'],
  ])
    assert.throws(() => parseNamedAddress(text), { reason: 'address.malformed' }, text)
})
