import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  ALLOW_ALL,
  type PermissionDecision,
  type PermissionKind,
  type PermissionRules,
} from '../../core/permission.ts'
import {
  allowedWithoutAsking,
  narrowPermissions,
  permissionsWish,
  widerThan,
  withDefaultPermissions,
} from './permissions.ts'

type Rules = Readonly<Record<string, PermissionDecision>>

const bash = (rules: Rules): PermissionRules => withDefaultPermissions(permissionsWish({ bash: rules }))
const written = (rules: PermissionRules, kind: PermissionKind = 'bash'): Rules =>
  Object.fromEntries(rules[kind].map(({ pattern, decision }) => [pattern, decision]))

describe('what holds where nobody says anything', () => {
  test('default permissions allow everything in the sandbox and ask about the network', () => {
    assert.deepEqual(withDefaultPermissions({}), ALLOW_ALL)
    assert.deepEqual(allowedWithoutAsking(withDefaultPermissions({})), ['bash', 'write', 'mcp'])
  })

  test('default permissions stay for hosts that the user does not name', () =>
    assert.deepEqual(
      written(withDefaultPermissions(permissionsWish({ network: { 'example.com': 'allow' } })), 'network'),
      { '*': 'ask', 'example.com': 'allow' },
    ))

  test('default permissions are replaced by a single decision', () =>
    assert.deepEqual(written(withDefaultPermissions(permissionsWish({ network: 'deny' })), 'network'), {
      '*': 'deny',
    }))
})

/** What the user has, what the project wants, and what comes of it without a grant. */
const NARROWED: readonly (readonly [name: string, user: Rules, project: Rules, result: Rules])[] = [
  ['nothing said leaves what is there', { '*': 'ask' }, {}, { '*': 'ask' }],
  ['a stricter word about all', { '*': 'allow' }, { '*': 'ask' }, { '*': 'ask' }],
  ['a wider word about all is not heard', { '*': 'deny' }, { '*': 'allow' }, { '*': 'deny' }],
  [
    'a stricter word about all is about parts too',
    { '*': 'ask', 'npm test*': 'allow' },
    { '*': 'deny' },
    { '*': 'deny', 'npm test*': 'deny' },
  ],
  [
    'the longest word of the project about a part counts',
    { '*': 'allow', 'npm test*': 'allow' },
    { '*': 'deny', 'npm*': 'ask' },
    { '*': 'deny', 'npm test*': 'ask', 'npm*': 'ask' },
  ],
  [
    'a part is no wider than the whole',
    { '*': 'ask' },
    { 'npm test*': 'allow', 'git push*': 'deny' },
    { '*': 'ask', 'npm test*': 'ask', 'git push*': 'deny' },
  ],
  [
    'a part may be as wide as the user has that part',
    { '*': 'deny', 'npm*': 'allow' },
    { 'npm test*': 'ask' },
    { '*': 'deny', 'npm*': 'allow', 'npm test*': 'ask' },
  ],
  [
    'a longer word does not hide a shorter one that is stricter about some of it',
    { '*publish': 'deny' },
    { 'npm run *': 'ask' },
    { '*publish': 'deny' },
  ],
  [
    'words about different things live beside each other',
    { 'git *': 'deny' },
    { 'npm run *': 'ask' },
    { 'git *': 'deny', 'npm run *': 'ask' },
  ],
]

for (const [name, user, project, result] of NARROWED)
  test(`RUN-10 CF-02: ${name}`, () =>
    assert.deepEqual(written(narrowPermissions(bash(user), permissionsWish({ bash: project }))), result))

const GRANTED: readonly (readonly [name: string, user: Rules, project: Rules, result: Rules])[] = [
  ['an ask becomes allow', { '*': 'ask' }, { '*': 'allow' }, { '*': 'allow' }],
  ['and of a part that part', { '*': 'ask' }, { 'npm*': 'allow' }, { '*': 'ask', 'npm*': 'allow' }],
  ['a deny stays', { '*': 'deny' }, { '*': 'allow', 'npm*': 'allow' }, { '*': 'deny', 'npm*': 'deny' }],
  [
    'what the user asks about by name is asked about',
    { '*': 'ask', 'git push*': 'ask' },
    { '*': 'allow' },
    { '*': 'allow', 'git push*': 'ask' },
  ],
]

for (const [name, user, project, result] of GRANTED)
  test(`with a grant, ${name}`, () =>
    assert.deepEqual(
      written(narrowPermissions(bash(user), permissionsWish({ bash: project }), ['bash'])),
      result,
    ))

test('the first rule that is wider is named', () => {
  const rules = permissionsWish({ bash: { '*': 'ask', 'git*': 'deny' } }).bash ?? []
  const wider = (wish: Rules): string | undefined => {
    const found = widerThan(rules, permissionsWish({ bash: wish }).bash ?? [])
    return found && `${found.rule.pattern} ${found.than}`
  }
  assert.equal(wider({ '*': 'ask', 'git push': 'deny' }), undefined)
  assert.equal(wider({ 'git push': 'ask' }), 'git push deny')
  assert.equal(wider({ 'npm*': 'allow' }), 'npm* ask')
})
