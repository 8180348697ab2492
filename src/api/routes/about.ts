/** Health, the API's description, metrics, usage and the audit log. */
import { Hono } from 'hono'
import type { Engine } from '../../engine/engine.ts'
import type { Metrics } from '../../telemetry/metrics.ts'
import { parseQuery } from '../http/query.ts'
import type { Rate } from '../http/rate-limit.ts'
import { DOCS_POLICY, docsPage } from '../openapi/docs-page.ts'
import { openApi } from '../openapi/openapi.ts'
import { adminOnly, principalOf } from '../principal-of.ts'
import { LONGEST_PAGE, listAudit } from '../schema/query.ts'
import type { AuditEntryView, UsageView } from '../schema/usage.ts'
import { eventView } from '../view/sandbox-view.ts'

export interface AboutParts {
  readonly engine: Engine
  readonly version: string
  readonly metrics: Metrics
  readonly rate: Rate
}

export function aboutRoutes({ engine, version, metrics, rate }: AboutParts): Hono {
  const routes = new Hono()
  const description = JSON.stringify(openApi(version))
  const page = docsPage(version)

  routes.get('/health', (c) => c.body(null, 204))
  routes.get('/openapi.json', (c) => c.body(description, 200, { 'content-type': 'application/json' }))
  routes.get('/docs', (c) => c.html(page, 200, { 'content-security-policy': DOCS_POLICY }))
  routes.get('/metrics', adminOnly, (c) =>
    c.body(metrics.text(), 200, { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' }),
  )

  routes.get('/v1/usage', (c) => {
    const who = principalOf(c)
    const { living, livingLimit, asked } = engine.usage.of(who)
    const isLimited = livingLimit !== undefined
    const view: UsageView = {
      living,
      limits: {
        living: livingLimit ?? null,
        requestsPerSecond: isLimited ? rate.perSecond : null,
        burst: isLimited ? rate.burst : null,
      },
      asked: { ...asked },
    }
    return c.json(view)
  })

  routes.get('/v1/audit', adminOnly, (c) => {
    const { after = 0, limit = LONGEST_PAGE } = parseQuery(listAudit, c)
    const entries: AuditEntryView[] = engine
      .auditLog({ after, limit })
      .map((entry) => ({ ...entry, at: new Date(entry.at).toISOString(), data: { ...entry.data } }))
    return c.json(entries)
  })

  routes.get('/v1/audit/network', adminOnly, (c) => {
    const { after = 0, limit = LONGEST_PAGE } = parseQuery(listAudit, c)
    const decisions = engine.networks.decisions({ after, limit })
    return c.json(decisions.map((event) => ({ ...eventView(event), sandboxId: event.sandboxId })))
  })
  return routes
}
