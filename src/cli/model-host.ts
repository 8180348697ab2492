/** The way to a model that is not at its maker's, such as a gateway of the user's own network. */
import type { RunOptions } from '../client/runs.ts'
import { namedServer } from '../config/named-server.ts'
import { grantOf, inParts } from '../config/rules.ts'
import { type AgentPodError, invalid, isAgentPodError } from '../core/error.ts'

type RunNetwork = NonNullable<RunOptions['network']>
type RuleRequest = NonNullable<RunNetwork['allow']>[number]

/** A rule for a host with a name; an address with a port for one without. */
export type ModelGrant = { readonly rule: RuleRequest } | { readonly named: string }

const THIS_MACHINE = /^(?:.*\.)?localhost$/

/**
 * SECURITY: CF-02. The address is the user's word, by an option or a variable; no file of a project names one. So it is allowed as it is,
 * also in a private network.
 */
export function modelGrant(baseUrl: string): ModelGrant {
  const { port: written, protocol } = new URL(baseUrl)
  const host = hostOf(baseUrl)
  const port = Number(written || (protocol === 'http:' ? 80 : 443))
  if (THIS_MACHINE.test(host)) throw unreachable(host)
  const named = serverOf(host, port)
  if (named !== undefined) return { named }
  return { rule: inParts(grantOf({ host, ports: [port], private: true })) as RuleRequest }
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
    `no sandbox reaches ${host}, which is this machine itself or no server of a network`,
    'run the gateway on another machine or in a container with an address of its own',
  )
}

/** The host of an address of the web: a name, or an address without brackets. */
export function hostOf(url: string): string {
  return new URL(url).hostname.replace(/^\[(.*)\]$/, '$1')
}

/** What a run may reach, and its model. */
export function withGrant(
  network: RunNetwork | undefined,
  grant: ModelGrant | undefined,
): RunNetwork | undefined {
  if (grant === undefined) return network
  if ('rule' in grant) return { ...network, allow: [...(network?.allow ?? []), grant.rule] }
  const { named = [], ...lists } = network?.addresses ?? {}
  return { ...network, addresses: { ...lists, named: [...named, grant.named] } }
}
