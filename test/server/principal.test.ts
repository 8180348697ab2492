import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { OPEN_PATHS } from '../../src/api/principal-of.ts'
import { LOCAL } from '../../src/core/principal.ts'
import { asPrincipal } from '../support/as-principal.ts'
import { Front } from '../support/front.ts'

interface Route {
  readonly method: string
  readonly path: string
}

/** Every route that is registered, once, middleware left out. */
function routesOf(front: Front): Route[] {
  const all = front.app.routes
    .filter(({ method, path }) => method !== 'ALL' && !path.endsWith('*'))
    .map(({ method, path }) => ({ method, path: path.replaceAll(/:[a-z]+/gi, 'unknown') }))
  return [...new Map(all.map((route) => [`${route.method} ${route.path}`, route])).values()]
}

function isOpen({ method, path }: Route): boolean {
  return method === 'GET' && OPEN_PATHS.has(path)
}

describe('CP-01 a request that no listener marked with a principal', () => {
  it('is refused by every route but the open ones, and by paths that are no route', async () => {
    await using front = await Front.open()
    const routes = routesOf(front)
    assert.ok(routes.length > 60, `${routes.length} routes`)
    for (const route of [...routes, { method: 'GET', path: '/v1/nothing' }]) {
      const { method, path } = route
      const answer = await front.app.request(path, { method })
      if (isOpen(route)) assert.ok(answer.ok, `${method} ${path}: ${answer.status}`)
      else {
        assert.equal(answer.status, 401, `${method} ${path}`)
        assert.match(await answer.text(), /principal\.missing/, `${method} ${path}`)
      }
    }
  })

  it('reaches nothing: no sandbox is listed, made or destroyed', async () => {
    await using front = await Front.open()
    const { id } = await front.engine.sandboxes.create({}, LOCAL)
    const asked = [
      await front.app.request('/v1/sandboxes'),
      await front.app.request(`/v1/sandboxes/${id}`),
      await front.app.request(`/v1/sandboxes/${id}`, { method: 'DELETE' }),
      await front.app.request('/v1/sandboxes', { method: 'POST', body: '{}' }),
    ]
    for (const answer of asked) {
      assert.equal(answer.status, 401)
      assert.ok(!(await answer.text()).includes(id))
    }
    const living = front.engine.sandboxes.list({ labels: {}, all: true }, LOCAL)
    assert.deepEqual(
      living.map((sandbox) => [sandbox.id, sandbox.state]),
      [[id, 'running']],
    )
  })

  it('positive control: the same requests, marked as the local user, pass', async () => {
    await using front = await Front.open()
    const { id } = await front.engine.sandboxes.create({}, LOCAL)
    const marked = asPrincipal(LOCAL)
    const listed = await front.app.request('/v1/sandboxes', {}, marked)
    assert.match(await listed.text(), new RegExp(id))
    const made = await front.app.request('/v1/sandboxes', { method: 'POST', body: '{}' }, marked)
    assert.equal(made.status, 201)
    const gone = await front.app.request(`/v1/sandboxes/${id}`, { method: 'DELETE' }, marked)
    assert.equal(gone.status, 200)
    // Clearing ends the engine, and with it the answers of the other routes.
    for (const { method, path } of routesOf(front).filter((route) => route.path !== '/v1/server/clear')) {
      const answer = await front.app.request(path, { method }, marked)
      assert.notEqual(answer.status, 401, `${method} ${path}`)
    }
  })
})
