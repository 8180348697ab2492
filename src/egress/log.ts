/** What this folder writes down; `telemetry/` has it. SECURITY: LK-16. Fields never hold a header, a body or a secret. */
export interface Log {
  info(message: string, fields?: Readonly<Record<string, unknown>>): void
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void
  error(message: string, fields?: Readonly<Record<string, unknown>>): void
}
