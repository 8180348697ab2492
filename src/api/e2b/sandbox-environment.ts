/** The environment variables by which programs recognize an E2B sandbox. */

import type { Sandbox } from '../../core/sandbox.ts'
import type { AddedInside } from '../../engine/context.ts'
import { sha256Hex } from '../../util/sha256.ts'
import { ENVD_PORT } from './headers.ts'
import { TEMPLATE_LABEL } from './new-sandbox.ts'

/** podd inside the sandbox answers here, in place of E2B's own service for events. */
const EVENTS = `http://127.0.0.1:${ENVD_PORT}`

/** Empty for a sandbox that was not created through E2B's API. */
export function e2bEnvironment({ id, owner, labels }: Sandbox): AddedInside {
  const template = labels[TEMPLATE_LABEL]
  if (template === undefined) return { variables: {}, envd: false }
  return {
    variables: {
      E2B_SANDBOX: 'true',
      E2B_SANDBOX_ID: id,
      E2B_TEAM_ID: teamOf(owner),
      E2B_TEMPLATE_ID: template,
      E2B_EVENTS_ADDRESS: EVENTS,
    },
    envd: true,
  }
}

/**
 * E2B's teams have a UUID. SECURITY: it is a hash, because a sandbox must not learn the name of its owner's
 * key.
 */
export function teamOf(owner: string): string {
  const hex = sha256Hex(`e2b-team:${owner}`)
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `8${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ].join('-')
}
