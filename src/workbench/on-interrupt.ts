/** Interrupts while something is being made: nothing of it is left. */
import { AgentPodError } from '../core/error.ts'

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/**
 * A signal during the work cleans up and then ends the process. A second one ends it at once. Where something
 * else keeps the process, the work ends with `canceled`, and not with the failure that cleaning up causes.
 */
export async function interruptibly<T>(cleanUp: () => Promise<unknown>, work: () => Promise<T>): Promise<T> {
  let cleaning: Promise<void> | undefined
  const dispose = (): void => {
    for (const signal of SIGNALS) process.off(signal, end)
  }
  const end = (signal: NodeJS.Signals): void => {
    dispose()
    cleaning = cleanUp()
      .catch(() => undefined)
      .then(() => {
        // Another listener has got the signal too, and decides how the process ends.
        if (process.listenerCount(signal) === 0) process.kill(process.pid, signal)
      })
  }
  for (const signal of SIGNALS) process.on(signal, end)
  try {
    return await work()
  } finally {
    dispose()
    // INVARIANT: nothing continues before it is clean; the process could end meanwhile.
    if (cleaning) await interrupted(cleaning)
  }
}

async function interrupted(cleaning: Promise<void>): Promise<never> {
  await cleaning
  throw new AgentPodError({ code: 'canceled', reason: 'canceled', message: 'interrupted' })
}

/** Makes something. An interrupt meanwhile waits until it is made, and destroys it. */
export function makeInterruptibly<T extends { destroy(): Promise<unknown> }>(
  make: () => Promise<T>,
): Promise<T> {
  const making = make()
  return interruptibly(
    async () => (await making).destroy(),
    () => making,
  )
}
