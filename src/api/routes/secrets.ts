import { Hono } from 'hono'
import type { Secret } from '../../core/secret.ts'
import type { Engine } from '../../engine/engine.ts'
import { readJsonBody } from '../http/json-body.ts'
import { principalOf } from '../principal-of.ts'
import { parseInput } from '../schema/parse.ts'
import { rotateSecret, type SecretView, setSecret } from '../schema/secret.ts'

export function secretRoutes({ secrets }: Engine): Hono {
  const routes = new Hono()
  routes.get('/', (c) => c.json(secrets.list(principalOf(c)).map(view)))
  routes.post('/', async (c) => {
    const request = parseInput(setSecret, await readJsonBody(c))
    return c.json(view(secrets.set(request, principalOf(c))), 201)
  })
  routes.post('/:name/rotate', async (c) => {
    const { value } = parseInput(rotateSecret, await readJsonBody(c))
    return c.json(view(secrets.rotate(c.req.param('name'), value, principalOf(c))))
  })
  routes.delete('/:name', (c) => c.json(view(secrets.remove(c.req.param('name'), principalOf(c)))))
  return routes
}

function view({ name, variable, slot, version, createdAt, rotatedAt }: Secret): SecretView {
  return {
    name,
    variable,
    hosts: [...slot.hosts],
    port: slot.port,
    header: slot.header,
    scheme: slot.scheme,
    methods: slot.methods ? [...slot.methods] : null,
    paths: slot.paths ? [...slot.paths] : null,
    version,
    createdAt: new Date(createdAt).toISOString(),
    rotatedAt: new Date(rotatedAt).toISOString(),
  }
}
