/**
 * The one error class. `code` is from a closed list that each API translates; `reason` is a stable dotted
 * word from an open list; `hint` says what to do next.
 */
export const ERROR_CODES = [
  'invalid_argument',
  'unauthenticated',
  'permission_denied',
  'policy_denied',
  'not_found',
  'already_exists',
  'conflict',
  'unsupported',
  'failed_precondition',
  'resource_exhausted',
  'deadline_exceeded',
  'canceled',
  'unavailable',
  'data_loss',
  'internal',
] as const

export type ErrorCode = (typeof ERROR_CODES)[number]
export type Fault = 'caller' | 'provider' | 'system'
export type Retry = 'no' | 'yes' | { readonly afterMs: number }

export interface ErrorFields {
  readonly code: ErrorCode
  readonly reason: string
  readonly message: string
  readonly hint?: string | undefined
  /** Safe to print: never a secret, never bytes of a sandbox. */
  readonly details?: Readonly<Record<string, unknown>> | undefined
  readonly retry?: Retry | undefined
  readonly cause?: unknown
}

const BRAND = Symbol.for('agentpod.error')

const FAULTS: Record<ErrorCode, Fault> = {
  invalid_argument: 'caller',
  unauthenticated: 'caller',
  permission_denied: 'caller',
  policy_denied: 'caller',
  not_found: 'caller',
  already_exists: 'caller',
  conflict: 'caller',
  unsupported: 'caller',
  failed_precondition: 'system',
  resource_exhausted: 'provider',
  deadline_exceeded: 'provider',
  canceled: 'caller',
  unavailable: 'provider',
  data_loss: 'system',
  internal: 'system',
}

export class AgentPodError extends Error {
  override readonly name = 'AgentPodError'
  readonly code: ErrorCode
  readonly reason: string
  readonly hint: string | undefined
  readonly details: Readonly<Record<string, unknown>>
  readonly fault: Fault
  readonly retry: Retry
  readonly [BRAND] = true

  constructor(fields: ErrorFields) {
    super(fields.message, fields.cause === undefined ? undefined : { cause: fields.cause })
    this.code = fields.code
    this.reason = fields.reason
    this.hint = fields.hint
    this.details = fields.details ?? {}
    this.fault = FAULTS[fields.code]
    this.retry = fields.retry ?? (fields.code === 'unavailable' ? 'yes' : 'no')
  }
}

/** Works across copies of the package: the brand is a global symbol, not a class identity. */
export function isAgentPodError(error: unknown, code?: ErrorCode): error is AgentPodError {
  if (typeof error !== 'object' || error === null || !(BRAND in error)) return false
  return code === undefined || (error as AgentPodError).code === code
}

export function isErrorCode(value: unknown): value is ErrorCode {
  return typeof value === 'string' && (ERROR_CODES as readonly string[]).includes(value)
}

/**
 * Errors of the operating system when a resource runs out or breaks. They are reported to the caller and are
 * no bug. Their original text may contain a path of the host.
 */
const SYSTEM: Readonly<Record<string, Pick<ErrorFields, 'code' | 'reason' | 'message' | 'hint'>>> = {
  ENOSPC: {
    code: 'resource_exhausted',
    reason: 'disk.full',
    message: 'there is no space left on the disk',
    hint: 'free some disk space and try again',
  },
  EDQUOT: {
    code: 'resource_exhausted',
    reason: 'disk.full',
    message: 'there is no space left on the disk',
    hint: 'free some disk space and try again',
  },
  EMFILE: {
    code: 'resource_exhausted',
    reason: 'files.exhausted',
    message: 'the server has reached its limit of open files',
    hint: 'destroy some sandboxes and try again, or raise the limit (ulimit -n)',
  },
  ENFILE: {
    code: 'resource_exhausted',
    reason: 'files.exhausted',
    message: 'the machine has reached its limit of open files',
    hint: 'close some programs and try again',
  },
  EIO: {
    code: 'unavailable',
    reason: 'disk.io',
    message: 'the disk failed',
    hint: 'check the disk and try again',
  },
}

/** Any thrown value as an AgentPodError. Unknown errors become `internal`. */
export function asAgentPodError(error: unknown): AgentPodError {
  if (isAgentPodError(error)) return error
  const message = error instanceof Error ? error.message : String(error)
  const known = SYSTEM[String((error as { code?: unknown } | null | undefined)?.code)]
  if (known) return new AgentPodError({ ...known, cause: error })
  return new AgentPodError({ code: 'internal', reason: 'internal', message, cause: error })
}

export function invalid(reason: string, message: string, hint?: string): AgentPodError {
  return new AgentPodError({ code: 'invalid_argument', reason, message, hint })
}
