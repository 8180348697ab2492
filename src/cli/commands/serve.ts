import { readFileSync } from 'node:fs'
import { asAgentPodError, invalid } from '../../core/error.ts'
import type { Home } from '../../core/home.ts'
import { bundledPrograms } from '../../main/bundled-programs.ts'
import type { TcpAddress, TcpOptions } from '../../main/listeners.ts'
import { ownCertificate } from '../../main/own-certificate.ts'
import { startServer } from '../../main/server.ts'
import type { ServerLimits } from '../../main/server-options.ts'
import { BUILD, VERSION } from '../../util/version.ts'
import { usualProvider } from '../../workbench/environment/placement.ts'
import type { Parsed } from '../args/parse.ts'
import { parseNumber } from '../args/values.ts'
import type { Command } from '../command.ts'
import { fileError } from '../output/file-error.ts'
import { type E2bDomain, parseE2bDomain } from '../server/e2b-domain.ts'

const IDLE_EXIT_MS = 10 * 60_000

export const command: Command = {
  usage: 'agentpod serve [--port N] [--listen ADDRESS --tls-cert FILE --tls-key FILE]',
  examples: [
    'agentpod serve --port 8080',
    'agentpod serve --listen 0.0.0.0 --port 8443 --tls-cert cert.pem --tls-key key.pem --host pods.example.org',
    'AGENTPOD_HOME=/srv/agentpod agentpod serve',
  ],
  options: {
    port: { value: 'N', help: 'listen on TCP too; calls there need a key (0: any free port)' },
    listen: { value: 'ADDRESS', help: 'on this address (default 127.0.0.1; others need TLS)' },
    'tls-cert': { value: 'FILE', help: 'certificate chain, PEM' },
    'tls-key': { value: 'FILE', help: 'private key, PEM' },
    host: { value: 'NAME', help: 'another host name of the API, besides localhost', repeat: true },
    domain: { value: 'NAME', help: 'a domain whose subdomains <port>-<id> are sandboxes', repeat: true },
    'e2b-domain': {
      value: 'NAME.localhost[:PORT]',
      help: 'serve the SDKs of E2B under this domain, over TLS with a certificate made here (default port 8443)',
    },
    'key-sandboxes': { value: 'N', help: 'limit of sandboxes per key (default 100)' },
    'key-rate': { value: 'N', help: 'limit of requests per second and key (default 200)' },
    'kept-runs': {
      value: 'N',
      help: 'sandboxes of ended runs that one owner keeps for follow-ups (default 100; also AGENTPOD_KEPT_RUNS)',
    },
    'upstream-proxy': {
      value: 'URL',
      help: 'send outgoing traffic through this HTTP proxy, which then resolves names and checks addresses',
    },
    background: {
      help: 'exit after ten minutes without sandboxes and requests (other commands start it like this)',
    },
  },
  words: { min: 0, max: 0 },
  async run({ home, terminal, env }, parsed) {
    const isBackground = parsed.has('background')
    // Only the owner can read what the server writes, whatever the parent directory allows.
    process.umask(0o077)
    try {
      const e2b = parsed.has('e2b-domain') ? parseE2bDomain(parsed.value('e2b-domain') ?? '') : undefined
      const server = await startServer({
        home: home.root,
        version: VERSION,
        build: BUILD,
        defaultProvider: await usualProvider(home, isBackground ? {} : env),
        programs: bundledPrograms(),
        idleExitMs: isBackground ? idleExitMs(env) : 0,
        shells: shells(env),
        upstreamProxy: parsed.value('upstream-proxy') ?? env['AGENTPOD_UPSTREAM_PROXY'],
        trustFile: env['SSL_CERT_FILE'],
        tcp: e2b ? e2bOptions(e2b, home, parsed) : tcpOptions(parsed),
        limits: limits(parsed, env),
        names: parsed.values('host'),
        domains: [...(e2b ? [e2b.domain] : []), ...parsed.values('domain')],
        writeLog: (line) => void terminal.stderr.write(line),
      })
      for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void server.stop())
      if (!isBackground)
        terminal.out(
          `agentpod ${VERSION} serves on ${whereabouts(home, server.tcp)}${e2bVariables(e2b, home, server.tcp)}`,
        )
      await server.done
      return 0
    } catch (thrown) {
      if (!isBackground) throw thrown
      // The command that started the server reads this line and prints it as its own error.
      const { code, reason, message, hint } = asAgentPodError(thrown)
      terminal.stderr.write(`${JSON.stringify({ error: { code, reason, message, hint } })}\n`)
      return 1
    }
  },
}

function tcpOptions(parsed: Parsed): TcpOptions | undefined {
  const port = parsed.value('port')
  const [cert, key] = [parsed.value('tls-cert'), parsed.value('tls-key')]
  if ((cert === undefined) !== (key === undefined))
    throw invalid('option.tls', '--tls-cert and --tls-key have to be used together')
  if (port === undefined) {
    if (parsed.has('listen') || cert !== undefined) throw invalid('option.port', 'missing option: --port')
    return undefined
  }
  const number = parseNumber(port, 'port')
  if (!Number.isInteger(number) || number < 0 || number > 65535)
    throw invalid('option.port', '--port is from 0 to 65535')
  const tls = cert && key ? { cert: readPem(cert), key: readPem(key) } : undefined
  return { host: parsed.value('listen') ?? '127.0.0.1', port: number, tls }
}

/** It has its own listener and certificate, so other options about listening are refused. */
function e2bOptions(e2b: E2bDomain, home: Home, parsed: Parsed): TcpOptions {
  const other = ['port', 'listen', 'tls-cert', 'tls-key'].find((option) => parsed.has(option))
  if (other) throw invalid('option.e2b-domain', `--e2b-domain and --${other} cannot be combined`)
  return { host: '127.0.0.1', port: e2b.port, tls: ownCertificate(home, e2b.domain) }
}

function e2bVariables(e2b: E2bDomain | undefined, home: Home, tcp: TcpAddress | undefined): string {
  if (!e2b || !tcp) return ''
  return `; E2B_DOMAIN=${e2b.domain}:${tcp.port} NODE_EXTRA_CA_CERTS=${home.tlsCa}`
}

/** A key may send four seconds' worth of requests at once. */
const BURST_SECONDS = 4

function limits(parsed: Parsed, env: Readonly<Record<string, string | undefined>>): ServerLimits {
  const count = (option: string, text = parsed.value(option)): number | undefined => {
    if (text === undefined) return undefined
    const number = parseNumber(text, option)
    if (Number.isInteger(number) && number >= 1 && number <= 1_000_000) return number
    throw invalid(`option.${option}`, `--${option} is a whole number from 1 to 1000000`)
  }
  const perSecond = count('key-rate')
  return {
    living: count('key-sandboxes'),
    keptRuns: count('kept-runs', parsed.value('kept-runs') ?? env['AGENTPOD_KEPT_RUNS']),
    rate: perSecond === undefined ? undefined : { perSecond, burst: perSecond * BURST_SECONDS },
  }
}

function readPem(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw fileError(error, { reason: 'option.tls', what: 'cannot read', path: file })
  }
}

function whereabouts(home: Home, tcp: TcpAddress | undefined): string {
  return tcp ? `${tcp.isTls ? 'https' : 'http'}://${tcp.host}:${tcp.port} and ${home.socket}` : home.socket
}

/** Tests shorten the wait. */
function idleExitMs(env: Readonly<Record<string, string | undefined>>): number {
  const text = env['AGENTPOD_IDLE_EXIT_MS']
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : IDLE_EXIT_MS
}

/** The number of blank shells; tests and benchmarks use none. */
function shells(env: Readonly<Record<string, string | undefined>>): number | undefined {
  const text = env['AGENTPOD_SHELLS']
  return text !== undefined && /^\d{1,2}$/.test(text) ? Number(text) : undefined
}
