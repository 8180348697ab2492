import { AgentPodError, invalid } from '../core/error.ts'

const LONGEST_BODY_BYTES = 4 * 1024 * 1024

/** A JSON body, read with a bound. No body is an empty object. */
export async function readJson(request: Request): Promise<unknown> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of request.body ?? []) {
    size += chunk.length
    if (size > LONGEST_BODY_BYTES) {
      throw new AgentPodError({
        code: 'resource_exhausted',
        reason: 'body.too_large',
        message: `a request body has at most ${LONGEST_BODY_BYTES} bytes`,
      })
    }
    chunks.push(chunk)
  }
  if (size === 0) return {}
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks)))
  } catch {
    throw invalid('body.malformed', 'the body is not JSON')
  }
}
