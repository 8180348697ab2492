/**
 * Asks a package manager of this machine for its registry, so that a company's mirror needs no extra
 * configuration.
 */
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ClientPreset } from './catalog.ts'
import { watchHosts } from './host-watch.ts'

export interface ClientQuery {
  readonly env: Readonly<Record<string, string | undefined>>
  /** The user's home directory. */
  readonly home: string
}

/** The registry of a client, and the settings that the same client needs in a sandbox. */
export interface ClientAnswer {
  /** `host` or `host:port`. */
  readonly hosts: readonly string[]
  readonly variables: Readonly<Record<string, string>>
  /** Under the home directory inside. */
  readonly files: readonly { readonly path: string; readonly text: string }[]
}

const ASK_MS = 30_000
const LONGEST_ANSWER = 4 * 1024 * 1024

/** Undefined if this machine has no such client or it does not tell. */
export async function askClient(name: ClientPreset, asking: ClientQuery): Promise<ClientAnswer | undefined> {
  const answer = await CLIENTS[name](asking)
  return answer && answer.hosts.length > 0 ? answer : undefined
}

const CLIENTS: Readonly<Record<ClientPreset, (asking: ClientQuery) => Promise<ClientAnswer | undefined>>> = {
  async npm(asking) {
    const text = await run(asking, 'npm', ['config', 'list', '--json'])
    if (text === undefined) return undefined
    const settings = JSON.parse(text) as Record<string, unknown>
    const urls = Object.entries(settings).flatMap(([key, value]) =>
      (key === 'registry' || key.endsWith(':registry')) && typeof value === 'string'
        ? [[key, value] as const]
        : [],
    )
    const variables = Object.fromEntries(urls.map(([key, url]) => [`npm_config_${key}`, withoutUser(url)]))
    return answerOf(
      urls.map(([, url]) => url),
      plainNames(variables),
    )
  },

  async pip(asking) {
    const own = await run(asking, 'python3', ['-c', PIP_DEFAULTS])
    const set = await run(asking, 'python3', ['-m', 'pip', 'config', 'list'])
    if (own === undefined && set === undefined) return undefined
    const chosen = [...(set ?? '').matchAll(/^\S*\.(index-url|extra-index-url)='(.*)'$/gm)].map(
      ([, key = '', value = '']) => [key, value.split(/\s+/).filter(Boolean)] as const,
    )
    const index = chosen.findLast(([key]) => key === 'index-url')?.[1]
    const extra = chosen.findLast(([key]) => key === 'extra-index-url')?.[1] ?? []
    const variables = {
      ...(index && { PIP_INDEX_URL: index.map(withoutUser).join(' ') }),
      ...(extra.length > 0 && { PIP_EXTRA_INDEX_URL: extra.map(withoutUser).join(' ') }),
    }
    return answerOf([...(index ?? (own ?? '').split(/\s+/)), ...extra], variables)
  },

  async apt(asking) {
    const text = await run(asking, 'apt-get', ['update', '--print-uris'])
    return text === undefined
      ? undefined
      : answerOf(
          [...text.matchAll(/^'([^']+)'/gm)].map(([, url = '']) => url),
          {},
        )
  },

  async cargo(asking) {
    const directory = asking.env['CARGO_HOME'] ?? join(asking.home, '.cargo')
    const config = await readFile(join(directory, 'config.toml'), 'utf8').catch(() => undefined)
    const hosts = await watchHosts((proxy, scratch) => ({
      command: 'cargo',
      args: ['fetch', '--quiet'],
      cwd: join(scratch, 'crate'),
      env: { ...asking.env, CARGO_HTTP_PROXY: proxy, CARGO_HOME: join(scratch, 'home') },
      files: {
        'crate/Cargo.toml': CRATE,
        'crate/src/lib.rs': '',
        ...(config !== undefined && { 'home/config.toml': config }),
      },
    }))
    if (hosts === undefined) return undefined
    const sources = config && sourceTables(config)
    return { hosts, variables: {}, files: sources ? [{ path: '.cargo/config.toml', text: sources }] : [] }
  },

  async go(asking) {
    const text = await run(asking, 'go', [
      'env',
      '-json',
      'GOPROXY',
      'GOSUMDB',
      'GONOSUMDB',
      'GONOPROXY',
      'GOPRIVATE',
    ])
    if (text === undefined) return undefined
    const settings = JSON.parse(text) as Record<string, string>
    const proxies = (settings['GOPROXY'] ?? '')
      .split(/[,|]/)
      .filter((one) => one !== 'direct' && one !== 'off')
    const [sums = ''] = (settings['GOSUMDB'] ?? '').split(' ').slice(-1)
    const sumUrl =
      sums === 'off' || sums === '' ? [] : [sums.includes('://') ? sums : `https://${sums.split('+')[0]}`]
    const variables = Object.fromEntries(
      Object.entries(settings)
        .filter(([, value]) => value !== '')
        .map(([key, value]) => [key, key === 'GOPROXY' ? value.replaceAll(/:\/\/[^@/,|]*@/g, '://') : value]),
    )
    return answerOf([...proxies, ...sumUrl], variables)
  },

  async maven(asking) {
    const settings = await readFile(join(asking.home, '.m2', 'settings.xml'), 'utf8').catch(() => undefined)
    const hosts = await watchHosts((proxy, scratch) => {
      const { port } = new URL(proxy)
      const through = ['http', 'https'].flatMap((scheme) => [
        `-D${scheme}.proxyHost=127.0.0.1`,
        `-D${scheme}.proxyPort=${port}`,
      ])
      return {
        command: 'mvn',
        args: ['-B', '-q', ...through, `-Dmaven.repo.local=${join(scratch, 'repository')}`, MISSING_PLUGIN],
        cwd: scratch,
        env: asking.env,
        files: {},
      }
    })
    if (hosts === undefined) return undefined
    const mirrors = /<mirrors>[\s\S]*?<\/mirrors>/.exec(settings ?? '')?.[0]
    const text = mirrors && `<settings>\n${mirrors}\n</settings>\n`
    return { hosts, variables: {}, files: text ? [{ path: '.m2/settings.xml', text }] : [] }
  },
}

const PIP_DEFAULTS = `
from pip._internal.models.index import PyPI
print(PyPI.simple_url, 'https://' + PyPI.file_storage_domain)
`
/** Small, and has been there for years. */
const CRATE =
  '[package]\nname = "agentpod-asks"\nversion = "0.0.0"\nedition = "2018"\n\n[dependencies]\nitoa = "1"\n'
/** No repository has this plugin, so Maven asks each one. */
const MISSING_PLUGIN = 'org.apache.maven.plugins:maven-help-plugin:0.0.0-agentpod:help'

/**
 * SECURITY: LK-05. Only the tables that name crate sources are copied into the sandbox: the file may hold
 * tokens.
 */
function sourceTables(config: string): string | undefined {
  const tables = config.split(/^(?=\s*\[)/m).filter((table) => /^\s*\[source\./.test(table))
  return tables.length === 0 ? undefined : tables.join('').replaceAll(/:\/\/[^@/\s"']*@/g, '://')
}

function answerOf(urls: readonly string[], variables: Readonly<Record<string, string>>): ClientAnswer {
  return { hosts: [...new Set(urls.flatMap(hostOf))], variables, files: [] }
}

/** Variable names that a shell accepts; npm's settings for a scope contain other characters. */
function plainNames(variables: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(variables).filter(([name]) => /^[A-Za-z_][A-Za-z0-9_]*$/.test(name)),
  )
}

function hostOf(text: string): string[] {
  const url = URL.parse(text)
  if (!url || (url.protocol !== 'http:' && url.protocol !== 'https:')) return []
  return [url.port === '' ? url.hostname : `${url.hostname}:${url.port}`]
}

/** SECURITY: SE-01. A password in a URL stays outside the sandbox; use a secret for it. */
function withoutUser(text: string): string {
  return text.replace(/:\/\/[^@/]*@/, '://')
}

function run(asking: ClientQuery, command: string, args: readonly string[]): Promise<string | undefined> {
  return new Promise((resolve) => {
    execFile(
      command,
      args,
      // The root directory has no project files that the client would read.
      { cwd: '/', env: { ...asking.env }, timeout: ASK_MS, maxBuffer: LONGEST_ANSWER },
      (error, stdout) => resolve(error ? undefined : stdout),
    )
  })
}
