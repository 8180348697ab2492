/** Opens what a state directory remembers. When that is lost, the label of its sandboxes is still there, and they are found and removed. */
import { existsSync, readFileSync } from 'node:fs'
import type { DatabaseSync } from 'node:sqlite'
import { AgentPodError, isAgentPodError } from '../core/error.ts'
import type { Home } from '../core/home.ts'
import { parseOwner } from '../core/id.ts'
import { openDatabase } from '../store/database.ts'
import { EVENT_MIGRATIONS } from '../store/events.ts'
import { type SandboxStore, STATE_MIGRATIONS } from '../store/sandboxes.ts'
import { randomWord, systemRandom } from '../util/random.ts'
import { writeDurably } from '../util/write-durably.ts'

const IF_LOST = 'start again: a new one is made, and every sandbox and snapshot of the lost one is removed'

/**
 * A database that is damaged or gone is said once, as an error, so that a person can bring back a backup before anything is removed. The new,
 * empty one is made at the same time: it is how the next start knows that it was said.
 */
export function openState(home: Home): DatabaseSync {
  const open = (): DatabaseSync =>
    openDatabase({
      path: home.stateDb,
      synchronous: 'FULL',
      migrations: STATE_MIGRATIONS,
      ifLost: `put a backup in its place, or ${IF_LOST}`,
    })
  if (existsSync(home.owner) && !existsSync(home.stateDb)) {
    open().close()
    throw new AgentPodError({
      code: 'data_loss',
      reason: 'store.missing',
      message: `${home.stateDb} is gone`,
      hint: `put a backup in its place, or ${IF_LOST}`,
    })
  }
  try {
    return open()
  } catch (error) {
    if (isAgentPodError(error, 'data_loss')) open().close()
    throw error
  }
}

export function openEvents(home: Home): DatabaseSync {
  return openDatabase({
    path: home.eventsDb,
    synchronous: 'NORMAL',
    migrations: EVENT_MIGRATIONS,
    ifLost:
      'start again: a new one is made; what happened before is not known any more, sandboxes are as they were',
  })
}

/** One label to a state directory, made once. It is in the database and beside it, so that neither is lost with the other. */
export function ownerOf(home: Home, sandboxes: SandboxStore): ReturnType<typeof parseOwner> {
  const known = sandboxes.meta('owner') ?? readOwner(home)
  const owner = parseOwner(known ?? `ap-${randomWord(systemRandom, 12)}`)
  if (readOwner(home) !== owner) writeDurably(home.owner, Buffer.from(owner))
  if (sandboxes.meta('owner') === undefined) sandboxes.setMeta('owner', owner)
  return owner
}

function readOwner(home: Home): string | undefined {
  return existsSync(home.owner) ? readFileSync(home.owner, 'utf8').trim() : undefined
}
