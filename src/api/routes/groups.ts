import { Hono } from 'hono'
import type { Engine } from '../../engine/engine.ts'
import type { GroupWithSandboxes } from '../../engine/groups/group-operations.ts'
import { readJsonBody } from '../http/json-body.ts'
import { principalOf } from '../principal-of.ts'
import { createGroup, type GroupView, type MemberSnapshotView, nameGroup } from '../schema/group.ts'
import { parseInput } from '../schema/parse.ts'
import { wakeSandbox } from '../schema/sandbox.ts'
import { sandboxView, snapshotView } from '../view/sandbox-view.ts'

export function groupRoutes({ groups }: Engine): Hono {
  const routes = new Hono()
  routes.get('/', (c) => c.json(groups.list(principalOf(c)).map(groupView)))
  routes.post('/', async (c) => {
    const request = parseInput(createGroup, await readJsonBody(c))
    return c.json(groupView(await groups.create(request, principalOf(c))), 201)
  })
  routes.get('/:ref', (c) => c.json(groupView(groups.get(c.req.param('ref'), principalOf(c)))))
  routes.delete('/:ref', async (c) =>
    c.json(groupView(await groups.destroy(c.req.param('ref'), principalOf(c)))),
  )
  for (const verb of ['pause', 'stop'] as const) {
    routes.post(`/:ref/${verb}`, async (c) =>
      c.json(groupView(await groups[verb](c.req.param('ref'), principalOf(c)))),
    )
  }
  for (const verb of ['resume', 'start'] as const) {
    routes.post(`/:ref/${verb}`, async (c) => {
      const { ttlMs } = parseInput(wakeSandbox, await readJsonBody(c))
      return c.json(groupView(await groups[verb](c.req.param('ref'), principalOf(c), ttlMs)))
    })
  }
  routes.post('/:ref/snapshots', async (c) => {
    const { name } = parseInput(nameGroup, await readJsonBody(c))
    const taken = await groups.snapshot(c.req.param('ref'), name, principalOf(c))
    const views: MemberSnapshotView[] = taken.map(({ member, snapshot }) => ({
      member,
      snapshot: snapshotView(snapshot),
    }))
    return c.json(views, 201)
  })
  routes.post('/:ref/fork', async (c) => {
    const { name } = parseInput(nameGroup, await readJsonBody(c))
    return c.json(groupView(await groups.fork(c.req.param('ref'), name, principalOf(c))), 201)
  })
  return routes
}

function groupView({ group, sandboxes }: GroupWithSandboxes): GroupView {
  const { id, name, owner, labels, state, members, createdAt } = group
  return {
    id,
    name,
    owner,
    labels: { ...labels },
    state,
    members: members.map(({ name: member, aliases, isMain, after }) => {
      const sandbox = sandboxes.get(member)
      return {
        name: member,
        aliases: [...aliases],
        main: isMain,
        after: [...after],
        sandbox: sandbox ? sandboxView(sandbox) : null,
      }
    }),
    createdAt: new Date(createdAt).toISOString(),
  }
}
