/**
 * The server that commands talk to: the local one or a named remote one. Only the owner can read the file
 * with keys.
 */
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { AgentPodError, invalid } from '../../core/error.ts'
import type { Home } from '../../core/home.ts'
import { makeDirectory } from '../../util/file/make-directory.ts'
import { homeUnusable } from '../output/file-error.ts'

export interface RemoteContext {
  readonly url: string
  readonly key: string
}

export interface Contexts {
  /** Undefined is the local server. */
  readonly current: string | undefined
  readonly named: Readonly<Record<string, RemoteContext>>
}

const NONE: Contexts = { current: undefined, named: {} }

export function readContexts(home: Home): Contexts {
  let text: string
  try {
    text = readFileSync(home.contexts, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return NONE
    throw homeUnusable(home.root, error)
  }
  try {
    const parsed = JSON.parse(text) as { current?: string; named: Record<string, RemoteContext> }
    return { current: parsed.current, named: parsed.named }
  } catch (error) {
    throw new AgentPodError({
      code: 'data_loss',
      reason: 'contexts.damaged',
      message: `${home.contexts} is damaged`,
      hint: 'remove it and add your servers again with `agentpod context add`',
      cause: error,
    })
  }
}

export function writeContexts(home: Home, contexts: Contexts): void {
  try {
    makeDirectory(home.root, 0o700)
    writeFileSync(home.contexts, JSON.stringify(contexts, null, 2), { mode: 0o600 })
    chmodSync(home.contexts, 0o600)
  } catch (error) {
    throw homeUnusable(home.root, error)
  }
}

/** The present server. The environment wins over the chosen context. */
export function currentContext(
  home: Home,
  env: Readonly<Record<string, string | undefined>>,
): RemoteContext | undefined {
  const url = env['AGENTPOD_URL']
  if (url) return { url: parseUrl(url), key: env['AGENTPOD_API_KEY'] ?? '' }
  const { current, named } = readContexts(home)
  return current === undefined ? undefined : named[current]
}

export function parseUrl(text: string): string {
  const url = URL.parse(text)
  if (url && (url.protocol === 'http:' || url.protocol === 'https:')) return url.origin
  throw invalid('context.url', `${JSON.stringify(text)} is not an http or https address`)
}
