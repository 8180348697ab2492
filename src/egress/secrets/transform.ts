/**
 * Secrets in outgoing requests: a value is only sent in its slot, over verified TLS, and is masked in
 * responses.
 */
import type { ModelUsage } from '../../core/network.ts'
import type { BoundSecret } from '../../core/secret.ts'
import { Masker } from '../../secrets/masker.ts'
import type { SearchSet } from '../../secrets/search-set.ts'
import type { Limit, Spend } from '../decide/budget.ts'
import { listOf, pairs, type ResponseHead, valuesOf, without } from '../http/head.ts'
import type { PolicyAllowedRequest, RequestTransform, TransformRequest } from '../http/request-transform.ts'
import { formOf, UsageMeter } from '../record/usage-meter.ts'
import { newRefusal, type Refusal } from '../refusal.ts'
import {
  BodyGuard,
  BodyMask,
  type BodyObserver,
  BudgetExceeded,
  PlaceholderFound,
  UndecodableBody,
} from './body.ts'
import { codingOf, isDecompressible } from './decompress.ts'
import { boundTo, fillRequest, findMisplaced, misplacedRefusal } from './fill-request.ts'
import { FrameGuard, FrameMask } from './frames.ts'
import { searchSetsOf } from './search-sets.ts'

const CODING = newRefusal(
  403,
  'secret.coding',
  'the body has a Content-Encoding that cannot be searched for placeholders',
  'send it uncompressed',
)
const RATE = newRefusal(
  429,
  'budget.rate',
  'the request limit of a secret for this minute is reached',
  'wait a minute',
)
const BYTES = newRefusal(
  429,
  'budget.bytes',
  'the byte budget of a secret is used up',
  'ask the user for a larger budget',
)

export const applySecrets: TransformRequest = (request) => {
  const { head, site, sandbox } = request
  const { secrets } = sandbox.spec
  if (secrets.length === 0) return { head }
  const bound = boundTo(site, secrets)
  const sets = searchSetsOf(secrets)
  const codings = listOf(head.headers, 'content-encoding')
  // A body that cannot be decompressed could hide a placeholder.
  if (!isDecompressible(codings)) return CODING
  const filled = fillRequest(head, { bound, all: secrets, placeholders: sets.placeholders })
  if ('status' in filled) return filled
  const limits = filled.used.flatMap(limitOf)
  const exhausted = limits.length > 0 ? sandbox.budgets.admitAll(limits) : undefined
  if (exhausted) return exhausted === 'budget.rate' ? RATE : BYTES
  if (filled.stripped.length > 0) noteStripped(request, filled.stripped)
  const spend = limits.length > 0 ? sandbox.budgets.spenderOf(limits) : undefined
  // An agent that has printed its environment repeats the placeholder in every later request to its model.
  // In a request to a metered model a plain placeholder is therefore masked instead of refused.
  const isMetered = sandbox.spec.meter === true && filled.used.length > 0
  const guarded = guardRequest({
    secrets,
    placeholders: sets.placeholders,
    codings,
    spend,
    masksPlaceholders: isMetered,
  })
  if (bound.length === 0) return { ...guarded, head: filled.head }
  return {
    ...guarded,
    ...maskResponse(
      sets.values(site, bound),
      spend,
      isMetered ? (usage) => sandbox.usage.note(usage) : undefined,
    ),
    head: { ...filled.head, headers: [...filled.head.headers, ['Accept-Encoding', 'identity']] },
  }
}

/** The budget of a secret applies in addition to the budget of the rule that allows the request. */
function limitOf({ name, slot: { budget } }: BoundSecret): Limit[] {
  return budget ? [{ key: `secret ${name}`, budget }] : []
}

function noteStripped({ head, site, sandbox, via }: PolicyAllowedRequest, stripped: readonly string[]): void {
  const message = `credentials other than the user's were removed from the request (${stripped.join(', ')})`
  const reason = 'credential.foreign'
  sandbox.note({ outcome: 'denied', destination: site.destination, via, reason, message, request: head })
}

interface GuardedRequest {
  readonly secrets: readonly BoundSecret[]
  readonly placeholders: SearchSet
  readonly codings: readonly string[]
  readonly spend: Spend | undefined
  readonly masksPlaceholders: boolean
}

/** Refuses a body, trailer or WebSocket frame that contains a placeholder. */
function guardRequest({
  secrets,
  placeholders,
  codings,
  spend,
  masksPlaceholders,
}: GuardedRequest): Omit<RequestTransform, 'head'> {
  return {
    bodyOut: new BodyGuard(placeholders, codings, spend, { masksPlaceholders }),
    isSameLength: true,
    checkTrailers: (raw) => findMisplaced(pairs(raw).flat(), secrets, placeholders),
    refusalOf: bodyRefusal,
    framesOut: () => new FrameGuard(placeholders, spend),
  }
}

function bodyRefusal(error: Error): Refusal | undefined {
  if (error instanceof PlaceholderFound) return misplacedRefusal(undefined)
  if (error instanceof UndecodableBody) return CODING
  return error instanceof BudgetExceeded ? BYTES : undefined
}

const NOTHING_USED = { model: '', input: 0, cached: 0, output: 0 } as const

/** SECURITY: the meter reads the masked body, so the name of a model never contains the value of a secret. */
function meterOf(
  { status, headers }: ResponseHead,
  onUsage: (usage: ModelUsage) => void,
): BodyObserver | undefined {
  if (status >= 400)
    return { push: () => undefined, end: () => onUsage({ ...NOTHING_USED, refusal: status }) }
  const form = formOf(valuesOf(headers, 'content-type').at(-1) ?? '')
  if (form === undefined) return undefined
  const meter = new UsageMeter(form)
  return {
    push: (chunk) => meter.push(chunk),
    end: () => {
      if (meter.usage) onUsage(meter.usage)
    },
  }
}

/** Masks the values of secrets in the head, body, trailers and WebSocket frames of a response. */
function maskResponse(
  values: SearchSet,
  spend: Spend | undefined,
  onUsage: ((usage: ModelUsage) => void) | undefined,
): Partial<RequestTransform> {
  const codingsOf = ({ headers }: ResponseHead): string[] => listOf(headers, 'content-encoding')
  let codings: string[] = []
  return {
    response(head) {
      codings = codingsOf(head)
      const masker = new Masker(values)
      const headers = head.headers.map(([name, value]) => [masker.text(name), masker.text(value)] as const)
      const isDecompressed = codingOf(codings) !== undefined && isDecompressible(codings)
      const plain = isDecompressed ? without(without(headers, 'content-encoding'), 'content-length') : headers
      return { ...head, message: masker.text(head.message), headers: plain }
    },
    bodyIn(head) {
      const mask = new BodyMask(values, codings, spend, onUsage && meterOf(head, onUsage))
      if (!isDecompressible(codings))
        mask.destroy(new Error('the response has a Content-Encoding that cannot be searched for secrets'))
      return mask
    },
    trailersIn: (raw) => raw.map((word) => new Masker(values).text(word)),
    framesIn: () => new FrameMask(values, spend),
  }
}
