import { test } from 'node:test'
import { NO_DOCKER } from '../support/docker-daemon.ts'
import { openDocker } from '../support/docker-provider.ts'
import { describeContract } from '../support/provider-contract.ts'

if (NO_DOCKER) test('the provider contract on Docker', { skip: NO_DOCKER }, () => undefined)
// Docker keeps no time: podd's lease ends a sandbox, to the second.
else describeContract('containers of Docker', async () => ({ ...(await openDocker()), graceMs: 4000 }))
