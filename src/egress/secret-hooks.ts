/** Secrets on the way out: the value goes into its slot over verified TLS and nowhere else, and does not come back. */
import type { ModelUsage } from '../core/network.ts'
import type { BoundSecret } from '../core/secret.ts'
import { Masker } from '../secrets/masker.ts'
import type { Watch } from '../secrets/watch.ts'
import type { Limit, Spend } from './budget.ts'
import { listOf, pairs, type ResponseHead, valuesOf, without } from './http-head.ts'
import type { Handling, Hooks } from './http-hooks.ts'
import { type Refusal, refusal } from './refusal.ts'
import { BodyGuard, BodyMask, Misplaced, type Onlooker, Overspent, Unreadable } from './secret-body.ts'
import { FrameGuard, FrameMask } from './secret-frames.ts'
import { boundTo, fillRequest, misplacedIn, misplacedOf } from './secret-request.ts'
import { watchOf } from './secret-watch.ts'
import { codingOf, isReadable } from './unpack.ts'
import { formOf, UsageMeter } from './usage-meter.ts'

const CODING = refusal(
  403,
  'secret.coding',
  'the body is packed in a way that cannot be looked into',
  'send it as it is',
)
const RATE = refusal(
  429,
  'budget.rate',
  'the requests of this minute with a secret are used up',
  'wait a minute',
)
const BYTES = refusal(
  429,
  'budget.bytes',
  'the bytes that a secret is good for are used up',
  'ask the user for more',
)

export const secretHooks: Hooks = {
  begin({ head, site, link, via }) {
    const { secrets } = link.spec
    if (secrets.length === 0) return { head }
    const bound = boundTo(site, secrets)
    const watch = watchOf(secrets)
    const codings = listOf(head.headers, 'content-encoding')
    // What cannot be unpacked could hold anything, a placeholder included.
    if (!isReadable(codings)) return CODING
    const filled = fillRequest(head, { bound, all: secrets, placeholders: watch.placeholders })
    if ('status' in filled) return filled
    const limits = filled.used.flatMap(limitOf)
    const exhausted = limits.length > 0 ? link.budgets.admitAll(limits) : undefined
    if (exhausted) return exhausted === 'budget.rate' ? RATE : BYTES
    if (filled.stripped.length > 0) noteStripped({ head, site, link, via }, filled.stripped)
    const spend = limits.length > 0 ? link.budgets.spenderOf(limits) : undefined
    // An agent that has looked at its environment tells its model what it saw, in every request from then on. What stands for a key is worth nothing there.
    const isMetered = link.spec.meter === true && filled.used.length > 0
    const guarded = guarding({
      secrets,
      placeholders: watch.placeholders,
      codings,
      spend,
      covers: isMetered,
    })
    if (bound.length === 0) return { ...guarded, head: filled.head }
    return {
      ...guarded,
      ...covering(
        watch.values(site, bound),
        spend,
        isMetered ? (usage) => link.usage.note(usage) : undefined,
      ),
      head: { ...filled.head, headers: [...filled.head.headers, ['Accept-Encoding', 'identity']] },
    }
  },
}

/** A secret has a budget of its own, which holds whatever rule lets the request go. */
function limitOf({ name, slot: { budget } }: BoundSecret): Limit[] {
  return budget ? [{ key: `secret ${name}`, budget }] : []
}

function noteStripped(
  { head, site, link, via }: Parameters<Hooks['begin']>[0],
  stripped: readonly string[],
): void {
  const message = `credentials that are not the user's were taken out of the request (${stripped.join(', ')})`
  const reason = 'credential.foreign'
  link.note({ outcome: 'denied', target: site.target, via, reason, message, request: head })
}

interface Guarding {
  readonly secrets: readonly BoundSecret[]
  readonly placeholders: Watch
  readonly codings: readonly string[]
  readonly spend: Spend | undefined
  readonly covers: boolean
}

/** Nothing leaves with a placeholder in it. */
function guarding({ secrets, placeholders, codings, spend, covers }: Guarding): Omit<Handling, 'head'> {
  return {
    bodyOut: new BodyGuard(placeholders, codings, spend, { covers }),
    isSameLength: true,
    checkTrailers: (raw) => misplacedIn(pairs(raw).flat(), secrets, placeholders),
    refusalOf,
    framesOut: () => new FrameGuard(placeholders, spend),
  }
}

function refusalOf(error: Error): Refusal | undefined {
  if (error instanceof Misplaced) return misplacedOf(undefined)
  if (error instanceof Unreadable) return CODING
  return error instanceof Overspent ? BYTES : undefined
}

const NOTHING_USED = { model: '', input: 0, cached: 0, output: 0 } as const

/** SECURITY: it sees what the client gets, so no name of a model is a value. */
function meterOf(
  { status, headers }: ResponseHead,
  onUsage: (usage: ModelUsage) => void,
): Onlooker | undefined {
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

/** Nothing comes back with a value in it. */
function covering(
  values: Watch,
  spend: Spend | undefined,
  onUsage: ((usage: ModelUsage) => void) | undefined,
): Partial<Handling> {
  const codingsOf = ({ headers }: ResponseHead): string[] => listOf(headers, 'content-encoding')
  let codings: string[] = []
  return {
    response(head) {
      codings = codingsOf(head)
      const masker = new Masker(values)
      const headers = head.headers.map(([name, value]) => [masker.text(name), masker.text(value)] as const)
      const isUnpacked = codingOf(codings) !== undefined && isReadable(codings)
      const plain = isUnpacked ? without(without(headers, 'content-encoding'), 'content-length') : headers
      return { ...head, message: masker.text(head.message), headers: plain }
    },
    bodyIn(head) {
      const mask = new BodyMask(values, codings, spend, onUsage && meterOf(head, onUsage))
      if (!isReadable(codings))
        mask.destroy(new Error('the answer is packed in a way that cannot be looked into'))
      return mask
    },
    trailersIn: (raw) => raw.map((word) => new Masker(values).text(word)),
    framesIn: () => new FrameMask(values, spend),
  }
}
