/** The default server: AGENTPOD_URL with AGENTPOD_API_KEY, or else the socket in the state directory. */
import { homedir } from 'node:os'
import { invalid } from '../core/error.ts'
import { homeAt } from '../core/home.ts'
import type { Place } from './transport.ts'

export interface PlaceOptions {
  readonly socket?: string | undefined
  readonly url?: string | undefined
  readonly key?: string | undefined
}

export function placeOf(o: PlaceOptions): Place {
  if (o.socket !== undefined) return { socket: o.socket }
  const url = o.url ?? process.env['AGENTPOD_URL']
  if (url === undefined)
    return { socket: homeAt(process.env['AGENTPOD_HOME'] ?? `${homedir()}/.agentpod`).socket }
  const key = o.key ?? process.env['AGENTPOD_API_KEY']
  if (key === undefined) {
    throw invalid('key.missing', `${url} needs a key`, 'pass it as `key`, or set AGENTPOD_API_KEY')
  }
  return { url, key }
}

/** The variables of this program, for git, which lists the files that a copy takes. */
export function clientEnvironment(): Readonly<Record<string, string | undefined>> {
  return process.env
}
