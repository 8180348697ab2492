import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parseInput } from '../../schema/parse.ts'
import { BASE } from './sandbox-from.ts'
import { startBuild } from './schema.ts'
import { imageOrigin, type TranslateParts, translate } from './translate-steps.ts'

const RULES = [{ host: 'packages.example.com', source: 'preset pip' as const }]
const PARTS: TranslateParts = {
  origin: BASE,
  archiveOf: (hash) => (hash === 'a'.repeat(64) ? 'b'.repeat(64) : undefined),
  access: [{ rules: RULES, variables: { PIP_INDEX_URL: 'https://packages.example.com/' }, files: [] }],
  cap: undefined,
  readyMs: 1000,
  earlier: [],
  again: () => 'a word',
}
const from = (body: unknown, parts: Partial<TranslateParts> = {}): ReturnType<typeof translate> =>
  translate(parseInput(startBuild, body), { ...PARTS, ...parts })

describe('E2B’s steps', () => {
  test('settings apply to the steps after them, and to sandboxes', () => {
    const { made } = from({
      steps: [
        { type: 'RUN', args: ['true'] },
        { type: 'ENV', args: ['A', '1', 'B', ''] },
        { type: 'WORKDIR', args: ['/srv/app'] },
        { type: 'USER', args: ['root'] },
        { type: 'RUN', args: ['make', 'user'] },
      ],
    })
    const [first, directory, last] = made.recipe.steps
    assert.deepEqual([first?.user, first?.workdir, first?.variables['A']], ['user', '/home/user', undefined])
    assert.match(directory?.run ?? '', /mkdir -p \/srv\/app && chown user:/)
    assert.deepEqual([last?.user, last?.workdir, last?.variables['A']], ['user', '/srv/app', '1'])
    assert.deepEqual(made.environment, { variables: { A: '1', B: '' }, user: 'root', workdir: '/srv/app' })
  })

  test('files are copied to paths of the working directory, for the user', () => {
    const { made } = from({
      steps: [{ type: 'COPY', args: ['src', 'app/', '', '755'], filesHash: 'a'.repeat(64) }],
    })
    const [step] = made.recipe.steps
    assert.equal(step?.files?.digest, 'b'.repeat(64))
    assert.match(step?.run ?? '', /target=\/home\/user\/app\//)
    assert.match(step?.run ?? '', /chmod -R 755 \./)
  })

  test('a build reaches what its key may reach', () => {
    const network = (cap: TranslateParts['cap']): unknown => {
      const [step] = from({ steps: [{ type: 'RUN', args: ['true'] }] }, { cap }).made.recipe.steps
      return [step?.anyHost ?? false, step?.network.map(({ host }) => host)]
    }
    assert.deepEqual(network(undefined), [true, ['packages.example.com']])
    assert.deepEqual(network({ mode: 'open' }), [true, ['packages.example.com']])
    assert.deepEqual(network({ mode: 'allowlist' }), [false, ['packages.example.com']])
    assert.deepEqual(network({ mode: 'off' }), [false, []])
    const rules = [{ host: 'one.example.com', source: 'user' as const }]
    assert.deepEqual(network({ mode: 'allowlist', rules }), [false, ['one.example.com']])
  })

  test('a start command becomes a service with its ready command and its time', () => {
    const { made } = from({ startCmd: 'serve', readyCmd: 'curl localhost' })
    const [service] = made.environment.services ?? []
    assert.match(service?.run ?? '', /bash -l -c serve/)
    assert.equal(service?.ready.timeoutMs, 1000)
    const above = from({}, { origin: made }).made
    assert.deepEqual(above.environment.services, made.environment.services)
  })

  test('a template on another one has its steps below', () => {
    const origin = imageOrigin({ name: 'image', image: 'debian:12' })
    const { made } = from({ steps: [{ type: 'RUN', args: ['true'] }] }, { origin })
    assert.deepEqual(
      made.recipe.steps.map(({ name }) => name),
      ['below-1', 'e2b-1'],
    )
  })

  test('a step that is built again has another command, which later builds keep', () => {
    const steps = (force: boolean): object[] => [
      { type: 'RUN', args: ['one'] },
      { type: 'RUN', args: ['two'], force },
      { type: 'RUN', args: ['three'] },
    ]
    const runs = ({ made }: ReturnType<typeof from>): string[] => made.recipe.steps.map(({ run }) => run)
    const first = from({ steps: steps(false) })
    const forced = from({ steps: steps(true) }, { earlier: first.made.recipe.steps })
    const [same, changed] = [0, 1].map((at) => runs(first)[at] === runs(forced)[at])
    assert.deepEqual([same, changed], [true, false])
    const later = from({ steps: steps(false) }, { earlier: forced.made.recipe.steps })
    assert.deepEqual(runs(later), runs(forced))
    const whole = from({ steps: steps(false), force: true }, { earlier: forced.made.recipe.steps })
    assert.notEqual(runs(whole)[0], runs(forced)[0])
    const other = from({ steps: [{ type: 'RUN', args: ['two'] }] }, { earlier: forced.made.recipe.steps })
    assert.equal(runs(other)[0]?.includes('built again'), false)
  })

  test('the files of a copy get the group that is named', () => {
    const files = { type: 'COPY', filesHash: 'a'.repeat(64) }
    const run = (owner: string): string =>
      from({ steps: [{ ...files, args: ['a', 'b', owner] }] }).made.recipe.steps[0]?.run ?? ''
    assert.match(run('app:staff'), /chown -R app:staff \./)
    assert.match(run('app'), /chown -R app: \./)
    assert.throws(() => run('-R'), { code: 'invalid_argument' })
  })

  for (const [what, step] of [
    ['no command', { type: 'RUN', args: [] }],
    ['a user that is an option', { type: 'USER', args: ['-x'] }],
    ['a malformed variable', { type: 'ENV', args: ['A B', '1'] }],
    ['a name without a value', { type: 'ENV', args: ['A'] }],
    ['files that were not uploaded', { type: 'COPY', args: ['a', 'b'], filesHash: 'c'.repeat(64) }],
    ['a mode that is no number', { type: 'COPY', args: ['a', 'b', '', '7;id'], filesHash: 'a'.repeat(64) }],
    ['an unknown type', { type: 'ADD', args: ['a', 'b'] }],
  ] as const)
    test(`a step with ${what} is refused`, () =>
      assert.throws(() => from({ steps: [step] }), { code: 'invalid_argument' }))
})
