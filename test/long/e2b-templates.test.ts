// Templates through the official JavaScript SDK: built, run, rebooted, tagged, and refused.

import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { bundledPrograms } from '../../src/main/bundled-programs.ts'
import { type RunningServer, startServer } from '../../src/main/server.ts'
import { type E2bSandbox, installJavascript, NEWEST } from '../compat/e2b/sdk.ts'
import { sharedBootstrap } from '../support/shared-bootstrap.ts'
import { World } from '../support/world.ts'

const READY_MS = 4000

interface Build {
  readonly templateId: string
  readonly buildId: string
}
interface Sdk {
  readonly Template: ((options: object) => Steps) & {
    build(template: Steps, name: string, options: object): Promise<Build>
    buildInBackground(template: Steps, name: string, options: object): Promise<Build>
    getBuildStatus(build: Build, options: object): Promise<{ status: string; reason?: { message: string } }>
    exists(name: string, options: object): Promise<boolean>
    assignTags(name: string, tags: string[], options: object): Promise<unknown>
    getTags(id: string, options: object): Promise<readonly { tag: string }[]>
  }
  readonly Sandbox: { create(template: string, options: object): Promise<E2bSandbox & Rebooted> }
  waitForPort(port: number): unknown
}
interface Steps {
  fromBaseImage(): Steps
  fromTemplate(name: string): Steps
  setEnvs(variables: object): Steps
  setWorkdir(path: string): Steps
  copy(from: string, to: string, options?: object): Steps
  runCmd(command: string, options?: object): Steps
  setStartCmd(command: string, ready: unknown): Steps
}
interface Rebooted {
  pause(options: object): Promise<unknown>
  connect(options?: object): Promise<E2bSandbox>
}

let world: World
let server: RunningServer
let sdk: Sdk
let options: Record<string, string>
let other: Record<string, string>
const context = (): string => join(world.home, '..', 'context')
before(
  async () => {
    world = new World({ env: sharedBootstrap() })
    const directory = await installJavascript(NEWEST)
    const entry = join(directory, 'node_modules', 'e2b', 'dist', 'index.mjs')
    sdk = (await import(pathToFileURL(entry).href)) as Sdk
    const env = JSON.parse(await world.ok(['e2b', 'env', '--json'], { timeoutMs: 600_000 })) as Record<
      string,
      string
    >
    const apiKey = env['E2B_API_KEY'] ?? ''
    const second = (await world.ok(['key', 'create', '--quiet'])).trim()
    await world.ok(['server', 'stop'])
    server = await startServer({
      home: world.home,
      version: '0.0.0',
      programs: bundledPrograms(),
      idleExitMs: 0,
      limits: { templateReadyMs: READY_MS },
      writeLog: () => undefined,
    })
    const url = `http://127.0.0.1:${server.tcp?.port}`
    options = { apiKey, apiUrl: url, sandboxUrl: url }
    other = { ...options, apiKey: second }
    mkdirSync(join(context(), 'sub'), { recursive: true })
    writeFileSync(join(context(), 'a.txt'), 'from the context\n')
    writeFileSync(join(context(), 'sub', 'b.txt'), 'below\n')
  },
  { timeout: 700_000 },
)
after(async () => {
  await server?.stop()
  await world?.[Symbol.asyncDispose]()
})

const steps = (): Steps =>
  sdk
    .Template({ fileContextPath: context() })
    .fromBaseImage()
    .setEnvs({ SHADE: 'green' })
    .setWorkdir('/srv/app')
    .copy('a.txt', 'a.txt')
    .copy('sub', '/srv/sub', { user: 'root', mode: 0o700 })
    .runCmd('echo made with $SHADE as $(id -un) > made.txt')

describe('templates', () => {
  test('API-7 a template is built, run and booted again with its start command', {
    timeout: 90_000,
  }, async () => {
    const logs: string[] = []
    const template = steps().setStartCmd('python3 -m http.server 8123', sdk.waitForPort(8123))
    const build = await sdk.Template.build(template, 'pages:v1', {
      ...options,
      cpuCount: 1,
      memoryMB: 1024,
      onBuildLogs: (entry: { message: string }) => logs.push(entry.message),
    })
    assert.ok(logs.some((line) => line.includes('RUN echo made with')))
    const sandbox = await sdk.Sandbox.create('pages:v1', options)
    const said = await sandbox.commands.run(
      'pwd; cat made.txt; curl -s localhost:8123/a.txt; sudo cat /srv/sub/b.txt; nproc',
    )
    assert.match(said.stdout, /^\/srv\/app\nmade with green as user\nfrom the context\nbelow\n/)
    await sandbox.pause({ keepMemory: false })
    const again = await sandbox.connect()
    assert.match((await again.commands.run('curl -s localhost:8123/a.txt')).stdout, /from the context/)
    await again.kill()
    await sdk.Template.assignTags('pages:v1', ['stable'], options)
    const tags = await sdk.Template.getTags(build.templateId, options)
    assert.deepEqual(tags.map(({ tag }) => tag).sort(), ['stable', 'v1'])
  })

  test('API-7 a template is built on another one, from its cache', { timeout: 60_000 }, async () => {
    const template = sdk.Template({}).fromTemplate('pages:v1').runCmd('cat made.txt > copy.txt')
    await sdk.Template.build(template, 'above', options)
    const sandbox = await sdk.Sandbox.create('above', options)
    const said = await sandbox.commands.run('cat copy.txt; curl -s localhost:8123/a.txt')
    assert.match(said.stdout, /made with green[\s\S]*from the context/)
    await sandbox.kill()
  })

  test('API-7 a template that never gets ready fails its build with what it said', {
    timeout: 60_000,
  }, async () => {
    const template = steps().setStartCmd('echo waiting for nothing; sleep 100', 'false')
    await assert.rejects(sdk.Template.build(template, 'never', options), (error: Error) => {
      assert.match(error.message, /the start command did not start: .*not ready|ready within/)
      return /waiting for nothing/.test(error.message)
    })
    await assert.rejects(sdk.Sandbox.create('never', options), /has no build that is ready/)
  })

  test('API-7 a step that fails is named, and nothing half-built can be run', {
    timeout: 60_000,
  }, async () => {
    const template = steps().runCmd('echo about to fail; exit 7')
    await assert.rejects(sdk.Template.build(template, 'failing', options), /exit 7" failed: exit code 7/)
    await assert.rejects(sdk.Sandbox.create('failing', options), /has no build that is ready/)
  })

  test('API-7 another key neither sees nor runs a template', async () => {
    assert.equal(await sdk.Template.exists('pages', options), true)
    assert.equal(await sdk.Template.exists('pages', other), false)
    await assert.rejects(sdk.Sandbox.create('pages:v1', other), /not found/)
  })
})
