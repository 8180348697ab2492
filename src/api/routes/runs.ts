/** Runs of agents; their events can be followed as server-sent events. */
import { Readable } from 'node:stream'
import type { ReadableStream } from 'node:stream/web'
import { Hono } from 'hono'
import type { Runs } from '../../runs/runs.ts'
import { readJsonBody } from '../http/json-body.ts'
import { parseQuery } from '../http/query.ts'
import { principalOf } from '../principal-of.ts'
import { parseInput } from '../schema/parse.ts'
import { listRunEvents, listRuns } from '../schema/query.ts'
import { answerRun, createRun, nothing, sendRun } from '../schema/run.ts'
import { runEventView, runView } from '../view/run-view.ts'
import { lastEventId, streamEvents } from './events.ts'

export function runRoutes(runs: Runs): Hono {
  const routes = new Hono()

  routes.post('/', async (c) => {
    const body = parseInput(createRun, await readJsonBody(c))
    return c.json(runView(await runs.start(body, principalOf(c))), 201)
  })

  routes.get('/', (c) => c.json(runs.list(parseQuery(listRuns, c), principalOf(c)).map(runView)))

  routes.get('/:run', (c) => c.json(runView(runs.get(c.req.param('run'), principalOf(c)))))

  routes.delete('/:run', async (c) => c.json(runView(await runs.remove(c.req.param('run'), principalOf(c)))))

  routes.get('/:run/events', (c) => {
    const { after = 0, follow } = parseQuery(listRunEvents, c)
    const who = principalOf(c)
    if (!follow) return c.json(runs.events(c.req.param('run'), after, who).map(runEventView))
    const from = lastEventId(c) ?? after
    return streamEvents(
      c,
      (o) => runs.follow(c.req.param('run'), { after: from, ...o }, who),
      (event) => {
        const view = runEventView(event)
        return { id: view.seq, event: view.body.type, data: view }
      },
    )
  })

  routes.post('/:run/cancel', async (c) => {
    parseInput(nothing, await readJsonBody(c))
    return c.json(runView(runs.cancel(c.req.param('run'), principalOf(c))))
  })

  routes.post('/:run/messages', async (c) => {
    const { text, limits } = parseInput(sendRun, await readJsonBody(c))
    return c.json(runView(runs.send(c.req.param('run'), text, { limits }, principalOf(c))))
  })

  routes.post('/:run/permissions/:permission', async (c) => {
    const { answer } = parseInput(answerRun, await readJsonBody(c))
    const { run, permission } = c.req.param()
    return c.json(runView(await runs.answer(run, permission, answer, principalOf(c))))
  })

  routes.get('/:run/result', (c) => {
    const pack = Readable.toWeb(runs.result(c.req.param('run'), principalOf(c))) as ReadableStream
    c.header('content-type', 'application/x-git-packed-objects')
    return c.body(pack as unknown as globalThis.ReadableStream)
  })

  routes.post('/:run/take-over', async (c) => {
    parseInput(nothing, await readJsonBody(c))
    const taken = await runs.takeOver(c.req.param('run'), principalOf(c))
    return c.json({ ...taken, command: taken.command ?? null })
  })

  routes.post('/:run/hand-back', async (c) => {
    parseInput(nothing, await readJsonBody(c))
    return c.json(runView(runs.handBack(c.req.param('run'), principalOf(c))))
  })

  return routes
}
