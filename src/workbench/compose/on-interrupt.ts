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
