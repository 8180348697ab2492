/** A Docker engine inside a sandbox: its containers, their networks, and the rules of the sandbox. */
import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { NO_ENGINE_INSIDE } from '../support/docker-inside.ts'
import { testEngineInside } from '../support/docker-inside-cases.ts'
import { makeImage } from '../support/made-image.ts'
import { USER_FILES } from '../support/qemu.ts'
import { busyboxFiles, NO_BUSYBOX } from '../support/tiny-images.ts'
import { ToyRegistry } from '../support/toy-registry.ts'
import { World } from '../support/world.ts'

testEngineInside({
  where: 'on gVisor, of the machine’s programs',
  skip: NO_ENGINE_INSIDE,
  savesMemory: false,
  connections: 200,
  open: async (internet) => ({
    world: internet.world(),
    options: ['--docker', '--isolation', 'gvisor'],
  }),
})

describe('a Docker engine that cannot run', { skip: NO_ENGINE_INSIDE || NO_BUSYBOX }, () => {
  const world = new World()
  let registry: ToyRegistry
  let image = ''

  before(async () => {
    registry = await ToyRegistry.start()
    const config = { Env: ['PATH=/bin'], User: 'user' }
    image = registry.put('team/box', '1', makeImage({ layers: [busyboxFiles(), USER_FILES], config }))
    writeFileSync(join(world.home, 'config.toml'), `[registries."${registry.host}"]\ninsecure = true\n`)
  })
  after(async () => {
    await registry?.[Symbol.asyncDispose]()
    await world[Symbol.asyncDispose]()
  })

  test('DOCKER-5 an engine is refused where the kernel is shared, with the level to ask for', async () => {
    const hint =
      /cannot run a Docker engine\nhint: use the level `gvisor` or `vm`: `--isolation gvisor`, or `isolation = "gvisor"` in agentpod\.toml/
    for (const level of [[], ['--isolation', 'container']]) {
      const { stderr, code } = await world.cli(['create', '--docker', ...level])
      assert.equal(code, 6)
      assert.match(stderr, hint)
    }
    const cwd = join(world.home, 'project')
    mkdirSync(cwd)
    writeFileSync(join(cwd, 'agentpod.toml'), 'docker = true\n')
    const { stderr, code } = await world.cli(['run', '--', 'docker', 'version'], { cwd })
    assert.equal(code, 125)
    assert.match(stderr, hint)
    // The control: with the line that the hint names, the same command has an engine.
    writeFileSync(join(cwd, 'agentpod.toml'), 'docker = true\nisolation = "gvisor"\n')
    assert.match(await world.ok(['run', '--', 'docker', 'version'], { cwd }), /^Server/m)
  })

  test('DOCKER-6 a limit on memory that is too low for an engine is refused, before anything is made', async () => {
    const { stderr, code } = await world.cli([
      ...['create', '--docker', '--isolation', 'gvisor', '--memory', '64m'],
    ])
    assert.equal(code, 2)
    assert.match(stderr, /needs at least 256 MiB of memory, and the limit is 64 MiB\nhint: raise `--memory`/)
    // The control: the least that is accepted is enough for an engine and a container.
    const least = ['--docker', '--isolation', 'gvisor', '--memory', '256m', '--name', 'least']
    await world.ok(['create', ...least])
    const run = 'cd /bin && tar -c busybox | docker import - tools && docker run --rm tools /busybox echo ran'
    assert.match(await world.ok(['exec', 'least', '--', 'sh', '-c', run]), /^ran$/m)
    await world.ok(['destroy', 'least'])
  })

  test('DOCKER-6 an environment without an engine is refused, with the packages to add', async () => {
    const options = ['--isolation', 'gvisor', '--image', image]
    const { stderr, code } = await world.cli(['create', '--docker', ...options])
    assert.equal(code, 6)
    assert.match(stderr, /not installed in this environment: docker dockerd containerd iptables-legacy\n/)
    assert.match(
      stderr,
      /hint: install the packages docker\.io and iptables: with `apt = \["docker\.io", "iptables"\]`/,
    )
    assert.equal(await world.ok(['ls', '--json']), '[]\n')
    // The control: without an engine, the same image runs.
    await world.ok(['create', ...options, '--name', 'plain'])
    await world.ok(['destroy', 'plain'])
  })
})
