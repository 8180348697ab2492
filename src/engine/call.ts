/** How long the engine waits for a provider. */
export const CALL = { timeoutMs: 20_000 } as const
export const CREATE = { timeoutMs: 60_000 } as const
/** Copies without a pool, and archives, take as long as their size needs. */
export const COPY = { timeoutMs: 30 * 60_000 } as const
