import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { SeededRandom } from '../testing/seeded-random.ts'
import { decide } from './decide.ts'
import { parseHostName } from './host-name.ts'
import { narrow } from './narrow.ts'
import { describeRule, parseRule } from './rule.ts'

function outcome(project: readonly unknown[], user: readonly unknown[]) {
  const { granted, asked } = narrow(
    project.map((rule) => parseRule(rule, 'project')),
    user.map((rule) => parseRule(rule, 'user')),
  )
  return { granted: granted.map(describeRule), asked: asked?.rules.map(describeRule) ?? [] }
}

describe('a project', () => {
  const cases: readonly (readonly [string, unknown[], unknown[], string[], string[]])[] = [
    ['uses less', ['a.example.com:443'], ['*.example.com'], ['a.example.com on port 443'], []],
    ['uses nothing that it does not ask for', [], ['example.com'], [], []],
    ['asks for what nobody granted', ['b.example'], ['a.example'], [], ['b.example on port 80, 443']],
    [
      'gets a part and asks for the rest',
      ['*.example.com:443'],
      ['a.example.com'],
      ['a.example.com on port 443'],
      ['*.example.com on port 443'],
    ],
    [
      'asks for another port',
      ['a.example:443,22'],
      ['a.example:443'],
      ['a.example on port 443'],
      ['a.example on port 22, 443'],
    ],
    [
      'may have its ports from two grants',
      ['a.example:1,2'],
      ['a.example:1', 'a.example:2'],
      ['a.example on port 1', 'a.example on port 2'],
      [],
    ],
    ['asks for the apex of a star', ['example.com:1'], ['*.example.com:1'], [], ['example.com on port 1']],
    ['narrows a path', ['a.example:1/x/y'], ['a.example:1/x/**'], ['a.example on port 1; paths /x/y'], []],
    [
      'asks for a wider path',
      ['a.example:1/**'],
      ['a.example:1/x/*'],
      ['a.example on port 1; paths /x/*'],
      ['a.example on port 1; paths /**'],
    ],
    [
      'asks for all paths where some are granted',
      ['a.example:1'],
      ['a.example:1/x'],
      ['a.example on port 1; paths /x'],
      ['a.example on port 1'],
    ],
    [
      'asks for another method',
      [{ host: 'a.example', ports: [1], methods: ['GET', 'PUT'] }],
      [{ host: 'a.example', ports: [1], methods: ['GET'] }],
      ['a.example on port 1; methods GET'],
      ['a.example on port 1; methods GET, PUT'],
    ],
    [
      'asks for private addresses',
      [{ host: 'a.example', ports: [1], private: true }],
      ['a.example:1'],
      ['a.example on port 1'],
      ['a.example on port 1; private addresses too'],
    ],
    [
      'gives up private addresses',
      ['a.example:1'],
      [{ host: 'a.example', ports: [1], private: true }],
      ['a.example on port 1'],
      [],
    ],
    [
      'stays in a budget in silence',
      ['a.example:1'],
      [{ host: 'a.example', ports: [1], budget: { bytes: 9 } }],
      ['a.example on port 1; at most 9 bytes'],
      [],
    ],
    [
      'asks for a larger budget',
      [{ host: 'a.example', ports: [1], budget: { bytes: 10 } }],
      [{ host: 'a.example', ports: [1], budget: { bytes: 9 } }],
      ['a.example on port 1; at most 9 bytes'],
      ['a.example on port 1; at most 10 bytes'],
    ],
  ]
  for (const [name, project, user, granted, asked] of cases) {
    test(`a project ${name}`, () => assert.deepEqual(outcome(project, user), { granted, asked }))
  }

  test('a project cannot multiply a budget by splitting a grant', () => {
    const grant = parseRule({ host: '*.example.com', budget: { bytes: 9 } }, 'user')
    const { granted } = narrow(
      [parseRule('a.example.com', 'project'), parseRule('b.example.com', 'project')],
      [grant],
    )
    assert.deepEqual(
      granted.map(({ within }) => within),
      [grant, grant],
    )
  })

  test('the hash of a request depends on its content, not on order and source', () => {
    const hash = (...rules: string[]) =>
      narrow(
        rules.map((rule) => parseRule(rule, 'project')),
        [],
      ).asked?.hash
    assert.equal(hash('a.example', 'b.example'), hash('b.example', 'A.example:443,80', 'a.example'))
    assert.notEqual(hash('a.example'), hash('a.example:443'))
    assert.match(hash('a.example') ?? '', /^[0-9a-f]{64}$/)
  })

  test('NET-15 a project never gets what its user or its own file would not allow', () => {
    const random = new SeededRandom(9)
    const pick = <T>(...some: readonly [T, ...T[]]): T => some[random.below(some.length)] ?? some[0]
    const draw = () => ({
      host: pick('example.com', '*.example.com', 'a.example.com', '*.a.example.com'),
      ports: pick([1], [1, 2], [2]),
      ...pick({}, { methods: ['GET'] }, { methods: ['GET', 'PUT'] }),
      ...pick<object>({}, { paths: ['/x/**'] }, { paths: ['/*', '/x/y'] }, { paths: ['/x/*', '/x%2F*'] }),
      private: pick(true, false),
    })
    let allowed = 0
    for (let run = 0; run < 5000; run++) {
      const project = Array.from({ length: 2 }, () => parseRule(draw(), 'project'))
      const user = Array.from({ length: 2 }, () => parseRule(draw(), 'user'))
      const { granted, asked } = narrow(project, user)
      const question = {
        host: parseHostName(pick('example.com', 'a.example.com', 'b.a.example.com')),
        port: pick(1, 2),
        method: pick('GET', 'PUT'),
        path: pick('/', '/x', '/x/y', '/x/y/z', '/x%2Fy', '/x//y'),
      }
      const by = (rules: typeof granted) => decide({ mode: 'allowlist', rules, denied: [] }, question)
      const isAllowed = by(granted).allowed
      if (isAllowed) allowed++
      if (isAllowed)
        assert.ok(by(user).allowed && by(project).allowed, JSON.stringify({ project, user, question }))
      if (by(granted).allowPrivate)
        assert.ok(user.some((rule) => rule.isPrivate) && project.some((rule) => rule.isPrivate))
      // What is not asked for is granted in full.
      if (!asked) assert.equal(isAllowed, by(project).allowed, JSON.stringify({ project, user, question }))
    }
    assert.ok(allowed > 200, String(allowed))
  })
})
