/** The variables of a world whose debian bases are bootstrapped once for the whole test run. */
import { mkdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export function sharedBootstrap(): Record<string, string> {
  // The harness gives each run a temporary directory of its own, and removes it.
  const kept = join(tmpdir(), 'shared-bootstraps')
  mkdirSync(kept, { recursive: true })
  const programs = join(import.meta.dirname, 'shared-bootstrap')
  return { SHARED_BOOTSTRAPS: kept, PATH: `${programs}:${process.env['PATH'] ?? ''}` }
}
