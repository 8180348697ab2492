import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parseHostName } from '../../policy/host-name.ts'
import type { Destination } from '../destination.ts'
import { testPolicy } from '../testing/egress-fixture.ts'
import { type Judgement, judge, parseBlocks } from './judge.ts'
import { JudgementMemory } from './judgement-memory.ts'

const to = (host: string, port = 443): Destination => ({ kind: 'name', host: parseHostName(host), port })

describe('remembered judgements', () => {
  test('a repeated question has the same answer as the policy, and the answer is not made again', () => {
    const policy = testPolicy(['a.example', { host: 'b.example', methods: ['GET'] }])
    const blocks = parseBlocks(undefined)
    const memory = new JudgementMemory(policy, blocks)
    for (const host of ['a.example', 'b.example', 'c.example'])
      for (const port of [443, 8443])
        for (const method of [undefined, 'GET', 'POST', 'TRACE', '']) {
          const request = method === undefined ? undefined : { method, path: '/' }
          const expected = judge({ policy, blocks }, to(host, port), request)
          const first = memory.judge(to(host, port), request)
          assert.deepEqual(first, expected, `${host} ${port} ${method}`)
          assert.equal(memory.judge(to(host, port), request), first)
        }
  })

  test('SECURITY: where a rule is about paths, each path is decided', () => {
    const policy = testPolicy([{ host: 'a.example', paths: ['/open/**'] }])
    const memory = new JudgementMemory(policy, parseBlocks(undefined))
    const ask = (path: string): Judgement => memory.judge(to('a.example'), { method: 'GET', path })
    assert.equal(ask('/open/x').allowed, true)
    assert.equal(ask('/closed').allowed, false)
    assert.equal(ask('/open/../closed').reason, 'request.path')
    assert.equal(ask('/open/x').allowed, true)
  })

  test('a denial on paths counts too', () => {
    const policy = testPolicy(['a.example'], { denied: ['a.example/closed/**'] })
    const memory = new JudgementMemory(policy, parseBlocks(undefined))
    const ask = (path: string): Judgement => memory.judge(to('a.example'), { method: 'GET', path })
    assert.equal(ask('/open').allowed, true)
    assert.equal(ask('/closed/x').allowed, false)
  })

  test('names that a sandbox makes up do not fill the memory', () => {
    const memory = new JudgementMemory(testPolicy(['*.a.example']), parseBlocks(undefined))
    const kept = memory.judge(to('kept.a.example'))
    for (let n = 0; n < 256; n++) memory.judge(to(`n${n}.a.example`))
    const again = memory.judge(to('kept.a.example'))
    assert.notEqual(again, kept)
    assert.deepEqual(again, kept)
  })
})
