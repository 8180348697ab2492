/** The SDK on Node, Bun and Deno: the example, as it is, over the unix socket and over TCP. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { ROOT, World } from '../../support/world.ts'
import { RUNTIMES } from './runtime.ts'

const PROGRAM = join(ROOT, 'examples', 'sdk', 'quickstart.ts')
const world = new World()
let tcp: Record<string, string> = {}

before(async () => {
  await world.ok(['ls'])
  const { port } = await world.client().listen()
  const { secret } = await world.client().createKey({ name: 'runtimes' })
  tcp = { AGENTPOD_URL: `http://127.0.0.1:${port}`, AGENTPOD_API_KEY: secret }
})
after(() => world[Symbol.asyncDispose]())

for (const [name, find] of Object.entries(RUNTIMES)) {
  test(`API-1 the example runs on ${name}`, { timeout: 180_000 }, async (t) => {
    const found = find(PROGRAM)
    if ('missing' in found) {
      t.skip(found.missing)
      return
    }
    const [program = '', ...args] = found.command
    for (const place of [{ AGENTPOD_HOME: world.home }, { AGENTPOD_HOME: '/nonexistent', ...tcp }]) {
      const { stdout } = await promisify(execFile)(program, args, {
        cwd: ROOT,
        env: { ...process.env, ...place },
      })
      assert.equal(stdout, 'the answer is 42\nwritten from outside\ngot a line\n')
    }
  })
}
