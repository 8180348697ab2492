/**
 * Finds the Docker daemon like the docker command: by DOCKER_HOST, by the context in DOCKER_CONTEXT or
 * config.json, or at /var/run/docker.sock.
 */

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import * as z from 'zod'
import { AgentPodError } from '../../../core/error.ts'
import { sha256Hex } from '../../../util/sha256.ts'

export type EnvironmentVariables = Readonly<Record<string, string | undefined>>

export interface Tls {
  readonly ca?: string | undefined
  readonly cert?: string | undefined
  readonly key?: string | undefined
  /** False if the context has `SkipTLSVerify`. */
  readonly verify: boolean
}

export type Endpoint =
  | { readonly kind: 'unix'; readonly path: string; readonly from: string }
  | {
      readonly kind: 'tcp'
      readonly host: string
      readonly port: number
      readonly tls?: Tls | undefined
      readonly from: string
    }
  | {
      readonly kind: 'ssh'
      readonly target: string
      readonly port?: number | undefined
      readonly from: string
    }

const DEFAULT_SOCKET = '/var/run/docker.sock'
const PLAIN_PORT = 2375
const TLS_PORT = 2376
const LONGEST_FILE_BYTES = 1024 * 1024
const CONTEXT_NAME = /^[a-zA-Z0-9][a-zA-Z0-9_.+-]*$/

const CONFIG = z.looseObject({ currentContext: z.string().optional() })
const META = z.looseObject({
  Name: z.string(),
  Endpoints: z.looseObject({
    docker: z.looseObject({ Host: z.string(), SkipTLSVerify: z.boolean().optional() }),
  }),
})

export async function findEndpoint(env: EnvironmentVariables): Promise<Endpoint> {
  const host = env['DOCKER_HOST'] ?? ''
  if (host !== '') {
    const isVerified = (env['DOCKER_TLS_VERIFY'] ?? '') !== ''
    const certs = env['DOCKER_CERT_PATH'] || configDirectory(env)
    return parseHost(host, 'DOCKER_HOST', isVerified ? await tlsOf(certs, true) : undefined)
  }
  const context = env['DOCKER_CONTEXT'] || (await currentContext(env))
  if (context === undefined || context === 'default')
    return { kind: 'unix', path: DEFAULT_SOCKET, from: 'the default socket' }
  return endpointOfContext(env, context)
}

/** Parses an address of a daemon; `from` names its source, for errors. */
export function parseHost(text: string, from: string, tls?: Tls): Endpoint {
  const [, scheme = '', rest = ''] = /^([a-z]+):\/\/(.*)$/s.exec(text) ?? []
  switch (scheme) {
    case 'unix':
      if (!rest.startsWith('/') || rest.includes('\0'))
        throw malformed(from, 'has no absolute path after unix://')
      return { kind: 'unix', path: rest, from }
    case 'tcp':
      return { kind: 'tcp', ...hostAndPort(text, from, tls ? TLS_PORT : PLAIN_PORT), tls, from }
    case 'ssh':
      return sshEndpoint(text, from)
    default:
      throw malformed(from, 'must begin with unix://, tcp:// or ssh://')
  }
}

function hostAndPort(text: string, from: string, defaultPort: number): { host: string; port: number } {
  const url = parseUrl(text, from)
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '')
    throw malformed(from, 'must have a host and a port only')
  if (url.pathname !== '' && url.pathname !== '/')
    throw malformed(from, 'must not have a path after the port')
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  return { host: host === '' ? '127.0.0.1' : host, port: url.port === '' ? defaultPort : Number(url.port) }
}

/** SECURITY: the target becomes an argument of the ssh program, so it must not look like an option. */
function sshEndpoint(text: string, from: string): Endpoint {
  const url = parseUrl(text, from)
  if (url.password !== '') throw malformed(from, 'must not contain a password; use a key or an agent')
  if (url.search !== '' || url.hash !== '' || (url.pathname !== '' && url.pathname !== '/'))
    throw malformed(from, 'must have a user, a host and a port only')
  const user = decodeURIComponent(url.username)
  const isPlain = (word: string): boolean => /^[a-zA-Z0-9_][a-zA-Z0-9_.:%-]*$/.test(word)
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  if (!isPlain(host) || (user !== '' && !isPlain(user))) throw malformed(from, 'names no host')
  const port = url.port === '' ? undefined : Number(url.port)
  return { kind: 'ssh', target: user === '' ? host : `${user}@${host}`, port, from }
}

function parseUrl(text: string, from: string): URL {
  try {
    return new URL(text)
  } catch {
    throw malformed(from, 'is no address')
  }
}

export function configDirectory(env: EnvironmentVariables): string {
  return env['DOCKER_CONFIG'] || join(env['HOME'] || '/root', '.docker')
}

async function currentContext(env: EnvironmentVariables): Promise<string | undefined> {
  const file = join(configDirectory(env), 'config.json')
  const text = await readIfThere(file)
  if (text === undefined) return undefined
  return parseJson(CONFIG, text, file).currentContext || undefined
}

async function endpointOfContext(env: EnvironmentVariables, name: string): Promise<Endpoint> {
  const from = `the Docker context ${name}`
  if (!CONTEXT_NAME.test(name)) throw malformed('the name of the Docker context', 'is malformed')
  const directory = sha256Hex(name)
  const contexts = join(configDirectory(env), 'contexts')
  const file = join(contexts, 'meta', directory, 'meta.json')
  const text = await readIfThere(file)
  if (text === undefined)
    throw new AgentPodError({
      code: 'failed_precondition',
      reason: 'docker.context',
      message: `Docker context ${name} not found`,
      hint: '`docker context ls` lists the contexts; DOCKER_CONTEXT selects one',
    })
  const { Host, SkipTLSVerify } = parseJson(META, text, file).Endpoints.docker
  const tls = await tlsOf(join(contexts, 'tls', directory, 'docker'), SkipTLSVerify !== true)
  const isTls = SkipTLSVerify === true || tls.ca !== undefined || tls.cert !== undefined
  return parseHost(Host, from, isTls ? tls : undefined)
}

async function tlsOf(directory: string, verify: boolean): Promise<Tls> {
  const [ca, cert, key] = await Promise.all(
    ['ca.pem', 'cert.pem', 'key.pem'].map((name) => readIfThere(join(directory, name))),
  )
  if ((cert === undefined) !== (key === undefined))
    throw malformed(directory, 'has a certificate or a key, but not both (cert.pem, key.pem)')
  return { ca, cert, key, verify }
}

export async function readIfThere(file: string): Promise<string | undefined> {
  try {
    const bytes = await readFile(file)
    if (bytes.length > LONGEST_FILE_BYTES) throw malformed(file, 'is too large')
    return bytes.toString('utf8')
  } catch (error) {
    const code = (error as { code?: unknown }).code
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    if (code === 'EACCES' || code === 'EISDIR') throw malformed(file, 'cannot be read')
    throw error
  }
}

export function parseJson<T>(schema: z.ZodType<T>, text: string, file: string): T {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw malformed(file, 'is not JSON')
  }
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw malformed(file, `is not what Docker writes there: ${issue?.path.join('.')}: ${issue?.message}`)
}

function malformed(what: string, problem: string): AgentPodError {
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'docker.endpoint',
    message: `${what} ${problem}`,
    hint: 'DOCKER_HOST is unix:///PATH, tcp://HOST:PORT or ssh://USER@HOST; unset it to use the default socket',
  })
}
