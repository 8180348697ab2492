/** Secrets on the way out: the value goes into its slot over verified TLS and nowhere else, and does not come back. */
import type { BoundSecret } from '../core/secret.ts'
import { Masker } from '../secrets/masker.ts'
import { mentions } from '../secrets/scanner.ts'
import { listOf, pairs, type ResponseHead, without } from './http-head.ts'
import type { Handling, Hooks } from './http-hooks.ts'
import { type Refusal, refusal } from './refusal.ts'
import { BodyGuard, BodyMask, isReadable, Misplaced, unpackerOf } from './secret-body.ts'
import { FrameGuard, FrameMask } from './secret-frames.ts'
import { boundTo, fillRequest, misplacedOf } from './secret-request.ts'

export const secretHooks: Hooks = {
  begin({ head, site, link, via }) {
    const { secrets } = link.spec
    if (secrets.length === 0) return { head }
    const bound = boundTo(site, secrets)
    const codings = listOf(head.headers, 'content-encoding')
    // What cannot be unpacked could hold anything, a placeholder included.
    if (!isReadable(codings))
      return refusal(
        403,
        'secret.coding',
        'the body is packed in a way that cannot be looked into',
        'send it as it is',
      )
    const filled = fillRequest(head, bound, secrets)
    if ('status' in filled) return filled
    if (filled.stripped.length > 0) {
      const message = `credentials that are not the user's were taken out of the request (${filled.stripped.join(', ')})`
      link.note({
        outcome: 'denied',
        target: site.target,
        via,
        reason: 'credential.foreign',
        message,
        request: head,
      })
    }
    const asked =
      bound.length > 0
        ? [...filled.head.headers, ['Accept-Encoding', 'identity'] as const]
        : filled.head.headers
    return {
      ...guarding(secrets, codings),
      ...(bound.length > 0 && covering(bound)),
      head: { ...filled.head, headers: asked },
    }
  },
}

/** Nothing leaves with a placeholder in it. */
function guarding(secrets: readonly BoundSecret[], codings: readonly string[]): Omit<Handling, 'head'> {
  const placeholders = secrets.map(({ placeholder }) => placeholder)
  return {
    bodyOut: new BodyGuard(placeholders, codings),
    isSameLength: true,
    checkTrailers: (raw) => trailerRefusal(raw, placeholders),
    refusalOf: (error) => (error instanceof Misplaced ? misplacedOf(undefined) : undefined),
    framesOut: () => new FrameGuard(placeholders),
  }
}

function trailerRefusal(raw: readonly string[], placeholders: readonly string[]): Refusal | undefined {
  const isMentioned = pairs(raw).some(([name, value]) => mentions(`${name}: ${value}`, placeholders))
  return isMentioned ? misplacedOf(undefined) : undefined
}

/** Nothing comes back with a value in it. */
function covering(bound: readonly BoundSecret[]): Partial<Handling> {
  const values = bound.flatMap(valuesOf)
  const codingsOf = ({ headers }: ResponseHead): string[] => listOf(headers, 'content-encoding')
  let codings: string[] = []
  return {
    response(head) {
      codings = codingsOf(head)
      const masker = new Masker(values)
      const headers = head.headers.map(([name, value]) => [masker.text(name), masker.text(value)] as const)
      const isUnpacked = unpackerOf(codings) !== undefined
      const plain = isUnpacked ? without(without(headers, 'content-encoding'), 'content-length') : headers
      return { ...head, message: masker.text(head.message), headers: plain }
    },
    bodyIn() {
      const mask = new BodyMask(values, codings)
      if (!isReadable(codings))
        mask.destroy(new Error('the answer is packed in a way that cannot be looked into'))
      return mask
    },
    framesIn: () => new FrameMask(values),
  }
}

/** In Basic authorization the value travels with its user before it. */
function valuesOf({ value, slot }: BoundSecret): string[] {
  return slot.scheme.kind === 'basic' ? [value, `${slot.scheme.user}:${value}`] : [value]
}
