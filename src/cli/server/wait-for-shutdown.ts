import { join } from 'node:path'
import { AgentPodError } from '../../core/error.ts'
import type { Home } from '../../core/home.ts'
import { systemClock } from '../../util/clock.ts'
import { type ExclusiveLock, lockExclusively } from '../../util/file/exclusive-lock.ts'
import { isListening } from './is-listening.ts'

const LEAVES_WITHIN_MS = 30_000
const LOOK_EVERY_MS = 20

/**
 * Resolves when neither the server nor podhost is there any more, so that nothing writes to the state
 * directory; and no server can start before the lock is released.
 */
export async function atRest(home: Home): Promise<ExclusiveLock> {
  const deadline = systemClock.now() + LEAVES_WITHIN_MS
  const lock = await serverLeft(home, deadline)
  while (await isListening(join(home.run, 'podhost.sock'))) await lookAgain(deadline)
  return lock
}

/**
 * Resolves when the server has ended and closed its files. No server can start before the lock is released.
 */
export async function serverLeft(
  home: Home,
  deadline = systemClock.now() + LEAVES_WITHIN_MS,
): Promise<ExclusiveLock> {
  let lock = tryLock(home)
  for (; lock === undefined; lock = tryLock(home)) await lookAgain(deadline)
  return lock
}

async function lookAgain(deadline: number): Promise<void> {
  if (systemClock.now() > deadline) {
    throw new AgentPodError({
      code: 'deadline_exceeded',
      reason: 'server.lingers',
      message: 'the server does not leave',
      hint: 'end a server that runs in the foreground, then try again',
    })
  }
  await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS))
}

function tryLock(home: Home): ExclusiveLock | undefined {
  try {
    return lockExclusively(home.lockFile)
  } catch {
    return undefined
  }
}
