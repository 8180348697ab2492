import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { NetworkMode } from '../core/network.ts'
import { SeededRandom } from '../testing/seeded-random.ts'
import { decide, type NetworkPolicy } from './decide.ts'
import { explain } from './explain.ts'
import { parseHostName } from './host-name.ts'
import { parseDenial, parseRule } from './rule.ts'

function policy(
  rules: readonly unknown[],
  denied: readonly unknown[] = [],
  mode: NetworkMode = 'allowlist',
): NetworkPolicy {
  return {
    mode,
    rules: rules.map((rule) => parseRule(rule, 'user')),
    denied: denied.map((rule) => parseDenial(rule, 'user')),
  }
}

/** `[METHOD ]host[:port][/path]`, port 443 unless said. */
function ask(text: string) {
  const [, method, host = '', port = '443', path] =
    /^(?:([A-Z]+) )?([^:/]+)(?::(\d+))?(\/.*)?$/.exec(text) ?? []
  return { host: parseHostName(host), port: Number(port), method, path }
}

const reasonOf = (of: NetworkPolicy, text: string) => decide(of, ask(text)).reason

describe('a decision', () => {
  const cases: readonly (readonly [of: NetworkPolicy, asked: string, reason: string])[] = [
    [policy(['example.com'], [], 'off'), 'example.com', 'mode.off'],
    [policy([]), 'example.com', 'rule.none'],
    [policy(['example.com']), 'example.com', 'rule.allow'],
    [policy(['example.com']), 'EXAMPLE.com.', 'rule.allow'],
    [policy(['example.com']), 'example.com:80', 'rule.allow'],
    [policy(['example.com']), 'example.com:22', 'rule.none'],
    [policy(['example.com']), 'a.example.com', 'rule.none'],
    [policy(['*.example.com']), 'example.com', 'rule.none'],
    [policy(['*.example.com']), 'a.b.example.com', 'rule.allow'],
    [
      policy(['*.google.internal'].map((host) => ({ host, private: true }))),
      'metadata.google.internal',
      'host.never',
    ],
    [policy(['example.com'], ['example.com']), 'example.com', 'rule.deny'],
    [policy(['*.example.com'], ['a.example.com']), 'a.example.com', 'rule.deny'],
    [policy(['*.example.com'], ['a.example.com']), 'b.example.com', 'rule.allow'],
    [policy(['a.example.com'], ['*.example.com']), 'a.example.com', 'rule.allow'],
    [policy(['*.a.example.com'], ['*.example.com']), 'b.a.example.com', 'rule.allow'],
    [policy(['*.example.com:8443'], ['a.example.com']), 'a.example.com:8443', 'rule.deny'],
    [policy(['example.com'], ['example.com:80']), 'example.com', 'rule.allow'],
    [policy(['example.com'], ['example.com:80']), 'example.com:80', 'rule.deny'],
    [policy(['example.com/a/**']), 'GET example.com/a/b', 'rule.allow'],
    [policy(['example.com/a/**']), 'GET example.com/b', 'rule.none'],
    [policy(['example.com/a/**']), 'GET example.com/a/../b', 'request.path'],
    [policy(['example.com/a/**']), 'example.com', 'request.unseen'],
    [policy(['example.com/a/**']), 'other.example', 'rule.none'],
    [policy(['example.com/a/**', 'example.com']), 'example.com', 'rule.allow'],
    [policy(['example.com'], ['example.com/admin/**']), 'example.com', 'request.unseen'],
    [policy(['example.com'], ['example.com/admin/**']), 'GET example.com/x', 'rule.allow'],
    [policy(['example.com'], ['example.com/admin/**']), 'GET example.com//admin/x', 'rule.deny'],
    [policy(['example.com/x/y'], ['example.com/x/**']), 'GET example.com/x/y', 'rule.allow'],
    [policy(['example.com/x/**'], ['example.com/x/y']), 'GET example.com/x/y', 'rule.deny'],
    [policy([], ['example.com/admin']), 'example.com', 'rule.none'],
    [policy([{ host: 'example.com', methods: ['GET'] }]), 'GET example.com/', 'rule.allow'],
    [policy([{ host: 'example.com', methods: ['GET'] }]), 'POST example.com/', 'rule.none'],
    [policy([{ host: 'example.com', methods: ['GET'] }]), 'example.com', 'request.unseen'],
    [
      policy(['example.com'], [{ host: 'example.com', methods: ['DELETE'] }]),
      'DELETE example.com/',
      'rule.deny',
    ],
    [policy(['example.com']), 'TRACE example.com/', 'request.method'],
    [policy(['example.com']), 'CONNECT example.com/', 'request.method'],
    [policy([], [], 'open'), 'example.com', 'open.allow'],
    [policy([], [], 'open'), 'example.com:80', 'open.allow'],
    [policy([], [], 'open'), 'example.com:22', 'open.port'],
    [policy(['example.com:22'], [], 'open'), 'example.com:22', 'rule.allow'],
    [policy([], ['*.example.com'], 'open'), 'a.example.com', 'rule.deny'],
    [policy([], ['example.com/x'], 'open'), 'example.com', 'request.unseen'],
    [policy([], [], 'open'), 'mirror', 'open.host'],
    [policy([], [], 'open'), 'printer.local', 'open.host'],
    [policy([], [], 'open'), 'localhost', 'host.never'],
  ]
  for (const [of, asked, reason] of cases) {
    test(`${asked} under ${of.mode} +${of.rules.map((rule) => rule.host)} -${of.denied.map((rule) => rule.host)}: ${reason}`, () => {
      const decision = decide(of, ask(asked))
      assert.equal(decision.reason, reason)
      assert.equal(decision.allowed, reason.endsWith('.allow'))
      assert.ok(decision.message !== '' && decision.hint !== '')
    })
  }

  test('a decision allows private addresses only by a private rule', () => {
    assert.equal(decide(policy([{ host: 'mirror', private: true }]), ask('mirror')).allowPrivate, true)
    assert.equal(decide(policy(['example.com']), ask('example.com')).allowPrivate, false)
    assert.equal(decide(policy([], [], 'open'), ask('example.com')).allowPrivate, false)
    assert.equal(
      decide(policy([{ host: 'example.com', private: true }], ['example.com']), ask('example.com'))
        .allowPrivate,
      false,
    )
  })

  test('the wider of two equal grants decides, so that a preset for a private mirror works', () => {
    const rules = ['example.com', { host: 'example.com', private: true, budget: { bytes: 9 } }]
    assert.equal(decide(policy(rules), ask('example.com')).allowPrivate, true)
    const budgets = [{ host: 'example.com', budget: { bytes: 9 } }, 'example.com']
    assert.equal(decide(policy(budgets), ask('example.com')).rule?.budget, undefined)
  })

  test('a rule of a project never outranks a denial', () => {
    const [wide, denied] = [parseRule('*.example.com', 'user'), parseDenial('*.example.com', 'user')]
    const close = (source: 'project' | 'user') =>
      ({ mode: 'allowlist', rules: [wide, parseRule('a.example.com/x', source)], denied: [denied] }) as const
    assert.equal(reasonOf(close('project'), 'GET a.example.com/x'), 'rule.deny')
    assert.equal(reasonOf(close('user'), 'GET a.example.com/x'), 'rule.allow')
    assert.equal(reasonOf({ ...close('project'), denied: [] }, 'GET a.example.com/x'), 'rule.allow')
  })

  test('NET-3 a decision does not depend on the order of rules', () => {
    const random = new SeededRandom(3)
    const hosts = ['example.com', '*.example.com', 'a.example.com', '*.a.example.com', 'b.a.example.com']
    const draw = () =>
      `${hosts[random.below(hosts.length)]}${['', ':443', ':22', '/x', '/x/**', '/**'][random.below(6)]}`
    const questions = [
      'example.com',
      'a.example.com',
      'b.a.example.com:22',
      'GET a.example.com/x',
      'GET b.a.example.com/x/y',
    ]
    for (let run = 0; run < 2000; run++) {
      const [rules, denied] = [Array.from({ length: 4 }, draw), Array.from({ length: 2 }, draw)]
      const [one, other] = [policy(rules, denied), policy(rules.toReversed(), denied.toReversed())]
      for (const question of questions)
        assert.deepEqual(decide(one, ask(question)), decide(other, ask(question)))
    }
  })
})

test('GP-04 a member of a group is allowed under a name that no public host has', () => {
  const members = ['db', 'db.internal', 'example.com', 'localhost']
  const of = { ...policy([], ['db.internal'], 'off'), members }
  assert.equal(reasonOf(of, 'db:5432'), 'group.allow')
  assert.equal(reasonOf({ ...of, denied: [] }, 'db.internal'), 'group.allow')
  for (const host of ['db.internal', 'example.com', 'localhost'])
    assert.equal(decide(of, ask(host)).allowed, false, host)
})

test('an explanation names the verdict, the rule, its source and other rules for the host', () => {
  assert.equal(
    explain(policy(['*.example.com'], ['a.example.com:80']), ask('a.example.com')),
    [
      'allowed: a.example.com:443',
      '  a.example.com is allowed by *.example.com on port 80, 443 (user) [rule.allow]',
      '  it must resolve to a public address',
      'other rules for this host:',
      '  denies a.example.com on port 80 (user)',
    ].join('\n'),
  )
  assert.match(
    explain(policy([]), ask('a.example.com:22')),
    /refused.*\n.*no rule allows.*\n.*agentpod allow NAME a\.example\.com:22/,
  )
})
