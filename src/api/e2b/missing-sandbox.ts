/** E2B's answers for a sandbox that does not run and for a closed port: 502, as JSON or as a page. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { isAgentPodError } from '../../core/error.ts'

/** Whether an error means that no such sandbox is running. */
export function isMissing(error: unknown): boolean {
  return (
    isAgentPodError(error) &&
    ['sandbox.unknown', 'sandbox.ended', 'sandbox.state', 'guest.unreachable'].includes(error.reason)
  )
}

export function answerMissing(request: IncomingMessage, response: ServerResponse, sandboxId: string): void {
  answer(request, response, { sandboxId, message: 'The sandbox was not found', code: 502 })
}

export function answerPortClosed(
  request: IncomingMessage,
  response: ServerResponse,
  target: { id: string; port: number },
): void {
  answer(request, response, {
    sandboxId: target.id,
    message: 'The sandbox is running but port is not open',
    port: target.port,
    code: 502,
  })
}

function answer(
  request: IncomingMessage,
  response: ServerResponse,
  body: {
    readonly message: string
    readonly sandboxId: string
    readonly port?: number
    readonly code: number
  },
): void {
  const isBrowser = (request.headers.accept ?? '').includes('text/html')
  const text = isBrowser ? page(body.message, body.sandboxId) : JSON.stringify(body)
  response.writeHead(502, {
    'content-type': isBrowser ? 'text/html; charset=utf-8' : 'application/json',
    'content-length': Buffer.byteLength(text),
    'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'",
  })
  response.end(text)
}

function page(message: string, sandboxId: string): string {
  const id = sandboxId.replaceAll(/[^a-z0-9]/g, '')
  return `<!doctype html><meta charset="utf-8"><title>${message}</title><style>body{font:16px system-ui;margin:4rem auto;max-width:36rem;color:#222}code{background:#eee;padding:.1em .3em}</style><h1>${message}</h1><p>Sandbox <code>${id}</code></p>`
}
