/** E2B's routes for templates. */
import { Readable } from 'node:stream'
import type { ReadableStream } from 'node:stream/web'
import { type Context, Hono } from 'hono'
import type { TemplateBuild, TemplateLog, TemplateRecord } from '../../../core/build/template.ts'
import { MOST_STEPS } from '../../../core/recipe.ts'
import type { Clock } from '../../../util/clock.ts'
import { limitUploadIdle } from '../../http/idle-timeout.ts'
import { readJsonBody } from '../../http/json-body.ts'
import { principalOf } from '../../principal-of.ts'
import { parseInput } from '../../schema/parse.ts'
import { ENVD_VERSION, templateView } from '../view.ts'
import * as schema from './schema.ts'
import type { TemplateFiles } from './template-files.ts'
import { parseTemplateRef } from './template-name.ts'
import { type Templates, unknownTemplate } from './templates.ts'
import { type UploadSigner, uploadPath } from './upload-token.ts'
import { UploadTurns } from './upload-turns.ts'

export interface TemplateRouteParts {
  readonly templates: Templates
  readonly files: TemplateFiles
  readonly signer: UploadSigner
  readonly clock: Clock
}

/** For each owner. A template has at most as many uploads as steps. */
const UPLOADS = { atOnce: 4, mostWaiting: 2 * MOST_STEPS }
const LOG_PAGE = 100
const LEVELS = ['debug', 'info', 'warn', 'error'] as const

export function e2bTemplateRoutes({ templates, files, signer, clock }: TemplateRouteParts): Hono {
  const routes = new Hono()
  const uploads = new UploadTurns(UPLOADS)
  const body = (c: Context): Promise<unknown> => readJsonBody(c)
  const own = (c: Context): TemplateRecord => templates.own(c.req.param('id') ?? '', principalOf(c))
  const buildOf = (c: Context): TemplateBuild =>
    templates.build(c.req.param('id') ?? '', c.req.param('build') ?? '', principalOf(c))

  routes.on('POST', ['/v3/templates', '/v2/templates'], async (c) => {
    const asked = parseInput(schema.newTemplate, await body(c))
    const { template, build } = templates.request(asked, principalOf(c))
    return c.json(
      {
        templateID: template.id,
        buildID: build.id,
        aliases: [template.name],
        names: [template.name],
        tags: build.tags,
        public: template.isPublic,
      },
      202,
    )
  })

  routes.on('GET', ['/templates/:id/files/:hash', '/v2/templates/:id/files/:hash'], (c) => {
    const template = own(c)
    const hash = parseInput(schema.filesHash, c.req.param('hash'))
    const { owner } = principalOf(c)
    const isPresent = files.digestOf(owner, hash) !== undefined
    const path = uploadPath(signer, { templateId: template.id, hash, owner })
    return c.json({ present: isPresent, url: `${originOf(c)}${path}` }, 201)
  })

  routes.put('/templates/:id/upload/:hash/:owner/:expires/:signature', async (c) => {
    const { owner } = principalOf(c)
    const hash = parseInput(schema.filesHash, c.req.param('hash'))
    const leave = await uploads.enter(owner)
    const stream = c.req.raw.body
    const source = stream ? Readable.fromWeb(stream as ReadableStream) : Readable.from([])
    // The reader reports its errors; without this listener they would be uncaught.
    source.on('error', () => undefined)
    try {
      await files.put(owner, hash, limitUploadIdle(source, clock))
      return c.json({})
    } finally {
      source.destroy()
      leave()
    }
  })

  routes.post('/v2/templates/:id/builds/:build', async (c) => {
    await templates.start(buildOf(c), parseInput(schema.startBuild, await body(c)), principalOf(c))
    // A body, because the SDKs read an answer of unknown length as JSON.
    return c.json({}, 202)
  })

  routes.get('/templates/:id/builds/:build/status', (c) => {
    const query = parseInput(schema.statusQuery, c.req.query())
    const build = buildOf(c)
    const offset = query.logsOffset ?? 0
    const logs = atLevel(build.logs, query.level).slice(offset, offset + (query.limit || LOG_PAGE))
    return c.json({
      templateID: build.templateId,
      buildID: build.id,
      status: build.status,
      logs: [],
      logEntries: logs.map(logView),
      ...(build.reason && { reason: reasonView(build.reason) }),
    })
  })

  routes.get('/templates/:id/builds/:build/logs', (c) => {
    const query = parseInput(schema.buildLogsQuery, c.req.query())
    const all = atLevel(buildOf(c).logs, query.level)
    const isBackward = query.direction === 'backward'
    const after = all.filter(({ at }) =>
      query.cursor === undefined ? true : isBackward ? at < query.cursor : at >= query.cursor,
    )
    const limit = query.limit || LOG_PAGE
    return c.json({ logs: (isBackward ? after.toReversed() : after).slice(0, limit).map(logView) })
  })

  routes.on('GET', ['/templates', '/v2/templates'], (c) => {
    const who = principalOf(c)
    const listed = templates.list(who).map((one) => recordView(one, templates.builds(one)))
    return c.json([...templates.builtInNames.map(templateView), ...listed])
  })

  routes.get('/templates/aliases/:name', async (c) => {
    const ref = c.req.param('name')
    const who = principalOf(c)
    const { name } = parseTemplateRef(ref)
    if (templates.builtInNames.includes(name)) return c.json({ templateID: name, public: true })
    const found = templates.find(name, who)
    if (!found) throw unknownTemplate(ref)
    return c.json({ templateID: found.id, public: found.isPublic })
  })

  routes.post('/templates/tags', async (c) => {
    const { target, tags } = parseInput(schema.assignTags, await body(c))
    const build = templates.assignTags(target, tags, principalOf(c))
    return c.json({ buildID: build.id, tags }, 201)
  })
  routes.delete('/templates/tags', async (c) => {
    const { name, tags } = parseInput(schema.removeTags, await body(c))
    templates.removeTags(name, tags, principalOf(c))
    return c.body(null, 204)
  })
  routes.get('/templates/:id/tags', (c) =>
    c.json(
      templates.tags(own(c)).map(({ tag, buildId, createdAt }) => ({
        tag,
        buildID: buildId,
        createdAt: time(createdAt),
      })),
    ),
  )

  routes.get('/templates/:id', (c) => {
    const template = own(c)
    return c.json({
      templateID: template.id,
      aliases: [template.name],
      names: [template.name],
      public: template.isPublic,
      createdAt: time(template.createdAt),
      updatedAt: time(template.updatedAt),
      lastSpawnedAt: template.lastSpawnedAt === undefined ? null : time(template.lastSpawnedAt),
      spawnCount: template.spawnCount,
      builds: templates.builds(template).map(buildView),
    })
  })

  const update = async (c: Context): Promise<Response> => {
    const asked = parseInput(schema.updateTemplate, await body(c))
    const template = own(c)
    if (typeof asked.public === 'boolean') templates.setPublic(template, asked.public)
    return c.json({ names: [template.name] })
  }
  routes.on('PATCH', ['/templates/:id', '/v2/templates/:id'], update)

  return routes
}

/** The address under which the client reached this server. */
function originOf(c: Context): string {
  const { protocol } = new URL(c.req.url)
  const socket = (c.env as { incoming?: { socket?: object } } | undefined)?.incoming?.socket
  const isTls = protocol === 'https:' || (socket !== undefined && 'encrypted' in socket)
  return `${isTls ? 'https' : 'http'}://${c.req.header('host') ?? 'localhost'}`
}

function atLevel(
  logs: readonly TemplateLog[],
  level: TemplateLog['level'] | undefined,
): readonly TemplateLog[] {
  if (level === undefined) return logs
  const least = LEVELS.indexOf(level)
  return logs.filter((one) => LEVELS.indexOf(one.level) >= least)
}

function logView({ at, level, message, step }: TemplateLog): object {
  return { timestamp: time(at), level, message, ...(step !== undefined && { step }) }
}

function reasonView({ message, step }: NonNullable<TemplateBuild['reason']>): object {
  return { message, ...(step !== undefined && { step }), logEntries: [] }
}

function recordView(template: TemplateRecord, builds: readonly TemplateBuild[]): object {
  const newest = builds.find(({ status }) => status === 'ready') ?? builds[0]
  return {
    templateID: template.id,
    buildID: newest?.id ?? '00000000-0000-0000-0000-000000000000',
    buildStatus: newest?.status ?? 'waiting',
    buildCount: builds.length,
    aliases: [template.name],
    names: [template.name],
    public: template.isPublic,
    cpuCount: newest?.cpus ?? 2,
    memoryMB: newest?.memoryMib ?? 4096,
    diskSizeMB: 0,
    createdAt: time(template.createdAt),
    updatedAt: time(template.updatedAt),
    createdBy: null,
    lastSpawnedAt: template.lastSpawnedAt === undefined ? null : time(template.lastSpawnedAt),
    spawnCount: template.spawnCount,
    envdVersion: ENVD_VERSION,
  }
}

function buildView(build: TemplateBuild): object {
  return {
    buildID: build.id,
    status: build.status,
    cpuCount: build.cpus,
    memoryMB: build.memoryMib,
    createdAt: time(build.createdAt),
    updatedAt: time(build.updatedAt),
    ...(build.finishedAt !== undefined && { finishedAt: time(build.finishedAt) }),
    envdVersion: ENVD_VERSION,
  }
}

function time(ms: number): string {
  return new Date(ms).toISOString()
}
