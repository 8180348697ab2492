import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { RecipeBase, Step } from '../core/recipe.ts'
import type { Layer } from '../engine/snapshots/snapshot-registry.ts'
import { explainMiss } from './cache-miss.ts'

const STEP: Step = {
  name: 'one',
  title: 'One',
  run: 'make',
  user: 'root',
  workdir: '/',
  path: [],
  variables: { A: '1' },
  network: [],
  timeoutMs: 1000,
}
const BASE: RecipeBase = { name: 'host', tools: { node: '22' } }

function layer(o: Partial<Layer['layer']> = {}, createdAt = 1): Layer {
  const info = {
    key: 'k',
    parent: undefined,
    base: BASE,
    step: STEP,
    project: 'shop',
    owners: [],
    usedAt: 0,
    ...o,
  }
  return { layer: info, createdAt } as unknown as Layer
}

type Change = Partial<Step> & {
  readonly base?: RecipeBase
  readonly parent?: string
  readonly project?: string
}

function why(
  { base = BASE, parent, project = 'shop', ...step }: Change,
  layers: readonly Layer[] = [layer()],
): string {
  return explainMiss(layers, { base, parent, project, step: { ...STEP, ...step } })
}

const ROWS: readonly (readonly [Change, string])[] = [
  [{}, 'its layer was removed'],
  [{ name: 'two' }, 'it was never built'],
  [{ project: 'other' }, 'it was never built'],
  [{ parent: 'p' }, 'a step before it changed'],
  [{ run: 'make all' }, 'changed: its command'],
  [{ path: ['/x'] }, 'changed: its PATH'],
  [{ variables: {} }, 'changed: variable A'],
  [{ variables: { A: '1', constructor: 'x' } }, 'changed: variable constructor'],
  [{ network: [{ host: 'a.example.com', source: 'create' }] }, 'changed: its network rules'],
  [{ user: 'user' }, 'changed: its user or directory'],
  [{ workdir: '/x' }, 'changed: its user or directory'],
  [{ files: { digest: 'd', to: '/w', entries: { a: '1', b: '2' } } }, 'changed: a, b'],
  [
    {
      files: {
        digest: 'd',
        to: '/w',
        entries: Object.fromEntries([...'abcdefgh'].map((name) => [name, '1'])),
      },
    },
    'changed: a, b, c, d, e and 3 more',
  ],
  [{ files: { digest: 'd', to: '/w', entries: {} } }, 'changed: its files'],
  [{ run: 'x', parent: 'p' }, 'changed: its command'],
  [{ base: { name: 'debian' } }, 'the base changed: host is now debian'],
  [{ base: { name: 'host', tools: { node: '24', gcc: '12' } } }, 'the base changed: gcc, node'],
  [{ base: { tools: { node: '22' }, name: 'host' } }, 'its layer was removed'],
]

describe('why a step is built', () => {
  for (const [change, said] of ROWS) test(said, () => assert.equal(why(change), said))

  test('the release of Debian', () => {
    const on = (suite: string): RecipeBase => ({ name: 'debian', suite })
    assert.equal(
      why({ base: on('trixie') }, [layer({ base: on('bookworm') })]),
      'the base changed: bookworm is now trixie',
    )
  })

  test('the image', () => {
    const on = (image: string, digest?: string): RecipeBase => ({ name: 'image', image, digest })
    const before = [layer({ base: on('node:22', 'sha256:a') })]
    assert.equal(
      why({ base: on('node:24', 'sha256:b') }, before),
      'the base changed: node:22@sha256:a is now node:24@sha256:b',
    )
    assert.equal(
      why({ base: on('node:22', 'sha256:b') }, before),
      'the base changed: node:22@sha256:a is now node:22@sha256:b',
    )
    assert.equal(
      why({ base: on('own@sha256:b', 'sha256:b') }, [layer({ base: on('own@sha256:a', 'sha256:a') })]),
      'the base changed: own@sha256:a is now own@sha256:b',
    )
  })

  test('files of which it is not known what they were, or that go elsewhere', () => {
    const files = (digest: string, to: string, entries: Record<string, string>): Partial<Step> => ({
      files: { digest, to, entries },
    })
    const before = (o: Partial<Step>): Layer[] => [layer({ step: { ...STEP, ...o } })]
    const now = files('new', '/w', { a: '1', b: '2' })
    assert.equal(why(now, before(files('old', '/w', {}))), 'changed: its files')
    assert.equal(why(now, before(files('old', '/w', { a: '1', b: '2' }))), 'changed: its files')
    assert.equal(why(now, before(files('old', '/w', { a: '1', b: '1' }))), 'changed: b')
    assert.equal(why(now, before(files('new', '/x', {}))), 'changed: where its files go')
  })

  test('a cache miss is explained by comparing with the newest layer', () => {
    const layers = [layer({ step: { ...STEP, run: 'old' } }, 1), layer({ step: { ...STEP, run: 'x' } }, 2)]
    assert.equal(why({ run: 'old', variables: {} }, layers), 'changed: its command, variable A')
  })
})
