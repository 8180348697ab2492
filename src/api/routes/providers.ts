/** The providers of this server and their capabilities. */
import { Hono } from 'hono'
import type { Engine } from '../../engine/engine.ts'
import { adminOnly } from '../principal-of.ts'
import type { ProviderView } from '../schema/provider.ts'

export function providerRoutes(engine: Engine): Hono {
  const routes = new Hono()
  routes.get('/', async (c) => {
    const found = await engine.providers.list()
    return c.json(
      found.map(
        ({ capabilities, ...one }): ProviderView => ({
          ...one,
          isDefault: one.name === engine.providers.defaultName,
          ...(capabilities && { capabilities: { ...capabilities, notes: [...capabilities.notes] } }),
        }),
      ),
    )
  })
  routes.get('/:name/checks', adminOnly, async (c) =>
    c.json(await engine.providers.diagnose(c.req.param('name'))),
  )
  return routes
}
