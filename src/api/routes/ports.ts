import { Hono } from 'hono'
import { invalid } from '../../core/error.ts'
import type { Engine } from '../../engine/engine.ts'
import type { OneTimeCodes } from '../door/one-time-codes.ts'
import { ENVD_PORT } from '../e2b/headers.ts'
import { principalOf } from '../principal-of.ts'
import type { PreviewView } from '../schema/sandbox.ts'
import type { TcpAddressView } from '../schema/server.ts'

export interface PortParts {
  readonly engine: Engine
  readonly codes: OneTimeCodes
  /** Opens the TCP listener if it is not open yet, so that the address answers. */
  openTcp(port: number): Promise<TcpAddressView>
}

/** Returns addresses of ports inside. Browsers and curl resolve `*.localhost` to this machine. */
export function portRoutes({ engine, codes, openTcp }: PortParts): Hono {
  const routes = new Hono()
  routes.post('/:ref/ports/:port', async (c) => {
    const port = Number(c.req.param('port'))
    if (!Number.isInteger(port) || port < 1 || port > 65535 || port === ENVD_PORT) {
      throw invalid('port.malformed', `a port is a number from 1 to 65535, except ${ENVD_PORT}`)
    }
    const sandbox = engine.sandboxes.get(c.req.param('ref'), principalOf(c))
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
