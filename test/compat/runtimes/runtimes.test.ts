/** The SDK on Node, Bun and Deno: the example, as it is, over the unix socket and over TCP. */
import assert from 'node:assert/strict'
import { execFile, execFileSync } from 'node:child_process'
import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { ROOT, World } from '../../support/world.ts'

const PROGRAM = join(ROOT, 'examples', 'sdk', 'quickstart.ts')
const VERSIONS = { bun: '1', deno: '2' }
const world = new World()
let tcp: Record<string, string> = {}

before(async () => {
  await world.ok(['ls'])
  const { port } = await world.client().listen()
  const { secret } = await world.client().createKey({ name: 'runtimes' })
  tcp = { AGENTPOD_URL: `http://127.0.0.1:${port}`, AGENTPOD_API_KEY: secret }
})
after(() => world[Symbol.asyncDispose]())

/** The runtime's program from its npm package, kept outside our own dependencies; or why it cannot be had. */
function install(name: keyof typeof VERSIONS): { program: string } | { missing: string } {
  const directory = join(ROOT, '.cache', 'compat', name)
  const program = join(directory, 'node_modules', '.bin', name)
  try {
    if (!existsSync(program)) {
      mkdirSync(directory, { recursive: true })
      execFileSync('npm', ['install', '--prefix', directory, '--no-save', `${name}@${VERSIONS[name]}`], {
        stdio: 'pipe',
      })
    }
    execFileSync(program, ['--version'], { stdio: 'pipe' })
    return { program }
  } catch (error) {
    return {
      missing: `${name} cannot be had from npm here: ${String((error as Error).message).split('\n')[0]}`,
    }
  }
}

const RUNTIMES: Record<string, () => { command: string[] } | { missing: string }> = {
  node: () => ({ command: [process.execPath, PROGRAM] }),
  bun: () => {
    const found = install('bun')
    return 'program' in found ? { command: [found.program, 'run', PROGRAM] } : found
  },
  deno: () => {
    const found = install('deno')
    return 'program' in found
      ? { command: [found.program, 'run', '--allow-all', '--quiet', '--no-lock', PROGRAM] }
      : found
  },
}

for (const [name, find] of Object.entries(RUNTIMES)) {
  test(`the example runs on ${name}`, { timeout: 180_000 }, async (t) => {
    const found = find()
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
