/** What E2B's programs find in their environment, so that they know where they are. */
import { createHash } from 'node:crypto'
import type { Sandbox } from '../../core/sandbox.ts'
import type { AddedInside } from '../../engine/context.ts'
import { TEMPLATE_LABEL } from './new-sandbox.ts'

/** Where podd answers inside, in place of E2B's own address for events. */
const EVENTS = 'http://127.0.0.1:49983'

/** Nothing for a sandbox that no client of E2B's made. */
export function insideOf({ id, owner, labels }: Sandbox): AddedInside {
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

/** E2B's teams have a UUID. SECURITY: what a key is called outside is not told inside. */
export function teamOf(owner: string): string {
  const hex = createHash('sha256').update(`e2b-team:${owner}`).digest('hex')
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `8${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ].join('-')
}
