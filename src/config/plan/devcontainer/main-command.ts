/** The command of the service that a devcontainer of the compose kind is. */
import {
  type MemberImage,
  type MemberService,
  memberService,
  serviceWords,
} from '../../compose/member-plan.ts'
import type { ComposeService } from '../../compose/model.ts'

export interface MainCommand {
  /** Undefined if nothing is started. */
  readonly service: MemberService | undefined
  readonly notes: readonly string[]
}

const START_MS = 60_000

/**
 * Runs beside what people do in the sandbox. Nothing waits for the check of its health: the program that it
 * checks is often one that people start themselves.
 */
export function mainCommand(service: ComposeService, image: MemberImage): MainCommand {
  const words = serviceWords(service, image)
  const place = service.line === undefined ? service.file : `${service.file}:${service.line}`
  const check =
    service.healthcheck?.test === undefined
      ? []
      : [
          `${place}: healthcheck of ${service.name} is not used: nothing waits for the service that you work in`,
        ]
  if (words.length === 0) return { service: undefined, notes: check }
  if (words.length === 1 && SHELL.test(words[0] ?? ''))
    return {
      service: undefined,
      notes: [...check, `${place}: the command of ${service.name} is a shell, which has nothing to do`],
    }
  const { ready: _, ...running } = memberService(service, image)
  return { service: { ...running, variables: {}, ready: { timeoutMs: START_MS } }, notes: check }
}

const SHELL = /^(?:\/(?:usr\/)?bin\/)?(?:ba|da|a|z|k|fi)?sh$/
