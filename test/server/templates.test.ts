/** Templates of E2B's API on a fake provider: races, full disks, restarts, names and tags. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { startBuild } from '../../src/api/e2b/templates/schema.ts'
import { TemplateFiles } from '../../src/api/e2b/templates/template-files.ts'
import { Templates } from '../../src/api/e2b/templates/templates.ts'
import { parseInput } from '../../src/api/schema/parse.ts'
import type { TemplateBuild, TemplateStore } from '../../src/core/build/template.ts'
import { AgentPodError } from '../../src/core/error.ts'
import { LOCAL, type Principal } from '../../src/core/principal.ts'
import type { Recipe } from '../../src/core/recipe.ts'
import { templateStore } from '../../src/store/templates.ts'
import { packContents } from '../../src/sync/tar.ts'
import { silentLog } from '../../src/telemetry/log.ts'
import { SeededRandom } from '../../src/testing/seeded-random.ts'
import { ALICE, archive, BOB, BuildStage, sha256, step } from '../support/build-stage.ts'

const HASH = 'c'.repeat(64)
const MINUTE_MS = 60_000

let stage: BuildStage
let store: TemplateStore
let files: TemplateFiles
let templates: Templates
let isFull = false

beforeEach(async () => {
  isFull = false
  stage = await new BuildStage().open()
  // The layer of the base `debian`, as the stage names it.
  const debian = Buffer.alloc(0)
  await stage.provider.layers?.import(sha256(debian), Readable.from([debian]), { timeoutMs: 1000 })
  open()
})
afterEach(async () => {
  await templates.close()
  stage.close()
})

/** A server begins, after another one or as the first. */
function open(): void {
  const { clock, engine, builder } = stage
  const random = new SeededRandom(3)
  const real = templateStore(stage.state)
  store = {
    ...real,
    saveBuild: (build) => {
      if (isFull)
        throw new AgentPodError({ code: 'resource_exhausted', reason: 'disk.full', message: 'full' })
      real.saveBuild(build)
    },
  }
  files = new TemplateFiles({ directory: join(stage.directory, 'uploads'), clock, random })
  templates = new Templates({
    engine,
    builder,
    inputs: stage.files,
    files,
    store,
    presets: { get: async () => ({ rules: [], variables: {}, files: [] }) },
    clock,
    random,
    log: silentLog,
    builtIn: {},
    readyMs: 10 * MINUTE_MS,
  })
  templates.open()
}

const runs = (...commands: string[]): object[] => commands.map((args) => ({ type: 'RUN', args: [args] }))

function request(name: string, who: Principal = ALICE, tags?: string[]): TemplateBuild {
  return templates.request({ name, ...(tags && { tags }) }, who).build
}

const start = (build: TemplateBuild, body: object, who: Principal = ALICE): Promise<void> =>
  templates.start(build, parseInput(startBuild, body), who)

/** Moves the clock on until the promise settles. */
async function until(isOver: () => boolean): Promise<void> {
  for (let at = 0; at < 2000 && !isOver(); at++) await stage.clock.advance(20)
  assert.ok(isOver(), 'it did not happen')
}

async function ended({ id, templateId }: TemplateBuild, who: Principal = ALICE): Promise<TemplateBuild> {
  const status = (): TemplateBuild => templates.build(templateId, id, who)
  await until(() => ['ready', 'error'].includes(status().status))
  return status()
}

async function built(name: string, body: object, who: Principal = ALICE): Promise<TemplateBuild> {
  const build = request(name, who)
  await start(build, body, who)
  const end = await ended(build, who)
  assert.equal(end.status, 'ready', end.reason?.message)
  return end
}

describe('a build', () => {
  test('a build that two requests start at once starts once', async () => {
    const build = request('pages')
    const both = await Promise.allSettled([
      start(build, { steps: runs('echo one') }),
      start(build, { steps: runs('echo two') }),
    ])
    assert.deepEqual(
      both.map(({ status }) => status),
      ['fulfilled', 'rejected'],
    )
    assert.equal((await ended(build)).status, 'ready')
  })

  test('one key cannot start more builds than its limit, also not at once', async () => {
    const all = Array.from({ length: 8 }, (_, at) => request(`t${at}`))
    const started = await Promise.allSettled(all.map((one) => start(one, { steps: runs('sleep 5') })))
    assert.equal(started.filter(({ status }) => status === 'fulfilled').length, 4)
  })

  test('a template that is deleted while its build starts leaves no row', async () => {
    const build = request('gone')
    const starting = start(build, { steps: runs('echo one') })
    await templates.remove(templates.own('gone', ALICE))
    await assert.rejects(starting, { code: 'not_found' })
    assert.equal(store.build(build.id), undefined)
  })

  test('a template that is deleted while it never gets ready leaves no sandbox', async () => {
    const build = request('never')
    await start(build, { readyCmd: 'false' })
    await until(() => stage.provider.existing.length === 1)
    let isGone = false
    const before = stage.clock.now()
    templates.remove(templates.own('never', ALICE)).then(() => {
      isGone = true
    })
    await until(() => isGone && stage.provider.existing.length === 0)
    assert.ok(stage.clock.now() - before < MINUTE_MS, 'nobody waited for it')
  })

  test('the end of a build on a full disk is known, and stored when there is room', async () => {
    const build = request('pages')
    await start(build, { steps: runs('echo one') })
    isFull = true
    const end = await ended(build)
    assert.equal(end.status, 'ready')
    assert.equal(store.build(build.id)?.status, 'building')
    isFull = false
    assert.ok((await ended(build)).made)
    assert.equal(store.build(build.id)?.status, 'ready')
    assert.deepEqual(
      store.tags(build.templateId).map(({ tag }) => tag),
      ['default'],
    )
  })

  test('API-7 a build of a server that ended has failed, and another one can be requested', async () => {
    const build = request('pages')
    await start(build, { steps: runs('sleep 1000') })
    const before = templates
    open()
    const { status, reason } = templates.build(build.templateId, build.id, ALICE)
    assert.equal(status, 'error')
    assert.match(reason?.message ?? '', /server stopped during the build; build the template again/)
    await assert.rejects(start(templates.build(build.templateId, build.id, ALICE), {}), { code: 'conflict' })
    await before.close()
    await built('pages', { steps: runs('echo one') })
  })

  test('a step is built again while a sandbox runs from the earlier one, and others built the same', async () => {
    const first = await built('pages', { steps: runs('write /made once') })
    await built('pages', { steps: runs('write /made once') }, BOB)
    const digest = first.made?.digest ?? ''
    const { id } = await stage.engine.sandboxes.create({ environment: { digest } }, ALICE)
    const second = await built('pages', { steps: runs('write /made once'), force: true })
    assert.notEqual(second.made?.digest, digest)
    const third = await built('pages', { steps: runs('write /made once') })
    assert.equal(third.made?.digest, second.made?.digest)
    await stage.engine.sandboxes.destroy(id, LOCAL)
  })

  test('the hint of an error is part of the reason', async () => {
    await files.put(ALICE.owner, HASH, Readable.from([packContents([])]))
    const build = request('copied')
    const copy = { type: 'COPY', args: ['.', '/srv'], filesHash: HASH }
    await start(build, { steps: [...runs('sleep 3'), copy] })
    files.open = () => undefined
    const { reason } = await ended(build)
    assert.match(reason?.message ?? '', /no longer on the server \(build it again with forceUpload\)/)
  })
})

describe('names and tags', () => {
  test('CP-25 a name means the own template or that of the user of the server; others need the id', async () => {
    await built('mcp-gateway', { steps: runs('echo bob') }, BOB)
    const bobs = templates.own('mcp-gateway', BOB)
    assert.equal(templates.find(bobs.id, ALICE), undefined)
    templates.setPublic(bobs, true)
    assert.equal(templates.find('mcp-gateway', ALICE), undefined)
    assert.equal(templates.find(bobs.id, ALICE)?.id, bobs.id)
    await built('mcp-gateway', { steps: runs('echo local') }, LOCAL)
    assert.equal(templates.find('mcp-gateway', ALICE), undefined)
    templates.setPublic(templates.own('mcp-gateway', LOCAL), true)
    assert.equal(templates.find('mcp-gateway', ALICE)?.owner, LOCAL.owner)
    await built('mcp-gateway', { steps: runs('echo alice') })
    assert.equal(templates.find('mcp-gateway', ALICE)?.owner, ALICE.owner)
  })

  test('a public template of another key can be built on, with the files below', async () => {
    const copied = archive({ 'a.txt': 'of bob' })
    await stage.upload(copied.data, BOB)
    const recipe: Recipe = {
      base: { name: 'debian', kit: 'development' },
      steps: [step('e2b-1', { files: copied.files }), step('e2b-2')],
    }
    const digest = await stage.digest(recipe, { who: BOB })
    const build = request('below', BOB)
    const environment = { variables: {}, user: 'user', workdir: '' }
    store.saveBuild({ ...build, status: 'ready', made: { recipe, digest, environment } })
    const { id } = templates.own('below', BOB)
    templates.setPublic(templates.own('below', BOB), true)
    await built('above', { fromTemplate: id, steps: runs('echo three') })
  })

  test('the tag latest is the default one, unless a build has it', async () => {
    const first = await built('pages', { steps: runs('echo one') })
    assert.equal((await templates.resolve('pages:latest', ALICE))?.made.digest, first.made?.digest)
    const build = request('pages', ALICE, ['latest'])
    await start(build, { steps: runs('echo two') })
    const second = await ended(build)
    assert.equal((await templates.resolve('pages:latest', ALICE))?.made.digest, second.made?.digest)
    assert.equal((await templates.resolve('pages', ALICE))?.made.digest, first.made?.digest)
  })

  test('SECURITY: CP-16 a template has a limited number of tags', async () => {
    await built('pages', { steps: runs('echo one') })
    const assign = (from: number): TemplateBuild =>
      templates.assignTags(
        'pages',
        Array.from({ length: 32 }, (_, at) => `v${from + at}`),
        ALICE,
      )
    for (const from of [0, 32, 64]) assign(from)
    assert.throws(() => assign(96), { code: 'resource_exhausted' })
    assign(0)
  })

  test('a name that is the id of a template or a snapshot is refused', async () => {
    const { id } = templates.own((await built('pages', {})).templateId, ALICE)
    assert.throws(() => request(id, BOB), { code: 'already_exists' })
    const sandbox = await stage.engine.sandboxes.create({}, ALICE)
    await stage.engine.snapshots.create(sandbox.id, { name: 'shot' }, ALICE)
    assert.throws(() => request('shot'), { code: 'already_exists' })
  })
})
