/**
 * The provider contract in its own process, for another user than the one who runs the tests. It is bundled
 * first.
 */
import { join } from 'node:path'
import { Podhost } from '../../src/providers/local/podhost.ts'
import { crunOn, describeContract, gvisorOn } from './provider-contract.ts'

const [home = '', podhost = '', podd = '', runsc = ''] = (process.env['AGENTPOD_CONTRACT'] ?? '').split(':')

describeContract(`${runsc === '' ? 'crun' : 'gVisor'}, as an ordinary user`, async () =>
  (runsc === '' ? crunOn : gvisorOn)({
    podhost: new Podhost({ home, podhost, podd, ...(runsc !== '' && { runsc, shells: 1 }) }),
    exchange: join(home, 'tmp'),
    close: async () => undefined,
  }),
)
