import { AgentPodError, isErrorCode } from '../../core/error.ts'

/** Turns podhost's error into an AgentPodError. */
export function hostError(value: unknown): AgentPodError {
  const fields = value as Record<string, unknown>
  const text = (key: string): string | undefined => {
    const word = fields[key]
    return typeof word === 'string' && word !== '' ? word : undefined
  }
  const code = fields['code']
  return new AgentPodError({
    code: isErrorCode(code) ? code : 'internal',
    reason: text('reason') ?? 'podhost.unknown',
    message: text('message') ?? 'podhost failed',
    hint: text('hint'),
  })
}
