import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parseTools } from './toolchains.ts'

describe('what a machine has', () => {
  test('the list of tools has a line for each tool', () => {
    assert.deepEqual(parseTools('fingerprint\nnode\t22.1.0\t/opt/node/bin\npython\t3.11\t/usr/bin\n'), [
      { name: 'node', version: '22.1.0', directory: '/opt/node/bin' },
      { name: 'python', version: '3.11', directory: '/usr/bin' },
    ])
  })

  for (const line of [
    '',
    'node\t22.1.0',
    'node\t22.1.0\trelative',
    'node\t; id\t/usr/bin',
    'NODE\t22\t/usr/bin',
    'node\t22\t/usr/bin:/evil',
    'node\t22\t/usr/bin\t/more',
    'node\t22\t/usr/\u001b[2J',
    `node\t22\t/${'x'.repeat(500)}`,
    `node\t${'1'.repeat(100)}\t/usr/bin`,
  ])
    test(`${JSON.stringify(line.slice(0, 40))} is none`, () => assert.deepEqual(parseTools(line), []))

  test('the list of tools is limited', () =>
    assert.equal(parseTools('node\t22\t/usr/bin\n'.repeat(10_000)).length, 500))
})
