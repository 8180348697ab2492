import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../../../testing/fake-clock.ts'
import { TemplateBuildLog } from './template-build-log.ts'

const output = (log: TemplateBuildLog, data: Buffer): void =>
  log.onEvent({ kind: 'output', name: 'e2b-2', data })
const messages = (log: TemplateBuildLog): string[] => log.lines.map(({ message }) => message)

test('output becomes lines of its step, and a character that arrives in two parts stays whole', () => {
  const log = new TemplateBuildLog(new FakeClock())
  const data = Buffer.from('one\nzwölf 🐟')
  for (const byte of data) output(log, Buffer.from([byte]))
  log.fail('it failed', '2')
  assert.deepEqual(messages(log), ['one', 'zwölf 🐟', 'it failed'])
  assert.deepEqual(
    log.lines.map(({ level, step }) => [level, step]),
    [
      ['info', '2'],
      ['info', '2'],
      ['error', '2'],
    ],
  )
})

test('SECURITY: CP-16 a log is limited in lines and characters, and its failure is still there', () => {
  for (const line of ['x\n', `${'x'.repeat(3000)}\n`]) {
    const log = new TemplateBuildLog(new FakeClock())
    for (let at = 0; at < 20_000; at++) output(log, Buffer.from(line))
    log.fail('it failed', 'base')
    assert.ok(log.lines.length <= 10_002)
    assert.ok(messages(log).join('').length < 1.1 * 1024 * 1024)
    assert.match(messages(log).at(-2) ?? '', /left out/)
    assert.equal(messages(log).at(-1), 'it failed')
  }
})

test('SECURITY: a line without an end takes no more than one line', () => {
  const log = new TemplateBuildLog(new FakeClock())
  for (let at = 0; at < 1000; at++) output(log, Buffer.alloc(10_000, 'x'))
  log.flush()
  assert.deepEqual(
    messages(log).map(({ length }) => length),
    [4000],
  )
})
