/** Folds driver steps into one batch, which becomes one entry of the journal. */
import type { Driver, DriverStep, TurnEnd } from '../agents/drivers/driver.ts'
import { decidePermission } from '../agents/permissions/permissions.ts'
import type { PermissionRules } from '../core/permission.ts'
import type { RunEventBody } from '../core/run.ts'
import type { OpenQuestion, Progress } from './progress.ts'

export interface StepBatch {
  driver: unknown
  offset: number
  readonly questions: OpenQuestion[]
  readonly events: RunEventBody[]
  readonly send: string[]
  denials: number
  end?: TurnEnd | undefined
  session?: string | undefined
  tokens?: DriverStep<unknown>['tokens']
}

export function newBatch({ driver, offset, questions }: Progress): StepBatch {
  return { driver, offset, questions: [...questions], events: [], send: [], denials: 0 }
}

/**
 * Folds a step, and the steps that follow when rules answer its questions. Questions that no rule answers
 * stay open.
 */
export function foldStep(
  batch: StepBatch,
  first: DriverStep<unknown>,
  o: { readonly driver: Driver; readonly rules: PermissionRules; readonly now: number },
): void {
  const steps: DriverStep<unknown>[] = [first]
  for (let step = steps.shift(); step; step = steps.shift()) {
    batch.events.push(...step.events)
    batch.send.push(...step.send)
    batch.driver = step.state
    batch.end ??= step.end
    batch.session = step.session ?? batch.session
    batch.tokens = step.tokens ?? batch.tokens
    for (const question of step.questions) {
      const decision = decidePermission(o.rules, question.about)
      batch.events.push({ type: 'permission.asked', ...question })
      if (decision === 'ask') {
        batch.questions.push({ ...question, askedAt: o.now })
        continue
      }
      if (decision === 'deny') batch.denials++
      batch.events.push({ type: 'permission.answered', ...question, answer: decision, by: 'rule' })
      steps.push(o.driver.answer(batch.driver, question.permission, decision))
    }
  }
}
