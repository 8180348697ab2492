/** Whether gVisor is here, for tests. */
import { existsSync } from 'node:fs'
import { runscFile } from '../../src/providers/gvisor/runsc-file.ts'

export const RUNSC = runscFile(process.env)

/** Why tests of gVisor cannot run here; undefined if they can. */
export const NO_GVISOR: string | undefined = existsSync(RUNSC)
  ? undefined
  : 'needs runsc: `agentpod provider setup gvisor`'
