import { test } from 'node:test'
import { NO_DOCKER } from '../support/docker-daemon.ts'
import { openDocker } from '../support/docker-provider.ts'
import { describeContract } from '../support/provider-contract.ts'

const TITLE = 'PROV-2 PROV-5 the provider contract on containers of Docker'

if (NO_DOCKER) test(TITLE, { skip: NO_DOCKER }, () => undefined)
// Docker keeps no time: podd's lease ends a sandbox, to the second.
else describeContract(TITLE, async () => ({ ...(await openDocker()), graceMs: 4000 }))
