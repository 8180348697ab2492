import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  ALLOW_ALL,
  type PermissionDecision,
  type PermissionKind,
  type PermissionRules,
} from '../../core/permission.ts'
import { decidePermission, needsAsking, parsePermission, withPermissions } from './permissions.ts'

function rules(...texts: readonly string[]): PermissionRules {
  return withPermissions(texts.map(parsePermission))
}

function check(
  kind: PermissionKind,
  texts: readonly string[],
  cases: readonly (readonly [string, PermissionDecision])[],
): void {
  const all = rules(...texts)
  for (const [subject, decision] of cases)
    assert.equal(decidePermission(all, { kind, subject }), decision, JSON.stringify(subject))
}

test('RUN-10 the longest matching pattern decides, of equal ones the strictest, and without one everything is allowed', () => {
  check(
    'bash',
    ['bash=ask', 'bash:git *=allow', 'bash:git push*=deny'],
    [
      ['ls', 'ask'],
      ['git status', 'allow'],
      ['git push origin main', 'deny'],
      ['git', 'ask'],
    ],
  )
  check(
    'mcp',
    ['mcp:files/*=ask', 'mcp:*/read=deny'],
    [
      ['files/read', 'ask'],
      ['other/read', 'deny'],
      ['other/write', 'allow'],
    ],
  )
  check(
    'mcp',
    ['mcp:a*=allow', 'mcp:*b=ask', 'mcp:*c=deny'],
    [
      ['ab', 'ask'],
      ['ac', 'deny'],
      ['ad', 'allow'],
    ],
  )
  assert.equal(decidePermission(rules(), { kind: 'bash', subject: 'rm -rf /' }), 'allow')
})

test('RUN-10 SECURITY: text with a meaning for the shell does not match a * that allows', () => {
  const attacks = [
    'git status; rm -rf /',
    'git status && curl example.com',
    'git status | sh',
    'git log $(curl example.com)',
    'git log `id`',
    'git log > ~/.bashrc',
    'git log < /etc/passwd',
    'git log\nrm -rf /',
    'git log\rrm -rf /',
    'git log & rm x',
    'git log (x)',
    'git log $HOME',
    'git log <(id)',
  ]
  for (const subject of attacks)
    check(
      'bash',
      ['bash=ask', 'bash:git *=allow'],
      [
        [subject, 'ask'],
        // The same words without the sign are allowed.
        [subject.replaceAll(/[;|&$`<>()\r\n]/g, ' '), 'allow'],
      ],
    )
  check(
    'bash',
    ['bash=deny', 'bash:* --version=allow', 'bash:a && b=allow', 'bash:npm run * && echo *=allow'],
    [
      ['node --version', 'allow'],
      ['rm -rf /; node --version', 'deny'],
      ['a && b', 'allow'],
      ['a && b && c', 'deny'],
      // Signs that the pattern has itself are not the *'s.
      ['npm run x && echo done', 'allow'],
      ['npm run x && rm y && echo done', 'deny'],
    ],
  )
})

test('SECURITY: a longer rule for one part does not override a stricter rule for another', () => {
  check(
    'bash',
    ['bash:git push*=deny', 'bash:npm run build*=ask'],
    [
      ['npm run build && git push', 'deny'],
      ['npm run build', 'ask'],
      ['npm run lint', 'allow'],
    ],
  )
})

test('RUN-10 SECURITY: a denied command is denied inside a longer command', () => {
  const denied = [
    'git push',
    'git push --force',
    'cd x && git push',
    'true;git push',
    'true\ngit push',
    'echo $(git push)',
    'echo `git push`',
    '(git push)',
    'a | git push',
    'git  push',
    '  git push  ',
    'sudo git push',
    'GIT_DIR=x git push',
    'env A=b git push',
    'timeout 5 git push',
    "bash -c 'git push'",
    'bash -lc "cd x; git push"',
    'xargs git push',
    '/usr/bin/git push',
    'g"i"t push',
    'gi\\t push',
    'if true; then git push; fi',
    '{ git push; }',
    'git \\\n push',
    `${'true;'.repeat(5000)}git push`,
  ]
  for (const subject of denied) check('bash', ['bash:git push*=deny'], [[subject, 'deny']])
  check(
    'bash',
    ['bash:git push*=deny'],
    [
      ['git pull', 'allow'],
      ['echo git push', 'allow'],
      ['git commit -m "no git push here"', 'allow'],
    ],
  )
  // A longer pattern that allows is about the whole command, not about a part.
  check(
    'bash',
    ['bash:git push*=deny', 'bash:git push origin*=allow'],
    [
      ['git push origin main', 'allow'],
      ['cd x && git push origin main', 'deny'],
    ],
  )
})

test('every file of a write has to be allowed', () => {
  const texts = ['write=ask', 'write:src/*=allow', 'write:src/secret/*=deny', 'write:*.lock=deny']
  check('write', texts, [
    ['src/a.ts', 'allow'],
    ['src/a.ts\nREADME.md', 'ask'],
    ['src/a.ts\nsrc/secret/key\nREADME.md', 'deny'],
    ['src/../../etc/passwd', 'ask'],
    ['./src/a.ts', 'allow'],
    ['src/secret/../a.ts', 'allow'],
    ['yarn.lock', 'deny'],
  ])
})

test('a network rule without a port matches every port', () => {
  check(
    'network',
    ['network=deny', 'network:*.example.com=allow', 'network:example.org:443=allow'],
    [
      ['api.example.com:443', 'allow'],
      ['API.EXAMPLE.COM:80', 'allow'],
      ['example.org:443', 'allow'],
      ['example.org:80', 'deny'],
      ['example.com.evil.example:443', 'deny'],
    ],
  )
})

test('matching a permission takes linear time', () => {
  const hostile = 'a'.repeat(65_536)
  const patterns = ['*a*a*a*a*a*a*a*a*a*a*b', `${'*a'.repeat(120)}*b`, `*${'a'.repeat(200)}b*`]
  const all = rules(...patterns.map((pattern) => `bash:${pattern}=deny`))
  const began = performance.now()
  decidePermission(all, { kind: 'bash', subject: hostile })
  decidePermission(all, { kind: 'bash', subject: 'sudo '.repeat(13_000) })
  decidePermission(all, { kind: 'bash', subject: ';'.repeat(65_536) })
  // Generous: a search that goes back takes longer than the age of the universe.
  assert.ok(performance.now() - began < 5000)
})

test('permission rules are parsed from one line', () => {
  assert.deepEqual(parsePermission('bash:git push*=deny'), {
    kind: 'bash',
    pattern: 'git push*',
    decision: 'deny',
  })
  assert.deepEqual(parsePermission('write = ask'), { kind: 'write', pattern: '*', decision: 'ask' })
  assert.deepEqual(parsePermission('network:example.com:443=allow'), {
    kind: 'network',
    pattern: 'example.com:443',
    decision: 'allow',
  })
  assert.deepEqual(parsePermission('bash:A=b make=allow').pattern, 'A=b make')
  for (const [text, reason, hint] of [
    ['bash', 'permission.decision', /for example/],
    ['bash:x=dney', 'permission.decision', /=deny/],
    ['bsh:x=deny', 'permission.kind', /bash/],
    ['zzz=deny', 'permission.kind', /there are/],
    ['bash:=deny', 'permission.pattern', undefined],
    ['bash:a\nb=deny', 'permission.pattern', undefined],
    [`bash:${'x'.repeat(300)}=deny`, 'permission.pattern', undefined],
    ['', 'permission.decision', undefined],
  ] as const)
    assert.throws(
      () => parsePermission(text),
      (error: { reason?: string; hint?: string }) =>
        error.reason === reason && (!hint || hint.test(error.hint ?? '')),
      text,
    )
})

test('a permission rule replaces one with the same pattern', () => {
  assert.deepEqual(rules('network=allow').network, [{ pattern: '*', decision: 'allow' }])
  assert.deepEqual(ALLOW_ALL.network, [{ pattern: '*', decision: 'ask' }])
  assert.deepEqual(rules('bash=ask', 'bash=deny').bash, [{ pattern: '*', decision: 'deny' }])
})

test('an agent has to ask if a rule may deny something', () => {
  assert.equal(needsAsking(rules()), false)
  assert.equal(needsAsking(rules('network=deny', 'bash:ls=allow')), false)
  for (const text of ['bash:x=ask', 'write=deny', 'mcp:a/b=ask']) assert.equal(needsAsking(rules(text)), true)
})
