/**
 * The listener of the unix socket: only the local user can open it, so it needs no key and marks every
 * request.
 */
import { invalid } from '../../core/error.ts'
import { LOCAL } from '../../core/principal.ts'
import type { Engine } from '../../engine/engine.ts'
import type { Log } from '../../telemetry/log.ts'
import { forwardToGuest, SANDBOX_HEADER, tunnelToGuest } from '../data-plane/forward-to-guest.ts'
import { findGuest } from '../data-plane/reach-guest.ts'
import { setPrincipal } from '../principal-of.ts'
import { attempt, attemptUpgrade, type ControlPlane, type FrontDoor } from './front-door.ts'

export function localDoor(engine: Engine, control: ControlPlane, log: Log): FrontDoor {
  return {
    handle(request, response) {
      const ref = request.headers[SANDBOX_HEADER]
      attempt(response, async () => {
        if (typeof ref !== 'string') {
          setPrincipal(request, LOCAL)
          return void (await control(request, response))
        }
        const live = await findGuest(engine, ref, LOCAL, request).reach()
        return forwardToGuest(live, request, response)
      })
    },
    upgrade(request, socket, head) {
      const ref = request.headers[SANDBOX_HEADER]
      attemptUpgrade(socket, log, async () => {
        if (typeof ref !== 'string')
          throw invalid('upgrade.unknown', `an upgrade needs the header ${SANDBOX_HEADER}`)
        const live = await findGuest(engine, ref, LOCAL, request).reach()
        await tunnelToGuest(live, request, socket, head)
      })
    },
  }
}
