/** gVisor in tests: whether it is here, and what differs on it. */
import { existsSync } from 'node:fs'
import { runscFile } from '../../src/providers/gvisor/runsc-file.ts'

export const RUNSC = runscFile(process.env)

/** Whether the tests that name no provider run on gVisor: AGENTPOD_TEST_PROVIDER=gvisor. */
export const ON_GVISOR = process.env['AGENTPOD_TEST_PROVIDER'] === 'gvisor'

/** The reason to skip a test there: what differs, and why that is no way out. */
export function differsOnGVisor(reason: string): { readonly skip: string | false } {
  return { skip: ON_GVISOR && reason }
}

/** Why tests of gVisor cannot run here; undefined if they can. */
export const NO_GVISOR: string | undefined = existsSync(RUNSC)
  ? undefined
  : 'needs runsc: `agentpod provider setup gvisor`'
