/** What E2B has and we have not yet. Each is refused by name, so that nobody mistakes silence for success. */
import { AgentPodError } from '../../core/error.ts'

/** Whole routes: the method, the path as Hono writes it, what it is and when it comes. */
export const LATER: readonly (readonly [method: string, path: string, what: string])[] = [
  ...['/v3/templates', '/v2/templates', '/templates'].map(
    (path) => ['POST', path, 'building templates comes with a later release'] as const,
  ),
  ...[
    '/templates/tags',
    '/templates/:id/tags',
    '/templates/:id',
    '/templates/:id/*',
    '/v2/templates/:id/*',
  ].map((path) => ['ALL', path, 'building templates comes with a later release'] as const),
  ...['/volumes', '/volumes/*', '/volumecontent/*'].map(
    (path) => ['ALL', path, 'volumes come with a later release'] as const,
  ),
  ...['/secrets', '/secrets/*'].map((path) => ['ALL', path, 'secrets come with a later release'] as const),
]

/** The error of a route that is not there yet. */
export function later(what: string): AgentPodError {
  return new AgentPodError({
    code: 'unsupported',
    reason: 'e2b.later',
    message: `not supported here: ${what}`,
  })
}

/** The error of an option that is not there yet. */
export function laterOption(option: string, what: string): AgentPodError {
  return new AgentPodError({
    code: 'invalid_argument',
    reason: 'e2b.later_option',
    message: `${option} is not supported here: ${what}`,
  })
}
