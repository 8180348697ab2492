/** The base of sandboxes that have no `host` base, for worlds that cannot reach Debian's packages. */
import { sharedBootstrap } from './shared-bootstrap.ts'
import { World } from './world.ts'

/** Bootstraps it once, in a world that can. */
export async function bootstrapDebian(): Promise<void> {
  await using world = new World({ env: sharedBootstrap() })
  await world.client().prepare('debian', () => undefined)
}
