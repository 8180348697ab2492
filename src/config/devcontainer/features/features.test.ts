import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, test } from 'node:test'
import { parseDevcontainer } from '../devcontainer-file.ts'
import { resolveFeatures } from './feature-graph.ts'
import { featureLockText, parseFeatureLock, withLockedDependencies } from './feature-lock.ts'
import { checkFeatureOptions, featureOptionValues, featureVariables } from './feature-options.ts'
import { featureResource, parseFeatureReference } from './feature-reference.ts'
import type { FeatureResolver } from './feature-resolver.ts'

const FILE = '.devcontainer/devcontainer.json'
const DIGEST = `sha256:${'a'.repeat(64)}`
const OTHER = `sha256:${'b'.repeat(64)}`

function digestOf(id: string): string {
  return `sha256:${createHash('sha256').update(id).digest('hex')}`
}

/** A registry whose Features are the metadata given, by id. */
function resolverOf(
  features: Readonly<Record<string, object>>,
  digest = DIGEST,
): FeatureResolver & { readonly fetched: string[] } {
  const fetched: string[] = []
  const metadata = (id: string): string => JSON.stringify({ id, version: '1.0.0', name: id, ...features[id] })
  return {
    fetched,
    async artifact({ id, written }) {
      fetched.push(written)
      return { digest: digestOf(id), metadata: metadata(id) }
    },
    tarball: async ({ id }) => ({ digest, metadata: metadata(id) }),
    folder: async ({ id }) => (Object.hasOwn(features, id) ? metadata(id) : undefined),
  }
}

async function orderOf(
  features: Readonly<Record<string, object>>,
  asked: Readonly<Record<string, object | string>>,
  overrideFeatureInstallOrder?: readonly string[],
): Promise<string[]> {
  const request = { file: FILE, features: asked as Record<string, string>, overrideFeatureInstallOrder }
  return (await resolveFeatures(request, resolverOf(features))).map(({ reference }) => reference.written)
}

test('DC-45 the lockfile names the Features that named ones depend on, at every depth and once', () => {
  const entry = (...dependsOn: string[]) => ({
    resolved: '',
    integrity: `sha256:${'0'.repeat(64)}`,
    dependsOn,
  })
  const lock = { features: { a: entry('b'), b: entry('c', 'a'), other: entry('d') } }
  assert.deepEqual(withLockedDependencies(['a'], lock), ['a', 'b', 'c'])
  assert.deepEqual(withLockedDependencies(['a', 'constructor'], undefined), ['a', 'constructor'])
})

describe('references of Features', () => {
  test('a registry, a tarball and a folder', () => {
    assert.deepEqual(parseFeatureReference('ghcr.io/Owner/Repo/Node:1.2', FILE), {
      kind: 'registry',
      written: 'ghcr.io/Owner/Repo/Node:1.2',
      registry: 'ghcr.io',
      namespace: 'owner/repo',
      id: 'node',
      tag: '1.2',
    })
    const pinned = parseFeatureReference(`localhost:5000/a/b@${DIGEST}`, FILE)
    assert.equal(featureResource(pinned), 'localhost:5000/a/b')
    assert.equal(pinned.kind === 'registry' && pinned.digest, DIGEST)
    assert.equal(parseFeatureReference('https://x.example/devcontainer-feature-go.tgz', FILE).id, 'go')
    const folder = parseFeatureReference('./local/feature', FILE)
    assert.equal(folder.kind === 'folder' && folder.path, '.devcontainer/local/feature')
    assert.equal(featureResource(parseFeatureReference('golang', FILE)), 'ghcr.io/devcontainers/features/go')
  })

  test('DC-8: what is none of them, or is outside the project, is refused', () => {
    for (const [written, message] of [
      ['unknown-name', /has no registry/],
      ['/etc/feature', /is an absolute path/],
      ['../outside', /is not inside \.devcontainer/],
      ['./../../etc', /is not inside \.devcontainer/],
      ['https://u:p@x.example/devcontainer-feature-go.tgz', /is not an address/],
      ['https://x.example/go.tgz', /does not end with/],
      ['ghcr.io/a/b@sha256:1', /has a digest/],
      ['ghcr.io/a/b:-x', /has a version/],
      ['ghcr.io/a/../b', /is not a reference/],
      ['-option/a/b', /is not a reference/],
      ['ghcr.io/\u001b[2J/b', /^the Feature "ghcr\.io\/\?\[2J\/b" is not a reference$/],
    ] as const)
      assert.throws(() => parseFeatureReference(written, FILE), { code: 'invalid_argument', message })
  })
})

describe('Features', () => {
  test('DC-8: a cycle is one error that names it', async () => {
    const features = {
      a: { dependsOn: { 'r.example/f/b': {} } },
      b: { installsAfter: ['r.example/f/c'] },
      c: { dependsOn: { 'r.example/f/a': {} } },
    }
    await assert.rejects(orderOf(features, { 'r.example/f/a': {}, 'r.example/f/c': {} }), {
      code: 'invalid_argument',
      message: `${FILE}: Features wait for each other: r.example/f/a -> r.example/f/b -> r.example/f/c -> r.example/f/a`,
    })
    // Without the soft dependency the same Features have an order.
    assert.deepEqual(await orderOf({ ...features, b: {} }, { 'r.example/f/a': {}, 'r.example/f/c': {} }), [
      'r.example/f/b',
      'r.example/f/a',
      'r.example/f/c',
    ])
  })

  test('DC-8: errors have the line of the Feature in the file', async () => {
    const text = '{"image": "a",\n "features": {\n  "./gone": {},\n  "nothing": {}}}'
    const { at } = parseDevcontainer({ file: FILE, text })
    const asked = (features: Record<string, object>): Promise<unknown> =>
      resolveFeatures({ file: FILE, features: features as Record<string, never>, at }, resolverOf({}))
    await assert.rejects(asked({ './gone': {} }), { message: /^\.devcontainer\/devcontainer\.json:3:13: / })
    await assert.rejects(asked({ nothing: {} }), {
      message: /json:4:14: the Feature "nothing" has no registry/,
    })
  })

  test('DC-8: a Feature that depends on itself with other options ends', async () => {
    const features = { a: { dependsOn: { 'r.example/f/a': { depth: 'x' } } } }
    await assert.rejects(orderOf(features, { 'r.example/f/a': {} }), { message: /wait for each other/ })
  })

  test('DC-8: dependencies without end are refused at a limit', async () => {
    const endless: FeatureResolver = {
      artifact: async ({ id }) => ({
        digest: digestOf(id),
        metadata: JSON.stringify({ id, dependsOn: { [`r.example/f/${id}x`]: {} } }),
      }),
      tarball: async () => assert.fail(),
      folder: async () => undefined,
    }
    await assert.rejects(resolveFeatures({ file: FILE, features: { 'r.example/f/a': {} } }, endless), {
      message: `${FILE} needs more than 100 Features`,
    })
  })

  test('each reference is fetched once', async () => {
    const resolver = resolverOf({
      a: { dependsOn: { 'r.example/f/c': {} } },
      b: { dependsOn: { 'r.example/f/c': {} } },
    })
    const found = await resolveFeatures(
      { file: FILE, features: { 'r.example/f/a': {}, 'r.example/f/b': {} } },
      resolver,
    )
    assert.deepEqual(
      found.map(({ reference, isRequested }) => [reference.id, isRequested]),
      [
        ['c', false],
        ['a', true],
        ['b', true],
      ],
    )
    assert.deepEqual(resolver.fetched, ['r.example/f/a', 'r.example/f/b', 'r.example/f/c'])
  })

  test('Features that became options of others are moved there', async () => {
    const found = await resolveFeatures(
      { file: FILE, features: { maven: 'latest', java: '21' } },
      resolverOf({}),
    )
    assert.deepEqual(
      found.map(({ reference, options }) => [featureResource(reference), options]),
      [['ghcr.io/devcontainers/features/java', { version: '21', installMaven: true }]],
    )
  })

  test('a folder without metadata, and metadata of a wrong kind, are named', async () => {
    await assert.rejects(orderOf({}, { './gone': {} }), {
      message:
        '.devcontainer/devcontainer.json: the Feature "./gone" has no file .devcontainer/gone/devcontainer-feature.json',
    })
    await assert.rejects(orderOf({ bad: { installsAfter: 'x' } }, { './bad': {} }), {
      message:
        '.devcontainer/bad/devcontainer-feature.json:1:60: installsAfter: must be an array, not a string',
    })
  })

  test('DC-7: a lockfile pins digests, and another digest is an error', async () => {
    const written = 'https://x.example/devcontainer-feature-go.tgz'
    const lock = parseFeatureLock({
      file: 'devcontainer-lock.json',
      text: JSON.stringify({
        features: { [written]: { version: '1', resolved: written, integrity: DIGEST } },
      }),
    })
    const request = { file: FILE, features: { [written]: {} }, lock }
    const found = await resolveFeatures(request, resolverOf({}))
    assert.equal(
      featureLockText(found),
      `{\n  "features": {\n    "${written}": {\n      "version": "1.0.0",\n      "resolved": "${written}",\n      "integrity": "${DIGEST}"\n    }\n  }\n}\n`,
    )
    await assert.rejects(resolveFeatures(request, resolverOf({}, OTHER)), { reason: 'devcontainer.lock' })
    assert.equal(parseFeatureLock({ file: 'l', text: ' \n' }), undefined)
    assert.throws(
      () => parseFeatureLock({ file: 'l', text: '{"features":{"a":{"resolved":"","integrity":"x"}}}' }),
      {
        message: /^l:1:45: features\.a\.integrity: must be sha256/,
      },
    )
    assert.equal(featureLockText([]), '{\n  "features": {}\n}\n')
  })

  test('options become variables, with defaults and the short form', () => {
    const options = {
      version: { type: 'string', default: 'latest' },
      'install-tools': { type: 'boolean', default: true },
      '2nd_name': { type: 'string', enum: ['a', 'b'] },
    } as const
    const metadata = { id: 'x', options: structuredClone(options) as never }
    assert.deepEqual(featureVariables(featureOptionValues(metadata, '3.12')), {
      VERSION: '3.12',
      INSTALL_TOOLS: 'true',
    })
    const said = featureOptionValues(metadata, { '2nd_name': 'c', extra: false })
    assert.deepEqual(featureVariables(said), {
      VERSION: 'latest',
      INSTALL_TOOLS: 'true',
      _ND_NAME: 'c',
      EXTRA: 'false',
    })
    assert.throws(() => checkFeatureOptions(metadata, said), { hint: 'it is one of "a", "b"' })
    checkFeatureOptions(metadata, { '2nd_name': 'a' })
  })
})
