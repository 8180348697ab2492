import { Hono } from 'hono'
import { invalid } from '../../core/error.ts'
import type { Engine } from '../../engine/engine.ts'
import { readJson } from '../body.ts'
import { principalOf } from '../principal-of.ts'
import { parseInput } from '../schema/parse.ts'
import { createSandbox, extendSandbox } from '../schema/sandbox.ts'
import { eventView, sandboxView } from '../view.ts'

const LONGEST_KEY = 256

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
    const query = new URL(c.req.url).searchParams
    const labels = Object.fromEntries(query.getAll('label').map(splitLabel))
    return c.json(engine.list({ labels, all: query.get('all') === 'true' }, principalOf(c)).map(sandboxView))
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
    const after = Number(c.req.query('after') ?? 0)
    if (!Number.isInteger(after) || after < 0) throw invalid('events.after', 'after is a whole number')
    return c.json(engine.events(c.req.param('ref'), after, principalOf(c)).map(eventView))
  })

  return routes
}

function splitLabel(text: string): [string, string] {
  const cut = text.indexOf('=')
  if (cut < 1) throw invalid('label.malformed', 'a label filter is key=value')
  return [text.slice(0, cut), text.slice(cut + 1)]
}
