// Third-party programs on top of E2B's SDKs, from their registries, in their basic flow. No model is asked:
// the test calls them as an agent would call its tools.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { makeImage } from '../support/made-image.ts'
import { noRegistry, RealRegistry } from '../support/real-registry.ts'
import { sharedBootstrap } from '../support/shared-bootstrap.ts'
import { busyboxFiles, NO_BUSYBOX } from '../support/tiny-images.ts'
import { ROOT, World } from '../support/world.ts'

const execute = promisify(execFile)
const CACHE = join(ROOT, '.cache', 'compat')
const PROGRAMS = join(import.meta.dirname, 'e2b-sdks')
const INSTALL_MS = 300_000
const FLOW_MS = 120_000

let world: World
let env: NodeJS.ProcessEnv
let registry: RealRegistry | undefined
/** An image in a registry; empty where the machine cannot run one. */
let image = ''
before(
  async () => {
    world = new World({ env: sharedBootstrap() })
    if (!NO_BUSYBOX && !noRegistry()) {
      registry = await RealRegistry.start()
      const settings = `[registries."${registry.host}"]\nca = ${JSON.stringify(registry.caFile)}\n`
      await writeFile(join(world.home, 'config.toml'), settings)
      const config = { Env: ['PATH=/bin'] }
      image = await registry.put('public/tools', '1', makeImage({ layers: [busyboxFiles()], config }))
    }
    const json = await world.ok(['e2b', 'env', '--json'], { timeoutMs: 600_000 })
    env = { ...process.env, ...(JSON.parse(json) as Record<string, string>), HOME: world.directory() }
  },
  { timeout: 660_000 },
)
after(async () => {
  await world?.[Symbol.asyncDispose]()
  await registry?.[Symbol.asyncDispose]()
})

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
  timeout = FLOW_MS,
): Promise<string> {
  const running = execute(program, args, { env: { ...env, ...more }, timeout, cwd: world.home })
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

/** Runs a program of ours with these packages from PyPI. */
async function python(program: string, name: string, packages: readonly string[]): Promise<string> {
  const directory = join(CACHE, name)
  if (!existsSync(join(directory, 'done'))) {
    const options = ['--quiet', '--disable-pip-version-check', '--target', directory]
    await execute('python3', ['-m', 'pip', 'install', ...options, ...packages], { timeout: INSTALL_MS })
    await writeFile(join(directory, 'done'), '')
  }
  return run('python3', [join(PROGRAMS, program)], { PYTHONPATH: directory, PYTHONDONTWRITEBYTECODE: '1' })
}

test('LangChain works: commands, files, edits, searches, uploads', async () => {
  assert.match(
    await python('langchain_suite.py', 'langchain-e2b', ['langchain-e2b==0.0.6']),
    /langchain: done/,
  )
})

test('Mastra works: its own template, commands, variables, files', async () => {
  const directory = await npm('mastra-e2b', ['@mastra/e2b', '@mastra/core'])
  assert.match(await run(process.execPath, [join(PROGRAMS, 'mastra.mjs'), directory]), /mastra: done/)
})

test('API-7 the Python SDK builds a template, and a sandbox runs it', async () => {
  const said = await python('templates_suite.py', 'python-e2b-templates', ['e2b==2.63.0'])
  assert.match(said, /templates: done/)
})

test('API-7 the JavaScript SDK builds templates: files, users, rebuilds, boots, Dockerfiles, images, MCP', {
  timeout: 400_000,
}, async () => {
  const directory = await npm('e2b-interpreter', ['@e2b/code-interpreter@2.8.0'])
  const said = await run(
    process.execPath,
    [join(PROGRAMS, 'templates.mjs'), directory],
    { IMAGE: image },
    360_000,
  )
  assert.match(said, /templates: done/)
})

test('API-8 the code interpreter is built on demand', { timeout: 900_000 }, async () => {
  for (;;) {
    const headers = { 'x-api-key': env['E2B_API_KEY'] ?? '', 'content-type': 'application/json' }
    const answer = await fetch(`${env['E2B_API_URL']}/v2/sandboxes`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ templateID: 'code-interpreter-v1', timeout: 10 }),
    })
    const body = (await answer.json()) as { message?: string }
    if (answer.status === 201) return
    assert.equal(answer.status, 503, body.message)
    assert.match(body.message ?? '', /is being built/)
    await new Promise((resolve) => setTimeout(resolve, 2000))
  }
})

test('API-8 @e2b/code-interpreter works over every kernel', async () => {
  const directory = await npm('e2b-interpreter', ['@e2b/code-interpreter@2.8.0'])
  const said = await run(process.execPath, [join(PROGRAMS, 'interpreter.mjs'), directory])
  assert.match(said, /interpreter: done/)
})

test('API-8 the code interpreter’s Python SDK works over every kernel', async () => {
  const said = await python('interpreter_suite.py', 'python-interpreter', ['e2b-code-interpreter==2.11.5'])
  assert.match(said, /interpreter: done/)
})

test('API-8 the code interpreter survives cells and clients that misbehave', {
  timeout: 400_000,
}, async () => {
  const said = await run(process.execPath, [join(PROGRAMS, 'interpreter_hostile.mjs')], {}, 360_000)
  assert.match(said, /hostile: done/)
})

test('API-8 a template on the code interpreter adds R', { timeout: 900_000 }, async () => {
  const directory = await npm('e2b-interpreter', ['@e2b/code-interpreter@2.8.0'])
  const said = await run(process.execPath, [join(PROGRAMS, 'kernels.mjs'), directory], {}, 840_000)
  assert.match(said, /kernels: done/)
})

test('smolagents works: variables, tools, state, output, errors', async () => {
  const said = await python('smolagents_suite.py', 'smolagents-e2b', ['smolagents[e2b]'])
  assert.match(said, /smolagents: done/)
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

test('API-7 E2B’s command line builds a template from a Dockerfile, lists and deletes it', async () => {
  const directory = await npm('e2b-cli', ['@e2b/cli@2.19.0'])
  const context = world.directory()
  await writeFile(join(context, 'note.txt'), 'from the context\n')
  await writeFile(
    join(context, 'e2b.Dockerfile'),
    'FROM e2bdev/base\nENV SHADE=green\nWORKDIR /srv/app\nCOPY note.txt ./\nRUN echo "made with $SHADE" > made.txt\n',
  )
  const e2b = (...words: string[]): Promise<string> =>
    run(process.execPath, [join(directory, 'node_modules', '.bin', 'e2b'), ...words])
  const start = ['-c', 'python3 -m http.server 8200', '--ready-cmd', 'curl -sf localhost:8200']
  await e2b('template', 'create', 'cli-template', '--path', context, ...start)
  assert.match(await e2b('template', 'list'), /cli-template/)
  const id = /[a-z0-9]{16}/.exec(await e2b('sandbox', 'create', '--detach', 'cli-template'))?.[0] ?? ''
  assert.match(await e2b('sandbox', 'exec', id, 'cat', '/srv/app/made.txt'), /made with green/)
  assert.match(await e2b('sandbox', 'exec', id, 'curl', '-s', 'localhost:8200/note.txt'), /from the context/)
  await e2b('sandbox', 'kill', id)
  await e2b('template', 'delete', '--yes', 'cli-template')
  assert.doesNotMatch(await e2b('template', 'list'), /cli-template/)
})
