import { Hono } from 'hono'
import type { NetCounts } from '../../core/network.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import type { Engine } from '../../engine/engine.ts'
import { readJsonBody } from '../http/json-body.ts'
import { principalOf } from '../principal-of.ts'
import { explainRequest, type NetworkView, networkChangeBody } from '../schema/network.ts'
import { parseInput } from '../schema/parse.ts'
import { networkView } from '../view/sandbox-view.ts'

export function networkRoutes(engine: Engine): Hono {
  const routes = new Hono()
  const view = async (sandbox: Sandbox, counts: Promise<NetCounts>): Promise<NetworkView> => {
    const { network } = sandbox.spec
    return {
      ...networkView(network, sandbox.link),
      intercept: network.intercept,
      rules: network.rules as NetworkView['rules'],
      denied: network.denied as NetworkView['denied'],
      named: [...(network.addresses?.named ?? [])],
      counts: await counts,
    }
  }

  routes.get('/:ref/network', async (c) => {
    const who = principalOf(c)
    const sandbox = engine.sandboxes.get(c.req.param('ref'), who)
    return c.json(await view(sandbox, engine.networks.counts(sandbox.id, who)))
  })

  routes.post('/:ref/network', async (c) => {
    const who = principalOf(c)
    const change = parseInput(networkChangeBody, await readJsonBody(c))
    const sandbox = await engine.networks.change(c.req.param('ref'), change, who)
    return c.json(await view(sandbox, engine.networks.counts(sandbox.id, who)))
  })

  routes.post('/:ref/network/explain', async (c) => {
    const who = principalOf(c)
    const { id } = engine.sandboxes.get(c.req.param('ref'), who)
    const asked = parseInput(explainRequest, await readJsonBody(c))
    const explained = engine.networks.explain(id, asked, who)
    return c.json({ ...explained, rule: explained.rule ?? null })
  })

  return routes
}
