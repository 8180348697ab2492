/** What has come of one step of a driver or of several, before it is written down. */
import type { Driver, Step, TurnEnd } from '../agents/driver.ts'
import { decide } from '../agents/permissions.ts'
import type { PermissionRules } from '../core/permission.ts'
import type { RunEventBody } from '../core/run.ts'
import type { OpenQuestion, Progress } from './progress.ts'

export interface Taking {
  driver: unknown
  offset: number
  readonly questions: OpenQuestion[]
  readonly events: RunEventBody[]
  readonly send: string[]
  denials: number
  end?: TurnEnd | undefined
  session?: string | undefined
  tokens?: Step<unknown>['tokens']
}

export function takingFrom({ driver, offset, questions }: Progress): Taking {
  return { driver, offset, questions: [...questions], events: [], send: [], denials: 0 }
}

/** Takes a step, and those that follow from rules that answer its questions. What a rule leaves open is left open. */
export function take(
  taking: Taking,
  first: Step<unknown>,
  o: { readonly driver: Driver; readonly rules: PermissionRules; readonly now: number },
): void {
  const steps: Step<unknown>[] = [first]
  for (let step = steps.shift(); step; step = steps.shift()) {
    taking.events.push(...step.events)
    taking.send.push(...step.send)
    taking.driver = step.state
    taking.end ??= step.end
    taking.session = step.session ?? taking.session
    taking.tokens = step.tokens ?? taking.tokens
    for (const question of step.questions) {
      const decision = decide(o.rules, question.about)
      taking.events.push({ type: 'permission.asked', ...question })
      if (decision === 'ask') {
        taking.questions.push({ ...question, askedAt: o.now })
        continue
      }
      if (decision === 'deny') taking.denials++
      taking.events.push({ type: 'permission.answered', ...question, answer: decision, by: 'rule' })
      steps.push(o.driver.answer(taking.driver, question.permission, decision))
    }
  }
}
