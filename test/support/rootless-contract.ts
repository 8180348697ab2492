/** The provider contract in a process of its own, for a user who is not the one that runs the tests. Bundled before it is run. */
import { join } from 'node:path'
import { Podhost } from '../../src/providers/local/podhost.ts'
import { crunOn, describeContract } from './provider-contract.ts'

const [home = '', podhost = '', podd = ''] = (process.env['AGENTPOD_CONTRACT'] ?? '').split(':')

describeContract('crun, as an ordinary user', async () =>
  crunOn({
    podhost: new Podhost({ home, podhost, podd }),
    exchange: join(home, 'tmp'),
    close: async () => undefined,
  }),
)
