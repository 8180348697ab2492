/** The bundle has the version put in; from source it is read where it is kept. */
import { createRequire } from 'node:module'

declare const AGENTPOD_VERSION: string | undefined

export const VERSION: string =
  typeof AGENTPOD_VERSION === 'string'
    ? AGENTPOD_VERSION
    : (createRequire(import.meta.url)('../../package.json') as { version: string }).version

declare const AGENTPOD_BUILD: string | undefined

/** Which build this is, by its sources; undefined where the sources themselves are run. */
export const BUILD: string | undefined = typeof AGENTPOD_BUILD === 'string' ? AGENTPOD_BUILD : undefined
