import { Hono } from 'hono'
import { invalid } from '../../core/error.ts'
import type { Engine } from '../../engine/engine.ts'
import { readJson } from '../body.ts'
import { principalOf } from '../principal-of.ts'
import { parseQuery } from '../query.ts'
import { splitLabel } from '../schema/label.ts'
import { parseInput } from '../schema/parse.ts'
import { LONGEST_PAGE, listEvents, listSandboxes } from '../schema/query.ts'
import { createSandbox, extendSandbox } from '../schema/sandbox.ts'
import { eventView, sandboxView } from '../view.ts'
import { followEvents } from './events.ts'

const LONGEST_KEY = 256
/** Where the next page begins. The body stays a plain array. */
export const NEXT_HEADER = 'agentpod-next'

export function sandboxRoutes(engine: Engine): Hono {
  const routes = new Hono()

  routes.post('/', async (c) => {
    const requestKey = c.req.header('idempotency-key')
    if (requestKey !== undefined && (requestKey === '' || requestKey.length > LONGEST_KEY)) {
      throw invalid('request_key.malformed', `an idempotency key has 1 to ${LONGEST_KEY} characters`)
    }
    const body = parseInput(createSandbox, await readJson(c.req.raw))
    const created = await engine.create({ ...body, requestKey, owner: principalOf(c).owner })
    return c.json(sandboxView(created), 201)
  })

  routes.get('/', (c) => {
    const { label = [], limit = LONGEST_PAGE, ...rest } = parseQuery(listSandboxes, c)
    const labels = Object.fromEntries(label.map(splitLabel))
    const { sandboxes, next } = engine.page({ ...rest, labels, limit }, principalOf(c))
    if (next !== undefined) c.header(NEXT_HEADER, next)
    return c.json(sandboxes.map(sandboxView))
  })

  routes.get('/:ref', (c) => c.json(sandboxView(engine.get(c.req.param('ref'), principalOf(c)))))

  routes.delete('/:ref', async (c) =>
    c.json(sandboxView(await engine.destroy(c.req.param('ref'), principalOf(c)))),
  )

  routes.post('/:ref/extend', async (c) => {
    const { ttlMs } = parseInput(extendSandbox, await readJson(c.req.raw))
    return c.json(sandboxView(await engine.extend(c.req.param('ref'), ttlMs, principalOf(c))))
  })

  routes.get('/:ref/stats', async (c) => c.json(await engine.stats(c.req.param('ref'), principalOf(c))))

  routes.get('/:ref/events', (c) => {
    const { after = 0, follow } = parseQuery(listEvents, c)
    if (follow) return followEvents(c, engine, after)
    return c.json(engine.events(c.req.param('ref'), after, principalOf(c)).map(eventView))
  })

  return routes
}
