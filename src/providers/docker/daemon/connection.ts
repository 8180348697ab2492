/**
 * Connections to the daemon. Each call has its own, so a connection that the daemon closed is never reused.
 */
import { spawn } from 'node:child_process'
import { type ClientRequest, Agent as HttpAgent } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import { Duplex } from 'node:stream'
import type { Endpoint, EnvironmentVariables } from './endpoint.ts'

export interface ConnectionOptions {
  /** Options of dockerode. All are set, because it reads missing ones from the environment. */
  readonly options: Readonly<Record<string, unknown>>
  close(): void
}

const NOTHING = { host: '', port: '', username: '', ca: undefined, cert: undefined, key: undefined }

export function connectionOptions(endpoint: Endpoint, env: EnvironmentVariables): ConnectionOptions {
  const agent = withoutRedirects(agentFor(endpoint, env))
  const close = (): void => agent.destroy()
  switch (endpoint.kind) {
    case 'unix':
      return { options: { ...NOTHING, protocol: 'http', socketPath: endpoint.path, agent }, close }
    case 'tcp': {
      const { host, port, tls } = endpoint
      return { options: { ...NOTHING, protocol: tls ? 'https' : 'http', host, port, agent }, close }
    }
    case 'ssh':
      // Only used in the Host header; the connection goes through ssh.
      return { options: { ...NOTHING, protocol: 'http', host: 'docker', port: 80, agent }, close }
  }
}

/**
 * SECURITY: dockerode follows redirects to any place. A daemon never redirects, so the header is removed and
 * such an answer becomes an ordinary error.
 */
function withoutRedirects(agent: HttpAgent): HttpAgent {
  const inner = agent as HttpAgent & { addRequest(request: ClientRequest, ...rest: unknown[]): void }
  const addRequest = inner.addRequest.bind(inner)
  inner.addRequest = (request, ...rest) => {
    request.prependListener('response', ({ headers }) => {
      delete headers.location
    })
    addRequest(request, ...rest)
  }
  return agent
}

function agentFor(endpoint: Endpoint, env: EnvironmentVariables): HttpAgent {
  if (endpoint.kind === 'ssh') return new SshAgent(endpoint, env)
  if (endpoint.kind === 'unix' || !endpoint.tls) return new HttpAgent({ keepAlive: false })
  const { ca, cert, key, verify } = endpoint.tls
  return new HttpsAgent({
    keepAlive: false,
    rejectUnauthorized: verify,
    ...(ca !== undefined && { ca }),
    ...(cert !== undefined && { cert, key }),
  })
}

/**
 * Runs the ssh program, like the docker command: it uses the user's keys, known hosts and settings, and
 * refuses an unknown host. The remote command is `docker system dial-stdio`.
 */
class SshAgent extends HttpAgent {
  readonly #endpoint: Extract<Endpoint, { kind: 'ssh' }>
  readonly #env: EnvironmentVariables

  constructor(endpoint: Extract<Endpoint, { kind: 'ssh' }>, env: EnvironmentVariables) {
    super({ keepAlive: false })
    this.#endpoint = endpoint
    this.#env = env
  }

  override createConnection(): Duplex {
    const { target, port } = this.#endpoint
    const args = ['-o', 'BatchMode=yes', '-o', 'ConnectTimeout=15', '-T']
    if (port !== undefined) args.push('-p', String(port))
    const child = spawn('ssh', [...args, '--', target, 'docker', 'system', 'dial-stdio'], {
      stdio: ['pipe', 'pipe', 'ignore'],
      env: this.#env as NodeJS.ProcessEnv,
    })
    const stream = Duplex.from({ readable: child.stdout, writable: child.stdin })
    child.once('error', (error) => stream.destroy(error))
    stream.once('close', () => child.kill())
    return Object.assign(stream, SOCKET_HABITS)
  }
}

/** Adds socket methods that Node's HTTP client calls and a pipe lacks. */
const SOCKET_HABITS = {
  setKeepAlive: () => undefined,
  setNoDelay: () => undefined,
  setTimeout: () => undefined,
  ref: () => undefined,
  unref: () => undefined,
}
