/** What each kind of base says of itself, and how it is made ready. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { BASES, DEFAULT_ENVIRONMENT } from '../core/environment.ts'
import type { Images, Provider } from '../core/provider.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { FakeProvider } from '../testing/fake-provider.ts'
import type { Machine } from './base-kind.ts'
import { BaseRoots } from './base-roots.ts'
import { allBaseKinds, baseKind, withBaseDefaults } from './bases.ts'

const scratch = mkdtempSync(join(tmpdir(), 'agentpod-bases-'))
after(() => rmSync(scratch, { recursive: true }))

const DIGEST = `sha256:${'a'.repeat(64)}`
const MACHINE: Machine = {
  arch: 'x64',
  suite: 'bookworm',
  host: [
    { name: 'gcc', version: '12.2.0', directory: '/usr/bin' },
    { name: 'make', version: '4.3', directory: '/usr/bin' },
    { name: 'gradle', version: '0', directory: '/opt/gradle/bin' },
    { name: 'postgres', version: '15.1', directory: '/usr/lib/postgresql/15/bin' },
  ],
}

const roots = new BaseRoots({
  tmpDir: scratch,
  logFile: join(scratch, 'log'),
  isRoot: false,
  arch: 'x64',
  env: {},
  built: { get: () => undefined, set: () => undefined },
})

/** A provider that takes images, and remembers which one was requested. */
const FAKE = new FakeProvider({ clock: new FakeClock() })

function withImages(asked: string[], own: { user?: string; workdir?: string } = {}): Provider {
  const provider: Provider = new FakeProvider({ clock: new FakeClock() })
  const images: Images = {
    ensure: async (ref, onProgress) => {
      asked.push(ref)
      onProgress('pulling')
      return {
        ref,
        digest: DIGEST,
        root: { kind: 'layers', layers: ['a'.repeat(64)] },
        env: { PATH: '/usr/local/go/bin:/bin' },
        ...own,
      }
    },
  }
  return Object.assign(provider, { images })
}

describe('the kinds', () => {
  test('every base that core lists has a kind of that name', () => {
    assert.deepEqual(
      allBaseKinds().map(({ name }) => name),
      [...BASES],
    )
    for (const name of BASES) assert.equal(baseKind(name).name, name)
  })

  test('every kind of base has a label for people', () => {
    assert.deepEqual(
      [
        { base: 'host' as const },
        { base: 'debian' as const, suite: 'trixie' as const },
        { base: 'image' as const, image: 'node:22' },
      ].map((resolvedBase) => {
        const kind = baseKind(resolvedBase.base)
        return [
          kind.texts.label(resolvedBase),
          kind.texts.locationLabel(resolvedBase),
          kind.texts.detail(resolvedBase),
        ]
      }),
      [
        ['this machine', 'on this machine', undefined],
        ['Debian trixie', 'in Debian trixie', 'trixie'],
        ['the image node:22', 'in the image node:22', 'node:22'],
      ],
    )
  })

  test('only the base host trusts the certificates of the machine', () =>
    assert.deepEqual(
      allBaseKinds().map(({ system }) => system.trust),
      ['machine', 'own', 'own'],
    ))

  test('the key of a base covers everything that changes its layers', () => {
    const root = { kind: 'layers', layers: ['b'] } as const
    assert.deepEqual(
      baseKind('host').identity({ name: 'host', tools: { node: '22' } }, { kind: 'host' }, FAKE),
      {
        node: '22',
      },
    )
    assert.deepEqual(baseKind('debian').identity({ name: 'debian' }, root, FAKE), ['b'])
    assert.equal(
      baseKind('image').identity({ name: 'image', image: 'x', digest: DIGEST }, root, FAKE),
      DIGEST,
    )
    assert.deepEqual(baseKind('image').identity({ name: 'image', image: 'x' }, root, FAKE), root)
  })
})

describe('host', () => {
  const host = baseKind('host')
  const resolvedBase = { base: 'host' } as const

  test('the base host has the tools of the machine', () => {
    assert.deepEqual(host.tools.languages(resolvedBase, MACHINE, 'c'), [
      { kind: 'there', version: '12.2.0', directory: '/usr/bin', where: 'this machine' },
    ])
    assert.deepEqual(host.tools.languages(resolvedBase, MACHINE, 'node'), [])
    assert.deepEqual(host.tools.server(resolvedBase, MACHINE, 'postgres', 'postgres'), {
      version: '15.1',
      packages: [],
    })
    assert.deepEqual(
      host.tools.tool(MACHINE, 'gradle', () => true),
      { version: undefined, directory: '/opt/gradle/bin' },
    )
    assert.equal(
      host.tools.tool(MACHINE, 'make', () => false),
      undefined,
    )
  })

  test('lacks what nobody knows it to have, and installs nothing', () => {
    const wish = { packages: ['build-essential', 'libpq-dev'], tools: ['make', 'maven', 'pnpm'] }
    assert.deepEqual(host.tools.lacking(resolvedBase, MACHINE, wish), {
      packages: ['libpq-dev'],
      tools: ['maven'],
    })
    assert.equal(host.tools.packageManager, undefined)
    assert.equal(host.lockRefusal?.reason, 'lock.host')
  })
})

describe('debian', () => {
  const debian = baseKind('debian')

  test('the base debian has the packages of its release', () => {
    const languages = debian.tools.languages({ base: 'debian', suite: 'bookworm' }, MACHINE, 'python')
    assert.deepEqual(
      languages.map(({ kind, version, where }) => [kind, version, where]),
      [['packaged', '3.11', 'Debian']],
    )
    assert.equal(
      debian.tools.server({ base: 'debian', suite: 'trixie' }, MACHINE, 'postgres', 'x')?.version,
      '17',
    )
    const lacking = (suite: 'bookworm' | 'trixie'): readonly string[] =>
      debian.tools.lacking({ base: 'debian', suite }, MACHINE, { packages: ['x'], tools: ['just', 'make'] })
        .tools
    assert.deepEqual([lacking('bookworm'), lacking('trixie')], [['just'], []])
  })

  test('the base debian is refused by a provider without layers', async () => {
    const provider = new FakeProvider({ clock: new FakeClock(), layers: false })
    await assert.rejects(
      roots.ensure({ name: 'debian', suite: 'trixie' }, provider, () => undefined),
      {
        code: 'unsupported',
        reason: 'provider.layers',
      },
    )
  })
})

describe('image', () => {
  const image = baseKind('image')
  const resolvedBase = { base: 'image', image: 'node:22' } as const
  const wish = { name: 'image', image: 'node:22' } as const

  test('the tools of an image are not known', () => {
    assert.deepEqual(image.tools.languages(resolvedBase, MACHINE, 'node'), [
      { kind: 'own', version: '', where: 'the image' },
    ])
    assert.equal(image.tools.server(resolvedBase, MACHINE, 'postgres', 'postgres'), undefined)
    assert.equal(image.tools.packageManager, undefined)
    assert.deepEqual(image.tools.lacking(resolvedBase, MACHINE, { packages: ['curl'], tools: ['make'] }), {
      packages: ['curl'],
      tools: [],
    })
    assert.deepEqual(image.variants(), [], 'no plan chooses one by itself')
    assert.deepEqual(image.recipe(resolvedBase, {}), wish)
    assert.equal(image.lockRefusal?.reason, 'lock.image')
  })

  test('the provider fetches an image by its full name', async () => {
    const asked: string[] = []
    const lines: string[] = []
    const ready = await roots.ensure(wish, withImages(asked, { user: 'node', workdir: '/app' }), (line) =>
      lines.push(line),
    )
    assert.deepEqual(asked, ['docker.io/library/node:22'])
    assert.deepEqual(lines, ['pulling'])
    assert.deepEqual(ready, {
      root: { kind: 'layers', layers: ['a'.repeat(64)] },
      digest: DIGEST,
      variables: { PATH: '/usr/local/go/bin:/bin' },
      user: 'node',
      workdir: '/app',
    })
  })

  test('an image with a digest is fetched by that digest', async () => {
    const asked: string[] = []
    await roots.ensure({ ...wish, digest: DIGEST }, withImages(asked), () => undefined)
    assert.deepEqual(asked, [`docker.io/library/node:22@${DIGEST}`])
  })

  for (const [what, asked, reason] of [
    ['no image', { name: 'image' }, 'image.missing'],
    ['no reference', { name: 'image', image: 'No Image' }, 'image.reference'],
    ['a digest that is none', { name: 'image', image: 'node', digest: 'x' }, 'image.digest'],
    ['an image for another base', { name: 'host', image: 'node' }, 'environment.image'],
  ] as const)
    test(`${what} is refused before the provider is asked`, async () => {
      const fetched: string[] = []
      await assert.rejects(
        roots.ensure(asked, withImages(fetched), () => undefined),
        {
          code: 'invalid_argument',
          reason,
        },
      )
      assert.deepEqual(fetched, [])
    })

  test('an image is refused by a provider without images, with a hint to one that has them', () =>
    assert.rejects(
      roots.ensure(wish, new FakeProvider({ clock: new FakeClock() }), () => undefined),
      {
        code: 'unsupported',
        reason: 'provider.images',
        hint: /docker/,
      },
    ))

  for (const [what, own, asked, expected] of [
    ['its own', { user: 'node', workdir: '/app' }, {}, ['node', '/app']],
    ['its own, without the group', { user: 'node:staff' }, {}, ['node', '']],
    ['its number', { user: '1000' }, {}, ['1000', '']],
    ['its numbers, with the group', { user: '1000:1000' }, {}, ['1000:1000', '']],
    ['its number, without a named group', { user: '1000:staff' }, {}, ['1000', '']],
    ['root where it names nonsense', { user: '../x' }, {}, ['root', '']],
    ['root where it says nothing', {}, {}, ['root', '']],
    ['whoever was asked for', { user: 'node', workdir: '/app' }, { user: 'me', workdir: '/w' }, ['me', '/w']],
  ] as const)
    test(`its user is ${what}`, () => {
      const environment = { ...DEFAULT_ENVIRONMENT, base: 'image', image: 'node:22' } as const
      const { user, workdir } = withBaseDefaults(environment, asked, own)
      assert.deepEqual([user, workdir], expected)
    })

  test('another base has the usual one', () =>
    assert.equal(withBaseDefaults(DEFAULT_ENVIRONMENT, {}, {}).user, DEFAULT_ENVIRONMENT.user))
})
