import { Hono } from 'hono'
import type { Key } from '../../core/key.ts'
import type { Keys, NewKey } from '../../engine/keys.ts'
import { capOf } from '../../engine/network/network-spec.ts'
import { readJsonBody } from '../http/json-body.ts'
import { adminOnly, principalOf } from '../principal-of.ts'
import { type CreateKey, createKey, type KeyView } from '../schema/key.ts'
import { parseInput } from '../schema/parse.ts'

export function keyRoutes(keys: Keys): Hono {
  const routes = new Hono()
  routes.use(adminOnly)
  routes.get('/', (c) => c.json(keys.list().map(view)))
  routes.post('/', async (c) => {
    const { key, secret } = keys.create(wanted(parseInput(createKey, await readJsonBody(c))), principalOf(c))
    return c.json({ ...view(key), secret }, 201)
  })
  routes.delete('/:id', (c) => c.json(view(keys.revoke(c.req.param('id'), principalOf(c)))))
  return routes
}

function wanted({ network, ...rest }: CreateKey): NewKey {
  return { ...rest, ...(network && { network: capOf(network.mode, network.allow) }) }
}

function view(key: Key): KeyView {
  const time = (ms: number | undefined): string | null =>
    ms === undefined ? null : new Date(ms).toISOString()
  const { id, name, scope, network, isolation = null, createdAt, expiresAt, revokedAt } = key
  return {
    id,
    name,
    scope,
    network: { mode: network.mode, allow: network.rules?.map(({ host }) => host) ?? null },
    isolation,
    createdAt: new Date(createdAt).toISOString(),
    expiresAt: time(expiresAt),
    revokedAt: time(revokedAt),
  }
}
