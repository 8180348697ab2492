import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { CreateOptions } from '../../client/sandbox.ts'
import { isAgentPodError } from '../../core/error.ts'
import { bareOptions, usualUser } from '../../workbench/environment/sandbox-request.ts'
import { PROCESS_OPTIONS, SANDBOX_OPTIONS, sandboxRequest } from './options.ts'
import { type Parsed, parseArgs } from './parse.ts'

function createOptions(parsed: Parsed, variables: Record<string, string>): CreateOptions {
  return bareOptions(sandboxRequest(parsed, variables))
}

function parse(...argv: readonly string[]): Parsed {
  return parseArgs(argv, {
    usage: '',
    options: { ...SANDBOX_OPTIONS, ...PROCESS_OPTIONS },
    words: { min: 0, max: 0 },
  })
}

test('nothing said asks for nothing', () => {
  const options = JSON.parse(JSON.stringify(createOptions(parse(), {})))
  assert.deepEqual(options, { labels: {}, environment: { variables: {} }, resources: {}, lifetime: {} })
})

test('every option lands in its place', () => {
  const parsed = parse(
    ...'--name box --base debian --memory 2g --cpus 0.5 --pids 64 --timeout 15m --idle 30s --sudo'.split(' '),
    ...'--label a=b --label c=d --user me -w /w'.split(' '),
    ...'--disk 10g --bandwidth 1.5m --when-over pause --to-disk-after 1h --no-auto-resume --from golden'.split(
      ' ',
    ),
  )
  assert.deepEqual(createOptions(parsed, { A: '1' }), {
    name: 'box',
    labels: { a: 'b', c: 'd' },
    environment: { base: 'debian', variables: { A: '1' }, user: 'me', workdir: '/w', sudo: true },
    resources: { memoryMib: 2048, cpus: 0.5, pids: 64, diskMib: 10_240, bandwidthBytes: 1_572_864 },
    lifetime: {
      ttlMs: 900_000,
      idleMs: 30_000,
      whenOver: 'pause',
      toDiskAfterMs: 3_600_000,
      autoResume: false,
    },
    snapshot: 'golden',
  })
})

test('an image is a base', () => {
  const { environment } = createOptions(parse('--image', 'node:22'), {})
  assert.deepEqual(
    [environment?.base, environment?.image, environment?.user],
    ['image', 'node:22', undefined],
  )
  assert.equal(createOptions(parse('--base', 'image', '--image', 'node'), {}).environment?.base, 'image')
  assert.equal(usualUser(sandboxRequest(parse('--image', 'node'))), 'root')
  assert.equal(usualUser(sandboxRequest(parse('--image', 'node', '--user', 'node'))), 'node')
  assert.equal(usualUser(sandboxRequest(parse())), 'user')
})

for (const [words, reason] of [
  ['--image debian:12 --base debian', 'option.image'],
  ['--base image', 'image.missing'],
  ['--image Debian', 'image.reference'],
] as const)
  test(`${words} is refused`, () => {
    assert.throws(
      () => createOptions(parse(...words.split(' ')), {}),
      (error) => isAgentPodError(error, 'invalid_argument') && error.reason === reason,
    )
  })

for (const [option, given, near] of [
  ['--base', 'debain', 'debian'],
  ['--when-over', 'puase', 'pause'],
] as const) {
  test(`${option} that is nearly right is asked about`, () => {
    assert.throws(
      () => createOptions(parse(option, given), {}),
      (error) => isAgentPodError(error, 'invalid_argument') && error.hint === `did you mean ${near}?`,
    )
  })
}
