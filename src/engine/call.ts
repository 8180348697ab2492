/** How long the engine waits for a provider. */
export const CALL = { timeoutMs: 20_000 } as const
export const CREATE = { timeoutMs: 60_000 } as const
/** Copies where there is no pool, and archives, take as long as their size. */
export const COPY = { timeoutMs: 30 * 60_000 } as const
