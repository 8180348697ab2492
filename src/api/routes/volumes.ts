import { Hono } from 'hono'
import type { Engine } from '../../engine/engine.ts'
import type { UsedVolume } from '../../engine/volumes/volume-operations.ts'
import { readJsonBody } from '../http/json-body.ts'
import { principalOf } from '../principal-of.ts'
import { parseInput } from '../schema/parse.ts'
import { createVolume, type VolumeView } from '../schema/volume.ts'

export function volumeRoutes({ volumes }: Engine): Hono {
  const routes = new Hono()
  routes.get('/', async (c) => c.json((await volumes.list(principalOf(c))).map(volumeView)))
  routes.post('/', async (c) => {
    const request = parseInput(createVolume, await readJsonBody(c))
    return c.json(volumeView(await volumes.create(request, principalOf(c))), 201)
  })
  routes.get('/:ref', async (c) => c.json(volumeView(await volumes.get(c.req.param('ref'), principalOf(c)))))
  routes.delete('/:ref', async (c) => {
    const last = await volumes.get(c.req.param('ref'), principalOf(c))
    await volumes.remove(last.volume.id, principalOf(c))
    return c.json(volumeView(last))
  })
  return routes
}

function volumeView({ volume, usedBytes, sandboxes }: UsedVolume): VolumeView {
  return {
    id: volume.id,
    name: volume.name,
    owner: volume.owner,
    provider: volume.provider,
    sizeMib: volume.sizeMib ?? null,
    limit: volume.limit ?? { level: 'none' },
    usedBytes: usedBytes ?? null,
    sandboxes: [...sandboxes],
    createdAt: new Date(volume.createdAt).toISOString(),
  }
}
