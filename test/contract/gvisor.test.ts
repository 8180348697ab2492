import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { Podhost } from '../../src/providers/local/podhost.ts'
import { NO_GVISOR, RUNSC } from '../support/gvisor.ts'
import { describeContract, gvisorOn, type TestProvider } from '../support/provider-contract.ts'

const programs = join(import.meta.dirname, '../../dist/bin')

async function onGVisor(): Promise<TestProvider> {
  const home = await mkdtemp(join(tmpdir(), 'agentpod-contract-'))
  const podhost = new Podhost({
    home,
    podhost: join(programs, 'podhost'),
    podd: join(programs, 'podd'),
    runsc: RUNSC,
    shells: 1,
  })
  return gvisorOn({ podhost, exchange: join(home, 'tmp'), close: () => rm(home, { recursive: true }) })
}

const TITLE = 'PROV-2 PROV-9 the provider contract on gVisor'
if (NO_GVISOR === undefined) describeContract(TITLE, onGVisor)
else test(TITLE, { skip: NO_GVISOR }, () => undefined)
