/**
 * The key that a run uses for its model. It goes to the server as a secret for the model's hosts; the sandbox
 * gets a placeholder.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { Agent } from '../../agents/agent.ts'
import { type AgentFile, type Credential, KEY_PLACEHOLDER } from '../../agents/assignment.ts'
import type { AgentPod } from '../../client/client.ts'
import type { Secret } from '../../client/secrets.ts'
import { AgentPodError, invalid } from '../../core/error.ts'
import type { Workbench } from '../workbench.ts'
import { hostOf } from './model-host.ts'

export interface ModelKey {
  readonly credential: string
  readonly secret: string
  readonly baseUrl: string | undefined
  readonly files: readonly AgentFile[]
}

const LARGEST_SIGN_IN = 1024 * 1024

/**
 * Looks through the agent's credentials in order. For each: the user's variable, then a secret of the same
 * name, then a sign-in file. Undefined for an agent without credentials.
 */
export async function modelKey(
  ctx: Pick<Workbench, 'env'>,
  pod: AgentPod,
  agent: Agent,
  o: { readonly baseUrl?: string | undefined } = {},
): Promise<ModelKey | undefined> {
  if (agent.credentials.length === 0) return undefined
  const secrets = await pod.secrets.list()
  for (const credential of agent.credentials) {
    const value = ctx.env[credential.variable]?.trim()
    const kept = secrets.find(({ name }) => name === credential.variable)
    const signed = value || kept ? undefined : signIn(credential)
    const found = value || signed?.value
    if (found === undefined && !kept) continue
    const place = placeOf(ctx, credential, o.baseUrl)
    const secret = found ? await keepKey(pod, credential, place, found) : coversOf(kept, credential, place)
    const files = signed?.files(KEY_PLACEHOLDER) ?? []
    return { credential: credential.variable, secret, baseUrl: place.own, files }
  }
  throw missing(agent)
}

interface ModelPlace {
  readonly hosts: readonly string[]
  readonly port: number
  /** The address, if it is not the credential's own. */
  readonly own: string | undefined
}

/** SECURITY: D8. A key only travels over TLS, so an address without TLS is refused. */
function placeOf(
  { env }: Pick<Workbench, 'env'>,
  credential: Credential,
  asked: string | undefined,
): ModelPlace {
  const { baseUrl, baseUrlVariable, hosts = [] } = credential
  const own = asked ?? (baseUrlVariable === undefined ? undefined : env[baseUrlVariable]?.trim() || undefined)
  const text = own ?? baseUrl
  let url: URL
  try {
    url = new URL(text)
  } catch {
    throw invalid(
      'model.url',
      `${JSON.stringify(text)} is not a URL of a model`,
      'use one like https://gateway.example.com',
    )
  }
  if (url.protocol !== 'https:')
    throw invalid(
      'model.url',
      `the model's address ${url.origin} is not https, and keys are only sent over TLS`,
      'give the gateway a certificate that this machine trusts',
    )
  if (url.username || url.password)
    throw invalid('model.url', 'the model’s address has a key in it', `set ${credential.variable} instead`)
  return {
    hosts: [...new Set([hostOf(text), ...(own === undefined ? hosts : [])])],
    port: Number(url.port || 443),
    own,
  }
}

async function keepKey(
  pod: AgentPod,
  credential: Credential,
  place: ModelPlace,
  value: string,
): Promise<string> {
  const { variable, header, scheme } = credential
  // A key for a gateway and a key for the provider itself are two secrets.
  const where = createHash('sha256')
    .update(`${place.hosts.join(' ')} ${place.port}`)
    .digest('hex')
    .slice(0, 8)
  const name = `model.${variable.slice(0, 40)}${place.own === undefined ? '' : `.${where}`}`
  await pod.secrets.set({ name, value, variable, hosts: [...place.hosts], port: place.port, header, scheme })
  return name
}

function coversOf(secret: Secret | undefined, { header }: Credential, { hosts, port }: ModelPlace): string {
  if (!secret) throw new Error('no secret of this name')
  if (hosts.every((host) => secret.hosts.includes(host)) && secret.port === port) return secret.name
  throw invalid(
    'model.secret',
    `the secret ${secret.name} is for ${secret.hosts.join(', ')}, but the model is at ${hosts.join(', ')}:${port}`,
    `\`agentpod secret set ${secret.name} ${hosts.map((host) => `--host ${host}`).join(' ')} --header ${header}\` sets it for that`,
  )
}

function signIn({
  signIn: way,
}: Credential): { value: string; files(placeholder: string): readonly AgentFile[] } | undefined {
  if (!way) return undefined
  try {
    const data = readFileSync(join(homedir(), way.path))
    return data.length > LARGEST_SIGN_IN ? undefined : way.read(data.toString('utf8'))
  } catch {
    return undefined
  }
}

function missing(agent: Agent): AgentPodError {
  const ways = agent.credentials.map(({ variable, title }) => `${variable} (${title})`)
  const first = agent.credentials[0]
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'model.no_key',
    message: `no key for ${agent.title}’s model: set ${ways.join(' or ')}`,
    hint: `export ${first?.variable}, or store it: \`agentpod secret set ${first?.variable} --host ${first && new URL(first.baseUrl).hostname} --header ${first?.header}\`; either way it never enters the sandbox`,
  })
}
