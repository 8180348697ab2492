/** The provider contract in a process of its own, for a user who is not the one that runs the tests. Bundled before it is run. */
import { Podhost } from '../../src/providers/local/podhost.ts'
import { describeContract } from './provider-contract.ts'

const [home = '', podhost = '', podd = ''] = (process.env['AGENTPOD_CONTRACT'] ?? '').split(':')

describeContract('crun, as an ordinary user', async () => ({
  podhost: new Podhost({ home, podhost, podd }),
  close: async () => undefined,
}))
