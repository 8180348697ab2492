/** Plans on a container image, which is used as it is. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { isAgentPodError } from '../../core/error.ts'
import { evidence, finding, type Given, machine, plan, presets, tool } from '../testing/plan-parts.ts'
import { explainPlan } from './explain.ts'
import { initText } from './init.ts'
import { lockText, wishesHash } from './lock.ts'
import { recipeOf } from './recipe/recipe.ts'

const SHOP: Given = {
  machine: machine('node 22.1.0', 'postgres 15.1'),
  detected: {
    files: ['package.json'],
    findings: [
      finding('node', {
        versions: ['>=99 [manifest] package.json'],
        tools: [tool('pnpm', '9'), tool('maven')],
        inputs: ['package.json'],
        commands: { setup: { run: 'pnpm install', evidence: evidence('package.json') } },
        packages: [{ name: 'libpq-dev', evidence: evidence('package.json') }],
        presets: ['npm'],
      }),
    ],
    services: [{ name: 'postgres', version: undefined, evidence: evidence('compose.yaml') }],
  },
}

describe('a plan on an image', () => {
  test('a plan on an image installs no Debian packages, languages or tools', async () => {
    const made = await plan({ ...SHOP, image: 'node:22' })
    assert.deepEqual(made.resolvedBase, { base: 'image', image: 'node:22' })
    assert.deepEqual(
      made.languages.map(({ language, source }) => [language, source.kind]),
      [['node', 'own']],
    )
    assert.deepEqual(
      made.tools.map(({ name, from }) => [name, from]),
      [
        ['pnpm', 'base'],
        ['maven', 'base'],
      ],
    )
    assert.deepEqual(made.services, [])
    assert.ok(!made.presets.some(({ name }) => name === 'apt'))
    const { base, steps } = recipeOf(made, presets())
    assert.deepEqual(base, { name: 'image', image: 'node:22' })
    assert.deepEqual(
      steps.map(({ name, user }) => [name, user]),
      [['dependencies/node', 'root']],
    )
    assert.equal(made.workspace, '/root/shop')
  })

  test('the explanation of a plan on an image says that the tools are the image’s own, and what is missing', async () => {
    const made = await plan({ ...SHOP, image: 'node:22' })
    const said = new Map(explainPlan(made).map(({ key, value }) => [key, value]))
    assert.equal(said.get('base'), 'image (node:22)')
    assert.equal(said.get('languages.node'), "the image's own")
    assert.equal(said.get('tools.pnpm'), "the image node:22's own")
    assert.equal(
      said.get('packages.libpq-dev'),
      'not installed: list it in [environment.packages] apt, if the image has apt',
    )
    assert.ok(
      made.notes.some((note) =>
        note.startsWith(
          'may be missing in the image node:22, where nothing can be installed: the package libpq-dev',
        ),
      ),
    )
    assert.ok(
      made.notes.some((note) => /postgres is not available.*nothing is installed into an image/.test(note)),
    )
    assert.ok(!made.notes.some((note) => note.includes('is taken')))
  })

  for (const [what, given, expected] of [
    ['the option', { image: 'node:22' }, ['image', 'node:22', 'flag', '--image node:22']],
    [
      'the file',
      { toml: '[environment]\nimage = "node:22"' },
      ['image', 'node:22', 'agentpod.toml', 'image = "node:22"'],
    ],
    [
      'the option before the file’s image',
      { image: 'node:24', toml: '[environment]\nimage = "node:22"' },
      ['image', 'node:24', 'flag', '--image node:24'],
    ],
    [
      'the option before the file’s base',
      { image: 'node:24', toml: '[environment]\nbase = "debian"' },
      ['image', 'node:24', 'flag', '--image node:24'],
    ],
    [
      'the file before the lock',
      { toml: '[environment]\nimage = "node:22"', locked: { name: 'debian', suite: 'trixie' } },
      ['image', 'node:22', 'agentpod.toml', 'image = "node:22"'],
    ],
    [
      'another base before the file’s image',
      { base: 'host', toml: '[environment]\nimage = "node:22"' },
      ['host', undefined, 'flag', '--base host'],
    ],
    [
      'the base image with the file’s',
      { base: 'image', toml: '[environment]\nimage = "node:22"' },
      ['image', 'node:22', 'agentpod.toml', 'image = "node:22"'],
    ],
  ] as const)
    test(`an image is chosen by ${what}`, async () => {
      const { resolvedBase, base } = await plan(given)
      assert.deepEqual([resolvedBase.base, resolvedBase.image, base.rank, base.evidence.said], expected)
    })

  test('a plan on an image runs as root unless a user is named, and sets no PATH', async () => {
    assert.equal((await plan({ image: 'node:22' })).user, 'root')
    const { user, workspace } = await plan({ toml: '[environment]\nimage = "node:22"\nuser = "node"' })
    assert.deepEqual([user, workspace], ['node', '/home/node/shop'])
    assert.deepEqual(recipeOf(await plan({ image: 'node:22' }), presets()).steps, [])
  })

  test('packages of languages are installed by the image’s own programs', async () => {
    const made = await plan({
      toml: '[environment]\nimage = "node:22"\n[environment.packages]\nnpm = ["pnpm@9"]',
    })
    assert.deepEqual(
      recipeOf(made, presets()).steps.map(({ name }) => name),
      ['packages/npm'],
    )
  })

  test('packages that agentpod.toml names are installed with the image’s own apt, and no others', async () => {
    const toml = '[environment]\nimage = "debian:12"\n[environment.packages]\napt = ["jq", "graphviz"]'
    const made = await plan({ ...SHOP, toml })
    const [step] = recipeOf(made, presets()).steps
    assert.equal(step?.name, 'system')
    assert.match(step?.run ?? '', /^apt-get -q install .* -- graphviz jq$/m)
    assert.match(step?.run ?? '', /the image has no apt-get/)
    assert.ok(made.presets.some(({ name }) => name === 'apt'))
    const said = new Map(explainPlan(made).map(({ key, value }) => [key, value]))
    assert.equal(said.get('packages.jq'), 'from the image’s own apt')
    assert.match(said.get('packages.libpq-dev') ?? '', /^not installed/)
  })

  test('a plan on a Dockerfile is one on its image, which is named by the project', async () => {
    const toml = `[environment.dockerfile]
file = "docker/app"
context = "docker"
target = "dev"
build_args = { NODE = "22" }`
    const made = await plan({ ...SHOP, toml, dockerfileImage: 'dockerfile.invalid/shop' })
    assert.equal(made.resolvedBase.image, 'dockerfile.invalid/shop')
    assert.deepEqual(made.resolvedBase.dockerfile, {
      file: 'docker/app',
      context: 'docker',
      target: 'dev',
      args: { NODE: '22' },
      images: [],
    })
    assert.deepEqual(recipeOf(made, presets()).base, { name: 'image', image: 'dockerfile.invalid/shop' })
    const [base] = explainPlan(made)
    assert.equal(base?.value, 'image (docker/app, stage dev, context docker, NODE=22)')
    assert.equal(base?.from.said, 'dockerfile = "docker/app"')
    assert.ok(made.notes.some((note) => note.startsWith('may be missing in the image of docker/app')))
    assert.throws(
      () => lockText(made, { digest: '', apt: {}, npm: {}, pip: {} }),
      (error) => isAgentPodError(error, 'failed_precondition') && /FROM name@sha256/.test(error.hint ?? ''),
    )
    // Options go before the file.
    for (const given of [{ image: 'node:24' }, { base: 'host' }])
      assert.equal((await plan({ toml, ...given })).resolvedBase.dockerfile, undefined)
  })

  test('a plan on an image refuses services of Debian, and a base without an image', async () => {
    const refused = (reason: string) => (error: unknown) => isAgentPodError(error) && error.reason === reason
    await assert.rejects(
      plan({ toml: '[environment]\nimage = "node:22"\n[services]\nredis = {}' }),
      refused('service.unavailable'),
    )
    await assert.rejects(plan({ base: 'image' }), refused('image.missing'))
    await assert.rejects(plan({ image: 'no image' }), refused('image.reference'))
  })

  test('an image is not locked, and another image changes the hash of the request', async () => {
    const made = await plan({ image: 'node:22' })
    const found = { digest: 'a'.repeat(64), apt: {}, npm: {}, pip: {} }
    assert.throws(
      () => lockText(made, found),
      (error) => isAgentPodError(error, 'failed_precondition') && error.reason === 'lock.image',
    )
    assert.notEqual(wishesHash(made), wishesHash(await plan({ image: 'node:24' })))
  })

  test('init writes the image, and the file can be read again', async () => {
    const text = initText('shop', await plan({ ...SHOP, image: 'node:22' }))
    assert.match(text, /^image = "node:22"/m)
    assert.doesNotMatch(text, /^base|apt = |environment.languages/m)
    assert.deepEqual((await plan({ toml: text })).resolvedBase, { base: 'image', image: 'node:22' })
  })
})
