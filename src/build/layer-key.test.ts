import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { RootRef } from '../core/provider.ts'
import type { Recipe, RecipeBase, Step } from '../core/recipe.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { FakeProvider } from '../testing/fake-provider.ts'
import { baseKey, layerKeys } from './layer-key.ts'

const HOST: RootRef = { kind: 'host' }
const STEP: Step = {
  name: 'one',
  title: 'One',
  run: 'make',
  user: 'root',
  workdir: '/',
  path: ['/a', '/b'],
  variables: { A: '1', B: '2' },
  files: { digest: 'd'.repeat(64), to: '/shop', entries: { x: '1' } },
  network: [{ host: 'a.example.com', source: 'create' }],
  timeoutMs: 1000,
}
const OTHER: Step = { ...STEP, name: 'two', run: 'make two' }
const BASE: RecipeBase = { name: 'host', tools: { node: '22', gcc: '12' } }

const PROVIDER = new FakeProvider({ clock: new FakeClock() })

interface Given {
  readonly base?: RecipeBase
  readonly root?: RootRef
  readonly arch?: string
  readonly steps?: readonly Step[]
}

/** What the last layer is known by. */
function key({ base = BASE, root = HOST, arch = 'x64', steps = [STEP] }: Given = {}): string {
  const recipe: Recipe = { base, steps }
  return layerKeys(recipe, baseKey(base, PROVIDER, root, arch)).at(-1) ?? ''
}

const change = (o: Partial<Step>): Given => ({ steps: [{ ...STEP, ...o }] })
const layers = (...digests: string[]): RootRef => ({ kind: 'layers', layers: digests })
const DEBIAN: RecipeBase = { name: 'debian', suite: 'trixie' }

const IMAGE: RecipeBase = { name: 'image', image: 'node:22' }

const ROWS: readonly (readonly [string, Given, Given, isOther: boolean])[] = [
  ['nothing', {}, {}, false],
  ['its name', {}, change({ name: 'other' }), false],
  ['its title', {}, change({ title: 'Other' }), false],
  ['how long it may take', {}, change({ timeoutMs: 2000 }), false],
  [
    'what the client says is in the files',
    {},
    change({ files: { digest: 'd'.repeat(64), to: '/shop', entries: {} } }),
    false,
  ],
  ['the order of variables', {}, change({ variables: { B: '2', A: '1' } }), false],
  ['the order of tools', {}, { base: { name: 'host', tools: { gcc: '12', node: '22' } } }, false],
  [
    'a rule with nothing where nothing was',
    {},
    change({ network: [{ source: 'create', host: 'a.example.com', methods: undefined }] }),
    false,
  ],
  ['the command', {}, change({ run: 'make ' }), true],
  ['the user', {}, change({ user: 'user' }), true],
  ['the directory', {}, change({ workdir: '/srv' }), true],
  ['the PATH', {}, change({ path: ['/a'] }), true],
  ['the order of the PATH', {}, change({ path: ['/b', '/a'] }), true],
  ['a variable', {}, change({ variables: { A: '1', B: '3' } }), true],
  ['a variable more', {}, change({ variables: { A: '1', B: '2', C: '' } }), true],
  ['the files', {}, change({ files: { digest: 'e'.repeat(64), to: '/shop', entries: { x: '1' } } }), true],
  [
    'where the files go',
    {},
    change({ files: { digest: 'd'.repeat(64), to: '/other', entries: { x: '1' } } }),
    true,
  ],
  ['no files', {}, change({ files: undefined }), true],
  ['its network rules', {}, change({ network: [{ host: 'b.example.com', source: 'create' }] }), true],
  ['that it may reach less', {}, change({ network: [] }), true],
  [
    'that it may reach a private network',
    {},
    change({ network: [{ host: 'a.example.com', private: true, source: 'create' }] }),
    true,
  ],
  ['a step before it', {}, { steps: [OTHER, STEP] }, true],
  ['the order of steps', { steps: [OTHER, STEP] }, { steps: [STEP, OTHER] }, true],
  ['a tool of the machine', {}, { base: { name: 'host', tools: { node: '24', gcc: '12' } } }, true],
  ['the architecture', {}, { arch: 'arm64' }, true],
  ['the base', {}, { base: DEBIAN, root: layers('a') }, true],
  ['the files of Debian', { base: DEBIAN, root: layers('a') }, { base: DEBIAN, root: layers('b') }, true],
  [
    'the name of the release, of the same files',
    { base: DEBIAN, root: layers('a') },
    { base: { name: 'debian' }, root: layers('a') },
    false,
  ],
  [
    'the digest of an image',
    { base: { ...IMAGE, digest: 'sha256:a' }, root: layers('a') },
    { base: { ...IMAGE, digest: 'sha256:b' }, root: layers('a') },
    true,
  ],
  [
    'the name of an image, of the same digest',
    { base: { ...IMAGE, digest: 'sha256:a' }, root: layers('a') },
    { base: { name: 'image', image: 'node', digest: 'sha256:a' }, root: layers('a') },
    false,
  ],
  [
    'what a provider has for an image',
    { base: IMAGE, root: layers('a') },
    { base: IMAGE, root: layers('b') },
    true,
  ],
  // Parts must not run into one another.
  ['where one variable ends', {}, change({ variables: { A: '1","B":"2' } }), true],
  ['where one directory ends', {}, change({ path: ['/a","/b'] }), true],
]

describe('what a layer is known by', () => {
  for (const [what, one, other, isOther] of ROWS)
    test(`ENV-5 ${what} ${isOther ? 'gives another layer key' : 'leaves the layer key as it is'}`, () =>
      assert.equal(key(one) !== key(other), isOther))

  test('ENV-5 a layer key is a digest, and one for each step', () => {
    const keys = layerKeys({ base: BASE, steps: [STEP, OTHER] }, baseKey(BASE, PROVIDER, HOST, 'x64'))
    assert.equal(new Set(keys).size, 2)
    for (const one of keys) assert.match(one, /^[0-9a-f]{64}$/)
  })

  test('ENV-5 a variable of any name is part of the layer key', () => {
    const variables = JSON.parse('{"__proto__":"1"}') as Record<string, string>
    assert.notEqual(key(change({ variables })), key(change({ variables: {} })))
  })
})
