import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readHost } from './host-address.ts'

const ID = 'abcdefgh12345678'
const DOMAINS = ['localhost', 'pods.example.org']
const NAMES = ['box.lan']

const API = [
  'localhost',
  'localhost:8080',
  'LOCALHOST:1',
  'LocalHost',
  '127.0.0.1',
  '127.0.0.1:65535',
  '[::1]',
  '[::1]:8080',
  'box.lan:80',
  'BOX.LAN',
  'pods.example.org',
  'api.localhost:8080',
  'api.pods.example.org',
  'sandbox.pods.example.org',
]
for (const host of API) {
  test(`${host} is the API`, () => assert.deepEqual(readHost(host, DOMAINS, NAMES), { kind: 'api' }))
}

const SANDBOXES = [
  [`3000-${ID}.localhost:8080`, 3000],
  [`3000-${ID}.LOCALHOST`, 3000],
  [`3000-${ID.toUpperCase()}.localhost`, 3000],
  [`65535-${ID}.pods.example.org`, 65535],
  [`1-${ID}.pods.example.org:443`, 1],
] as const
for (const [host, port] of SANDBOXES) {
  test(`${host} is port ${port} of a sandbox`, () =>
    assert.deepEqual(readHost(host, DOMAINS, NAMES), { kind: 'sandbox', id: ID, port }))
}

const UNKNOWN = [
  undefined,
  '',
  ' ',
  'evil.test',
  'evil.test:8080',
  'localhost.evil.test',
  'evil.test.localhost',
  'localhost.',
  '127.0.0.1.',
  '127.1',
  '127.0.0.2',
  '0x7f.1',
  '2130706433',
  '0.0.0.0',
  '[::]',
  '::1',
  '[::ffff:127.0.0.1]',
  '[0:0:0:0:0:0:0:1]',
  '[::1',
  'localhost:',
  'localhost:x',
  'localhost:123456',
  'localhost:80:80',
  'user@localhost',
  'user:pass@localhost:80',
  'localhost@evil.test',
  'localhost evil.test',
  'localhost,evil.test',
  'localhost\0.evil.test',
  'localhost/evil',
  'localhost#evil',
  'localhost?evil',
  'lоcalhost', // a Cyrillic o
  'ⓛocalhost',
  'xn--lcalhost-9bg',
  'bücher.localhost',
  `0-${ID}.localhost`,
  `65536-${ID}.localhost`,
  `99999999999-${ID}.localhost`,
  `03000-${ID}.localhost`,
  `-1-${ID}.localhost`,
  `3000-.localhost`,
  `3000-${'a'.repeat(40)}.localhost`,
  `3000-${ID}.`,
  `3000-${ID}.localhost.`,
  `3000-${ID}.evil.test`,
  `x.3000-${ID}.localhost`,
  `3000-../..-${ID}.localhost`,
  `3000_${ID}.localhost`,
  `${ID}.localhost`,
  `3000-${ID}localhost`,
  `3000-${ID}.xlocalhost`,
  '.localhost',
  '..localhost',
  `${'a'.repeat(300)}.localhost`,
]
for (const host of UNKNOWN) {
  test(`CP-02 ${JSON.stringify(host)} names nothing of this server`, () =>
    assert.deepEqual(readHost(host, DOMAINS, NAMES), { kind: 'unknown' }))
}
