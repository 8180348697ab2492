// `agentpod devcontainer read` with a real server, a stored image and a registry.

import assert from 'node:assert/strict'
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { putFeature } from '../support/made-feature.ts'
import { makeImage } from '../support/made-image.ts'
import { ToyRegistry } from '../support/toy-registry.ts'
import { World } from '../support/world.ts'

describe('agentpod devcontainer read', () => {
  const world = new World()
  let registry: ToyRegistry

  before(async () => {
    registry = await ToyRegistry.start()
    writeFileSync(join(world.home, 'config.toml'), `[registries."${registry.host}"]\ninsecure = true\n`)
  })
  after(async () => {
    await world[Symbol.asyncDispose]()
    await registry?.[Symbol.asyncDispose]()
  })

  function project(files: Readonly<Record<string, string | object>>): string {
    const directory = world.directory()
    for (const [path, content] of Object.entries(files)) {
      mkdirSync(dirname(join(directory, path)), { recursive: true })
      writeFileSync(join(directory, path), typeof content === 'string' ? content : JSON.stringify(content))
    }
    return directory
  }

  const FILE = '.devcontainer/devcontainer.json'

  test('DC-10 without --merged, a file is read without a server', async () => {
    const cwd = project({ [FILE]: '{\n  "image": "none.example/x:1",\n  "privileged": true\n}\n' })
    const json = JSON.parse(await world.ok(['devcontainer', 'read', '--json'], { cwd })) as Printed
    assert.equal(json.configuration['image'], 'none.example/x:1')
    assert.equal(json.mergedConfiguration, undefined)
    assert.ok(!existsSync(world.socket))
    const text = await world.ok(['devcontainer', 'read'], { cwd })
    assert.match(text, /^ {2}privileged +refused +.* \.devcontainer\/devcontainer\.json:3$/m)
  })

  test('DC-10 --merged has the label of a stored image, and Features of a registry and a folder', async () => {
    const metadata = [{ remoteUser: 'labelled', postCreateCommand: 'first' }]
    const labels = { 'devcontainer.metadata': JSON.stringify(metadata) }
    const ref = registry.put('team/dev', '1', makeImage({ layers: [[]], config: { Labels: labels } }))
    const feature = { id: 'tool', metadata: { postCreateCommand: 'second', capAdd: ['SYS_PTRACE'] } }
    const digest = putFeature(registry, 'team/features', feature)
    const cwd = project({
      [FILE]: {
        build: { dockerfile: 'Dockerfile' },
        features: { [`${registry.host}/team/features/tool:1`]: {}, './local': {} },
        postCreateCommand: 'last',
      },
      '.devcontainer/Dockerfile': `FROM ${ref} AS dev\n`,
      '.devcontainer/local/devcontainer-feature.json': { id: 'local', version: '1.0.0', init: true },
      '.devcontainer/local/install.sh': 'exit 0\n',
    })
    const read = ['devcontainer', 'read', '--merged']
    const missing = await world.cli(read, { cwd })
    assert.equal(missing.code, 6)
    assert.match(missing.stderr, new RegExp(`agentpod image pull ${ref}`))
    await world.ok(['image', 'pull', ref])
    const { mergedConfiguration: merged } = JSON.parse(
      await world.ok([...read, '--json'], { cwd }),
    ) as Printed
    assert.deepEqual(merged?.['postCreateCommands'], ['first', 'second', 'last'])
    assert.equal(merged?.['remoteUser'], 'labelled')
    assert.equal(merged?.['init'], true)
    const text = await world.ok(read, { cwd })
    assert.match(
      text,
      new RegExp(`1\\. \\./local .*\\n +2\\. ${registry.host}/team/features/tool:1 +${digest}`),
    )
    assert.match(text, /capAdd\.0 +refused +.*team\/features\/tool:1$/m)
  })

  test('DC-1 a choice is needed between several files, and is honoured', async () => {
    const cwd = project({
      [FILE]: { image: 'a:1' },
      '.devcontainer/python/devcontainer.json': { image: 'b:1' },
    })
    const several = await world.cli(['devcontainer', 'read'], { cwd })
    assert.equal(several.code, 2)
    assert.match(several.stderr, /2 devcontainer\.json files: .*\n.*--devcontainer python/)
    const chosen = await world.ok(['devcontainer', 'read', '--json', '--devcontainer', 'python'], { cwd })
    assert.equal((JSON.parse(chosen) as Printed).configuration['image'], 'b:1')
  })

  test('DC-5 SECURITY: a link to a file outside the project is not read', async () => {
    const cwd = project({ 'README.md': 'x' })
    const secret = join(world.directory(), 'secret.json')
    writeFileSync(secret, '{"image": "secret:1"}')
    mkdirSync(join(cwd, '.devcontainer'))
    symlinkSync(secret, join(cwd, FILE))
    const linked = await world.cli(['devcontainer', 'read'], { cwd })
    assert.notEqual(linked.code, 0)
    assert.doesNotMatch(linked.stdout + linked.stderr, /secret:1/)
    // The same bytes in a file of the project are read.
    const own = project({ [FILE]: '{"image": "secret:1"}' })
    assert.match(await world.ok(['devcontainer', 'read'], { cwd: own }), /secret:1/)
  })
})

interface Printed {
  readonly configuration: Readonly<Record<string, unknown>>
  readonly mergedConfiguration?: Readonly<Record<string, unknown>>
}
