/** How long a sandbox that a person keeps lives. */
import type { CreateOptions, Sandbox } from '../../client/sandbox.ts'
import { isAgentPodError } from '../../core/error.ts'
import { KEPT_LIFETIME } from '../../core/spec.ts'
import { dropUndefined } from '../../util/drop-undefined.ts'
import type { Person } from '../ask.ts'

/** The reason of the server's error for such a provider. */
const LACKS_STOPPING = 'stop.unsupported'

type AskedLifetime = NonNullable<CreateOptions['lifetime']>

/**
 * It loses nothing unless the person asks for that: it is paused when it is idle, and stopped at its end. A
 * person who says what happens at the end decides about idleness too.
 */
export function keptLifetime(asked: AskedLifetime = {}): AskedLifetime {
  const own = dropUndefined(asked)
  const { ttlMs, ...rest } = KEPT_LIFETIME
  return { ttlMs, ...(own.whenOver === undefined && rest), ...own }
}

/** If the provider cannot stop a sandbox, the sandbox is destroyed at its end, and a note says so. */
export async function createKept(
  person: Person,
  options: CreateOptions,
  create: (options: CreateOptions) => Promise<Sandbox>,
): Promise<Sandbox> {
  try {
    return await create({ ...options, lifetime: keptLifetime(options.lifetime) })
  } catch (error) {
    const isOwnChoice = options.lifetime?.whenOver === undefined
    if (!isAgentPodError(error, 'unsupported') || error.reason !== LACKS_STOPPING || !isOwnChoice) throw error
    const text = 'this provider cannot stop a sandbox and keep its files: it is destroyed when its time is up'
    person.notice({ kind: 'note', text })
    const { ttlMs } = KEPT_LIFETIME
    return create({
      ...options,
      lifetime: { ttlMs, ...dropUndefined(options.lifetime), whenOver: 'destroy' },
    })
  }
}
