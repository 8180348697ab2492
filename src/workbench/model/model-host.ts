/**
 * Network access to a model at another address than its provider's, such as a gateway in the user's network.
 */
import type { RunOptions } from '../../client/runs.ts'
import { namedServer } from '../../config/network/named-server.ts'
import { grantOf, networkRuleOf } from '../../config/network/rules.ts'
import { type AgentPodError, invalid, isAgentPodError } from '../../core/error.ts'

type RunNetwork = NonNullable<RunOptions['network']>
type RuleRequest = NonNullable<RunNetwork['allow']>[number]

/** A rule for a host name, or an address with a port. */
export type ModelGrant = { readonly rule: RuleRequest } | { readonly named: string }

const THIS_MACHINE = /^(?:.*\.)?localhost$/

/**
 * SECURITY: CF-02. The address comes from the user, by an option or a variable; no project file can name one.
 * So it is allowed as it is, in a private network too.
 */
export function modelGrant(baseUrl: string): ModelGrant {
  const { port: written, protocol } = new URL(baseUrl)
  const host = hostOf(baseUrl)
  const port = Number(written || (protocol === 'http:' ? 80 : 443))
  if (THIS_MACHINE.test(host)) throw unreachable(host)
  const named = serverOf(host, port)
  if (named !== undefined) return { named }
  return { rule: networkRuleOf(grantOf({ host, ports: [port], private: true })) as RuleRequest }
}

function serverOf(host: string, port: number): string | undefined {
  try {
    return namedServer(host, port)
  } catch (error) {
    throw isAgentPodError(error, 'invalid_argument') ? unreachable(host) : error
  }
}

function unreachable(host: string): AgentPodError {
  return invalid(
    'model.url',
    `no sandbox can reach ${host}: it is this machine itself, or not a server address`,
    'run the gateway on another machine, or in a container with its own address',
  )
}

/** The host of a URL: a name, or an address without brackets. */
export function hostOf(url: string): string {
  return new URL(url).hostname.replace(/^\[(.*)\]$/, '$1')
}

/** Adds the model's address to what a run may reach. */
export function withGrant(
  network: RunNetwork | undefined,
  grant: ModelGrant | undefined,
): RunNetwork | undefined {
  if (grant === undefined) return network
  if ('rule' in grant) return { ...network, allow: [...(network?.allow ?? []), grant.rule] }
  const { named = [], ...lists } = network?.addresses ?? {}
  return { ...network, addresses: { ...lists, named: [...named, grant.named] } }
}
