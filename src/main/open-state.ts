/**
 * Opens the databases of a state directory. If they are lost, the label still finds their sandboxes, which
 * are then removed.
 */
import { existsSync, readFileSync } from 'node:fs'
import type { DatabaseSync } from 'node:sqlite'
import { AgentPodError, isAgentPodError } from '../core/error.ts'
import type { Home } from '../core/home.ts'
import { parseOwner } from '../core/id.ts'
import { openDatabase } from '../store/database.ts'
import { EVENT_MIGRATIONS } from '../store/events.ts'
import { type SandboxStore, STATE_MIGRATIONS } from '../store/sandboxes.ts'
import { writeDurably } from '../util/file/write-durably.ts'
import { randomWord, systemRandom } from '../util/random.ts'

const IF_LOST =
  'start the server again: it creates a new one and removes every sandbox and snapshot of the lost one'

/**
 * A damaged or missing database is reported once, as an error, so that a person can restore a backup before
 * anything is removed. The new, empty one is created at the same time, which tells the next start that it was
 * reported.
 */
export function openStateDatabase(home: Home): DatabaseSync {
  const open = (): DatabaseSync =>
    openDatabase({
      path: home.stateDb,
      synchronous: 'FULL',
      migrations: STATE_MIGRATIONS,
      ifLost: `restore a backup, or ${IF_LOST}`,
    })
  if (existsSync(home.owner) && !existsSync(home.stateDb)) {
    open().close()
    throw new AgentPodError({
      code: 'data_loss',
      reason: 'store.missing',
      message: `${home.stateDb} is missing`,
      hint: `restore a backup, or ${IF_LOST}`,
    })
  }
  try {
    return open()
  } catch (error) {
    if (isAgentPodError(error, 'data_loss')) open().close()
    throw error
  }
}

export function openEventDatabase(home: Home): DatabaseSync {
  return openDatabase({
    path: home.eventsDb,
    synchronous: 'NORMAL',
    migrations: EVENT_MIGRATIONS,
    ifLost: 'start the server again: it creates a new one; earlier events are lost, sandboxes are unchanged',
  })
}

/**
 * One label per state directory, made once. It is stored in the database and beside it, so that it survives
 * the loss of either.
 */
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
