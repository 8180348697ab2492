/** Routes and options of E2B that AgentPod does not support. Each is refused explicitly, never ignored. */
import { AgentPodError } from '../../core/error.ts'

/** The method, the path in Hono's syntax, and the message. */
export const UNSUPPORTED_ROUTES: readonly (readonly [method: string, path: string, what: string])[] = [
  // The path on which E2B built Dockerfiles; its SDKs and its command line have left it.
  ['POST', '/templates', 'builds from a Dockerfile on the server; use a newer SDK or command line'],
  ['POST', '/templates/:id', 'builds from a Dockerfile on the server; use a newer SDK or command line'],
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
