/** The code of the guide about environments in code, and its example, on a server that did not exist. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { AgentPod } from '../../src/client/client.ts'
import { EnvironmentBuilder } from '../../src/client/environment-builder.ts'
import { sharedBootstrap } from '../support/shared-bootstrap.ts'
import { ROOT, World } from '../support/world.ts'

const execute = promisify(execFile)
const CLIENT = join(ROOT, 'src', 'exports', 'client.ts')

let world: World
let pod: AgentPod
before(
  async () => {
    world = new World({ env: sharedBootstrap() })
    await world.ok(['ls'], { timeoutMs: 60_000 })
    pod = AgentPod.at({ socket: join(world.home, 'run', 'api.sock') })
    await pod.prepare('debian', () => undefined, { kit: 'development' })
  },
  { timeout: 600_000 },
)
after(async () => {
  pod?.close()
  await world?.[Symbol.asyncDispose]()
})

async function program(code: string): Promise<string> {
  const directory = world.directory()
  const file = join(directory, 'program.ts')
  writeFileSync(file, code.replace("'agentpod'", JSON.stringify(CLIENT)))
  const { stdout } = await execute(process.execPath, ['--disable-warning=ExperimentalWarning', file], {
    cwd: directory,
    env: { ...process.env, AGENTPOD_HOME: world.home },
    timeout: 120_000,
  })
  return stdout
}

describe('environments in code', () => {
  test('ENV-14 the guide works as written, and its second build is cached', {
    timeout: 240_000,
  }, async () => {
    const guide = readFileSync(join(ROOT, 'docs', 'guides', 'environments-in-code.md'), 'utf8')
    const code = [...guide.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, block = '']) => block).join('\n')
    const said = await program(code)
    assert.match(said, /the server says: hello from user/)
    assert.match(said, /^\[1\/6\] apt: jq: cached$/m)
    assert.match(said, /^jq-/m)
  })

  test('ENV-14 the example works as written', { timeout: 120_000 }, async () => {
    assert.match(
      await program(readFileSync(join(ROOT, 'examples', 'sdk', 'environment.ts'), 'utf8')),
      /daisy/,
    )
  })

  test('ENV-14 a step of an environment in code reaches no host that it does not name', async () => {
    const environment = EnvironmentBuilder.debian().run('curl -sS https://example.com')
    await assert.rejects(environment.build(pod), { reason: 'build.step_failed' })
  })

  test('ENV-14 a copy refuses links that lead out, and missing files', async () => {
    const directory = join(world.directory(), 'files')
    mkdirSync(directory)
    symlinkSync('../../secret', join(directory, 'out'))
    const copy = (from: string): Promise<unknown> => EnvironmentBuilder.debian().copy(from, '/x').build(pod)
    await assert.rejects(copy(directory), { reason: 'copy.link' })
    await assert.rejects(copy(join(directory, 'none')), { reason: 'copy.missing' })
  })

  test('ENV-14 a start command that fails fails the sandbox with its output', {
    timeout: 60_000,
  }, async () => {
    const environment = EnvironmentBuilder.debian().start('echo no such thing; exit 3', { ready: 8000 })
    await assert.rejects(pod.create({ environment: await environment.build(pod) }), (error: Error) => {
      assert.match(error.message, /it ended with code 3/)
      return /no such thing/.test(error.message)
    })
  })

  test('the names of packages are not options', () => {
    for (const name of ['--index-url=http://evil', '-r', ''])
      assert.throws(() => EnvironmentBuilder.debian().pip(name), { reason: 'environment.packages' })
    assert.throws(() => EnvironmentBuilder.debian().apt(), { reason: 'environment.packages' })
  })
})
