import { Hono } from 'hono'
import { type AgentPodError, invalid } from '../../core/error.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import type { Engine } from '../../engine/engine.ts'
import type { Log } from '../../telemetry/log.ts'
import { type Random, randomWord } from '../../util/random.ts'
import { errorBody } from '../http/error-response.ts'
import { readJsonBody } from '../http/json-body.ts'
import { parseQuery } from '../http/query.ts'
import { principalOf } from '../principal-of.ts'
import { splitLabel } from '../schema/label.ts'
import { parseInput } from '../schema/parse.ts'
import { LONGEST_PAGE, listChanges, listEvents, listSandboxes } from '../schema/query.ts'
import {
  beginSandbox,
  type ChangesView,
  createSandbox,
  extendSandbox,
  type ForkedView,
  forkSandbox,
  pauseRequest,
  wakeSandbox,
} from '../schema/sandbox.ts'
import { createSnapshot } from '../schema/snapshot.ts'
import { SandboxListJson } from '../view/sandbox-list.ts'
import { eventView, sandboxView, snapshotView } from '../view/sandbox-view.ts'
import { streamSandboxEvents } from './events.ts'

const LONGEST_KEY = 256
/** Holds the cursor of the next page. The body is a plain array. */
export const NEXT_HEADER = 'agentpod-next'

export interface SandboxParts {
  readonly engine: Engine
  readonly log: Log
  readonly random: Random
}

export function sandboxRoutes(parts: SandboxParts): Hono {
  const { engine } = parts
  const routes = new Hono()

  const listJson = new SandboxListJson()
  routes.post('/', async (c) => {
    const requestKey = c.req.header('idempotency-key')
    if (requestKey !== undefined && (requestKey === '' || requestKey.length > LONGEST_KEY)) {
      throw invalid('request_key.malformed', `the Idempotency-Key must have 1 to ${LONGEST_KEY} characters`)
    }
    const body = parseInput(createSandbox, await readJsonBody(c))
    const who = principalOf(c)
    const created = await engine.sandboxes.create({ ...body, requestKey, owner: who.owner }, who)
    return c.json(sandboxView(created), 201)
  })

  routes.get('/', (c) => {
    const { label = [], limit = LONGEST_PAGE, ...rest } = parseQuery(listSandboxes, c)
    const labels = Object.fromEntries(label.map(splitLabel))
    const { sandboxes, next } = engine.sandboxes.page({ ...rest, labels, limit }, principalOf(c))
    if (next !== undefined) c.header(NEXT_HEADER, next)
    return c.body(listJson.of(sandboxes), 200, { 'content-type': 'application/json' })
  })

  routes.get('/:ref', (c) => c.json(sandboxView(engine.sandboxes.get(c.req.param('ref'), principalOf(c)))))

  routes.delete('/:ref', async (c) =>
    c.json(sandboxView(await engine.sandboxes.destroy(c.req.param('ref'), principalOf(c)))),
  )

  routes.post('/:ref/extend', async (c) => {
    const { ttlMs } = parseInput(extendSandbox, await readJsonBody(c))
    return c.json(sandboxView(await engine.sandboxes.extend(c.req.param('ref'), ttlMs, principalOf(c))))
  })

  routes.post('/:ref/begin', async (c) => {
    parseInput(beginSandbox, await readJsonBody(c))
    return c.json(sandboxView(await engine.guests.startProjectServices(c.req.param('ref'), principalOf(c))))
  })

  routes.post('/:ref/pause', async (c) => {
    const how = parseInput(pauseRequest, await readJsonBody(c))
    return c.json(sandboxView(await engine.sandboxes.pause(c.req.param('ref'), principalOf(c), how)))
  })

  routes.post('/:ref/stop', async (c) =>
    c.json(sandboxView(await engine.sandboxes.stop(c.req.param('ref'), principalOf(c)))),
  )

  for (const verb of ['resume', 'start'] as const) {
    routes.post(`/:ref/${verb}`, async (c) => {
      const wake = parseInput(wakeSandbox, await readJsonBody(c))
      return c.json(sandboxView(await engine.sandboxes[verb](c.req.param('ref'), principalOf(c), wake)))
    })
  }

  routes.post('/:ref/fork', async (c) => {
    const body = parseInput(forkSandbox, await readJsonBody(c))
    const forked = await engine.sandboxes.fork(c.req.param('ref'), body, principalOf(c))
    const [first] = forked
    if (first && 'error' in first && !forked.some((one) => 'sandbox' in one)) throw first.error
    return c.json(
      forked.map((one) => forkedView(parts, one)),
      201,
    )
  })

  routes.post('/:ref/snapshots', async (c) => {
    const { memory, ...body } = parseInput(createSnapshot, await readJsonBody(c))
    const request = { ...body, hasMemory: memory }
    return c.json(
      snapshotView(await engine.snapshots.create(c.req.param('ref'), request, principalOf(c))),
      201,
    )
  })

  routes.get('/:ref/stats', async (c) =>
    c.json(await engine.guests.stats(c.req.param('ref'), principalOf(c))),
  )

  routes.get('/:ref/changes', async (c) => {
    const { path } = parseQuery(listChanges, c)
    const known = await engine.snapshots.changes(c.req.param('ref'), path, principalOf(c))
    const view: ChangesView = { snapshot: known?.snapshot ?? null, paths: known ? [...known.paths] : null }
    return c.json(view)
  })

  routes.get('/:ref/events', async (c) => {
    const { after = 0, follow, type } = parseQuery(listEvents, c)
    if (follow) return streamSandboxEvents(c, engine, { after, type })
    // The egress process reports all its decisions before it answers with the counts.
    if (type === 'network.decision') await engine.networks.counts(c.req.param('ref'), principalOf(c))
    return c.json(engine.events.list(c.req.param('ref'), after, principalOf(c), type).map(eventView))
  })

  return routes
}

/** An internal failure of one fork gets an incident id, like a failure of the whole call. */
function forkedView(
  { log, random }: SandboxParts,
  forked: { readonly sandbox: Sandbox } | { readonly error: AgentPodError },
): ForkedView {
  if ('sandbox' in forked) return { sandbox: sandboxView(forked.sandbox) }
  const incident = randomWord(random, 12)
  const { body, error } = errorBody(forked.error, incident)
  if (error.code === 'internal') log.error('a fork failed', { incident, error })
  return body as ForkedView
}
