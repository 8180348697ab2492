// Third-party programs on top of E2B's SDKs, from their registries, in their basic flow. No model is asked:
// the test calls them as an agent would call its tools.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { sharedBootstrap } from '../support/shared-bootstrap.ts'
import { ROOT, World } from '../support/world.ts'

const execute = promisify(execFile)
const CACHE = join(ROOT, '.cache', 'compat')
const PROGRAMS = join(import.meta.dirname, 'e2b-sdks')
const INSTALL_MS = 300_000
const FLOW_MS = 120_000

let world: World
let env: NodeJS.ProcessEnv
before(
  async () => {
    world = new World({ env: sharedBootstrap() })
    const json = await world.ok(['e2b', 'env', '--json'], { timeoutMs: 600_000 })
    env = { ...process.env, ...(JSON.parse(json) as Record<string, string>), HOME: world.directory() }
  },
  { timeout: 660_000 },
)
after(async () => world?.[Symbol.asyncDispose]())

/** A directory whose node_modules has these packages. */
async function npm(name: string, packages: readonly string[]): Promise<string> {
  const directory = join(CACHE, name)
  if (existsSync(join(directory, 'done'))) return directory
  await mkdir(directory, { recursive: true })
  await writeFile(join(directory, 'package.json'), '{"private":true}')
  const options = ['--no-audit', '--no-fund', '--ignore-scripts', '--prefix', directory]
  await execute('npm', ['install', ...options, ...packages], { timeout: INSTALL_MS, cwd: directory })
  await writeFile(join(directory, 'done'), '')
  return directory
}

async function run(
  program: string,
  args: readonly string[],
  more: Record<string, string> = {},
): Promise<string> {
  const running = execute(program, args, { env: { ...env, ...more }, timeout: FLOW_MS, cwd: world.home })
  // E2B's command line passes its input on, to the end.
  running.child.stdin?.end()
  return (await running).stdout
}

test('the OpenAI Agents SDK works: manifest, commands, files, ports, persistence, resume', async () => {
  const packages = ['@openai/agents@0.18.0', '@openai/agents-extensions@0.18.0', 'e2b@2.51.0', 'zod@4.6.7']
  const directory = await npm('openai-agents', packages)
  assert.match(await run(process.execPath, [join(PROGRAMS, 'agents.mjs'), directory]), /agents: done/)
})

test('computesdk works: commands, files, addresses, lists', async () => {
  const directory = await npm('computesdk', ['computesdk@4.1.4', '@computesdk/e2b@1.7.52'])
  assert.match(await run(process.execPath, [join(PROGRAMS, 'compute.mjs'), directory]), /compute: done/)
})

test('LangChain works: commands, files, edits, searches, uploads', async () => {
  const directory = join(CACHE, 'langchain-e2b')
  if (!existsSync(join(directory, 'langchain_e2b'))) {
    const options = ['--quiet', '--disable-pip-version-check', '--target', directory]
    await execute('python3', ['-m', 'pip', 'install', ...options, 'langchain-e2b==0.0.6'], {
      timeout: INSTALL_MS,
    })
  }
  const said = await run('python3', [join(PROGRAMS, 'langchain_suite.py')], {
    PYTHONPATH: directory,
    PYTHONDONTWRITEBYTECODE: '1',
  })
  assert.match(said, /langchain: done/)
})

test('E2B’s command line works: create, list, exec, pause, resume, info, kill', async () => {
  const directory = await npm('e2b-cli', ['@e2b/cli@2.19.0'])
  const e2b = (...words: string[]): Promise<string> =>
    run(process.execPath, [join(directory, 'node_modules', '.bin', 'e2b'), 'sandbox', ...words])
  const id = /[a-z0-9]{16}/.exec(await e2b('create', '--detach', 'base'))?.[0] ?? ''
  const listed = async (): Promise<string[]> =>
    (JSON.parse(await e2b('list', '--format', 'json')) as { sandboxId: string }[]).map((one) => one.sandboxId)
  assert.ok((await listed()).includes(id), id)
  assert.equal((await e2b('exec', id, 'echo', 'hello')).trim(), 'hello')
  await e2b('pause', id)
  await e2b('resume', id)
  assert.match(await e2b('info', id), new RegExp(id))
  await e2b('kill', id)
  assert.ok(!(await listed()).includes(id))
})
