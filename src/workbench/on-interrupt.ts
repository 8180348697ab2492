/** Interrupts while something is being made: nothing of it is left. */

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** Until disposed, a signal cleans up and then ends the process. A second one ends it at once. */
export function onInterrupt(cleanUp: () => Promise<unknown>): Disposable {
  const dispose = (): void => {
    for (const signal of SIGNALS) process.off(signal, end)
  }
  const end = (signal: NodeJS.Signals): void => {
    dispose()
    void cleanUp()
      .catch(() => undefined)
      .finally(() => process.kill(process.pid, signal))
  }
  for (const signal of SIGNALS) process.on(signal, end)
  return { [Symbol.dispose]: dispose }
}

/** Makes something. An interrupt meanwhile waits until it is made, and destroys it. */
export async function makeInterruptibly<T extends { destroy(): Promise<unknown> }>(
  make: () => Promise<T>,
): Promise<T> {
  const making = make()
  using _ = onInterrupt(async () => (await making).destroy())
  return await making
}
