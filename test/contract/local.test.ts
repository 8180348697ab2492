import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { Podhost } from '../../src/providers/local/podhost.ts'
import { crunOn, describeContract, type TestProvider } from '../support/provider-contract.ts'

const programs = join(import.meta.dirname, '../../dist/bin')

async function asMyself(): Promise<TestProvider> {
  const home = await mkdtemp(join(tmpdir(), 'agentpod-contract-'))
  const podhost = new Podhost({
    home,
    podhost: join(programs, 'podhost'),
    podd: join(programs, 'podd'),
  })
  return crunOn({ podhost, exchange: join(home, 'tmp'), close: () => rm(home, { recursive: true }) })
}

const TITLE = 'PROV-2 the provider contract on sandboxes of root'
if (process.getuid?.() === 0) describeContract(TITLE, asMyself)
else test(TITLE, { skip: 'needs root' }, () => undefined)
