/** Routes and options of E2B that AgentPod does not support. Each is refused explicitly, never ignored. */
import { AgentPodError } from '../../core/error.ts'

/** The method, the path in Hono's syntax, and the message. */
export const UNSUPPORTED_ROUTES: readonly (readonly [method: string, path: string, what: string])[] = [
  ...['/v3/templates', '/v2/templates', '/templates'].map(
    (path) => ['POST', path, 'building templates is planned for a later release'] as const,
  ),
  ...[
    '/templates/tags',
    '/templates/:id/tags',
    '/templates/:id',
    '/templates/:id/*',
    '/v2/templates/:id/*',
  ].map((path) => ['ALL', path, 'building templates is planned for a later release'] as const),
  ...['/secrets', '/secrets/*'].map(
    (path) => ['ALL', path, 'secrets are planned for a later release'] as const,
  ),
]

/** The error of an unsupported route. */
export function unsupportedRoute(what: string): AgentPodError {
  return new AgentPodError({
    code: 'unsupported',
    reason: 'e2b.later',
    message: `not supported here: ${what}`,
  })
}

/** The error of an unsupported option. */
export function unsupportedOption(option: string, what: string): AgentPodError {
  return new AgentPodError({
    code: 'invalid_argument',
    reason: 'e2b.later_option',
    message: `${option} is not supported here: ${what}`,
  })
}
