import { Hono } from 'hono'
import type { Key } from '../../core/key.ts'
import type { Keys } from '../../engine/keys.ts'
import { readJson } from '../body.ts'
import { adminOnly, principalOf } from '../principal-of.ts'
import { createKey, type KeyView } from '../schema/key.ts'
import { parseInput } from '../schema/parse.ts'

export function keyRoutes(keys: Keys): Hono {
  const routes = new Hono()
  routes.use(adminOnly)
  routes.get('/', (c) => c.json(keys.list().map(view)))
  routes.post('/', async (c) => {
    const { key, secret } = keys.create(parseInput(createKey, await readJson(c.req.raw)), principalOf(c))
    return c.json({ ...view(key), secret }, 201)
  })
  routes.delete('/:id', (c) => c.json(view(keys.revoke(c.req.param('id'), principalOf(c)))))
  return routes
}

function view(key: Key): KeyView {
  const time = (ms: number | undefined): string | null =>
    ms === undefined ? null : new Date(ms).toISOString()
  const { id, name, scope, createdAt, expiresAt, revokedAt } = key
  return {
    id,
    name,
    scope,
    createdAt: new Date(createdAt).toISOString(),
    expiresAt: time(expiresAt),
    revokedAt: time(revokedAt),
  }
}
