import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { runscFile } from '../../src/providers/gvisor/runsc-file.ts'
import { Podhost } from '../../src/providers/local/podhost.ts'
import { describeContract, gvisorOn, type TestProvider } from '../support/provider-contract.ts'

const programs = join(import.meta.dirname, '../../dist/bin')
const runsc = runscFile(process.env)

async function onGVisor(): Promise<TestProvider> {
  const home = await mkdtemp(join(tmpdir(), 'agentpod-contract-'))
  const podhost = new Podhost({
    home,
    podhost: join(programs, 'podhost'),
    podd: join(programs, 'podd'),
    runsc,
    shells: 1,
  })
  return gvisorOn({ podhost, exchange: join(home, 'tmp'), close: () => rm(home, { recursive: true }) })
}

const TITLE = 'PROV-2 the provider contract on gVisor'
const missing =
  process.getuid?.() !== 0
    ? 'needs root'
    : existsSync(runsc)
      ? undefined
      : 'needs runsc: `agentpod provider setup gvisor`'
if (missing === undefined) describeContract(TITLE, onGVisor)
else test(TITLE, { skip: missing }, () => undefined)
