import { Hono } from 'hono'
import { invalid } from '../../core/error.ts'
import type { Engine } from '../../engine/engine.ts'
import { DATA_PORT } from '../address.ts'
import type { OneTimeCodes } from '../one-time-codes.ts'
import { principalOf } from '../principal-of.ts'
import type { PreviewView } from '../schema/sandbox.ts'
import type { TcpAddressView } from '../schema/server.ts'

export interface PortParts {
  readonly engine: Engine
  readonly codes: OneTimeCodes
  /** Opens the TCP listener where it is not open yet: an address needs somebody to answer at it. */
  openTcp(port: number): Promise<TcpAddressView>
}

/** The address of a port inside. Browsers and curl find `*.localhost` by themselves. */
export function portRoutes({ engine, codes, openTcp }: PortParts): Hono {
  const routes = new Hono()
  routes.post('/:ref/ports/:port', async (c) => {
    const port = Number(c.req.param('port'))
    if (!Number.isInteger(port) || port < 1 || port > 65535 || port === DATA_PORT) {
      throw invalid('port.malformed', `a port is from 1 to 65535 and not ${DATA_PORT}`)
    }
    const sandbox = engine.get(c.req.param('ref'), principalOf(c))
    const tcp = await openTcp(0)
    const url = `${tcp.isTls ? 'https' : 'http'}://${port}-${sandbox.id}.localhost:${tcp.port}/`
    const code = sandbox.spec.ports?.public ? undefined : codes.issue(`${sandbox.id}:${port}`)
    const view: PreviewView = {
      url,
      openUrl: code === undefined ? null : `${url}_agentpod/open?code=${code}`,
    }
    return c.json(view)
  })
  return routes
}
