/**
 * The provider contract in its own process, for another user than the one who runs the tests. It is bundled
 * first.
 */
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
