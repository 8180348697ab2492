/** The way to a model that is not at its maker's, such as a gateway of the user's own network. */
import { isIP } from 'node:net'
import type { RunOptions } from '../client/runs.ts'
import { grantOf, inParts } from '../config/rules.ts'
import { invalid } from '../core/error.ts'

type RunNetwork = NonNullable<RunOptions['network']>
type RuleRequest = NonNullable<RunNetwork['allow']>[number]

const THIS_MACHINE = /^(?:.*\.)?localhost$/

/**
 * SECURITY: CF-02. The address is the user's word, by an option or a variable; no file of a project names one. So it is allowed as it is,
 * also where the name leads into a private network.
 */
export function modelRule(baseUrl: string): RuleRequest {
  const { hostname, port, protocol } = new URL(baseUrl)
  if (isIP(hostname.replace(/^\[(.*)\]$/, '$1')) !== 0)
    throw invalid(
      'model.url',
      `the model's address ${hostname} is a number: keys and private rules belong to names`,
      `give it a name in your DNS or in /etc/hosts, like --base-url ${protocol}//gateway.internal`,
    )
  if (THIS_MACHINE.test(hostname))
    throw invalid(
      'model.url',
      `no sandbox reaches ${hostname}, which is this machine itself`,
      'run the gateway on another machine or in a container with an address of its own',
    )
  const ports = [Number(port || (protocol === 'http:' ? 80 : 443))]
  return inParts(grantOf({ host: hostname, ports, private: true })) as RuleRequest
}

/** What a run may reach, and its model. */
export function withRule(
  network: RunNetwork | undefined,
  rule: RuleRequest | undefined,
): RunNetwork | undefined {
  return rule === undefined ? network : { ...network, allow: [...(network?.allow ?? []), rule] }
}
