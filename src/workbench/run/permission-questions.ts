/** Puts the questions of several agents to one person, one at a time. */
import type { RunEventView } from '../../api/schema/run.ts'
import { asAgentPodError, isAgentPodError } from '../../core/error.ts'
import type { PermissionAbout } from '../../core/run.ts'
import { sleep, systemClock } from '../../util/clock.ts'
import type { Person, Questions } from '../ask.ts'
import type { FollowedRun } from './followed-run.ts'

interface OpenQuestion {
  readonly run: FollowedRun
  readonly permission: string
  readonly about: PermissionAbout
}

/** A rule answers at once; a question that is still open after this long is for a person. */
export const RULE_ANSWER_MS = 150

/** A question that was answered elsewhere, or whose run ended, is withdrawn. */
export class PermissionQuestions {
  readonly #person: Person
  readonly #waiting: OpenQuestion[] = []
  /** Questions that were answered with `always`. */
  readonly #always = new Set<string>()
  #now: { readonly question: OpenQuestion; readonly withdrawn: AbortController } | undefined
  #isClosed = false

  constructor(person: Person) {
    this.#person = person
  }

  event(run: FollowedRun, { body }: RunEventView): void {
    if (body.type === 'permission.asked') {
      this.#waiting.push({ run, permission: body.permission, about: body.about })
      void this.#next()
    }
    if (body.type === 'permission.answered')
      this.#withdraw(run, (permission) => permission === body.permission)
    if (body.type === 'state' && body.state === 'ended') this.#withdraw(run, () => true)
  }

  close(): void {
    this.#isClosed = true
    this.#waiting.length = 0
    this.#now?.withdrawn.abort()
  }

  #withdraw(run: FollowedRun, isOver: (permission: string) => boolean): void {
    const isIt = (one: OpenQuestion): boolean => one.run.id === run.id && isOver(one.permission)
    for (let at = this.#waiting.findIndex(isIt); at >= 0; at = this.#waiting.findIndex(isIt))
      this.#waiting.splice(at, 1)
    if (this.#now && isIt(this.#now.question)) this.#now.withdrawn.abort()
  }

  async #next(): Promise<void> {
    if (this.#now || this.#isClosed) return
    const question = this.#waiting.shift()
    if (!question) return
    const withdrawn = new AbortController()
    this.#now = { question, withdrawn }
    try {
      await sleep(systemClock, RULE_ANSWER_MS, withdrawn.signal)
      const answer = this.#always.has(keyOf(question))
        ? 'always'
        : await this.#ask(question, withdrawn.signal)
      if (answer === 'always') this.#always.add(keyOf(question))
      if (answer !== undefined)
        await question.run.answer(question.permission, answer === 'deny' ? 'deny' : 'allow')
    } catch (error) {
      // `not_found`: the question was answered elsewhere, or the run has ended.
      if (!withdrawn.signal.aborted && !isAgentPodError(error, 'not_found'))
        this.#person.notice({
          kind: 'info',
          text: `the answer did not reach the agent: ${asAgentPodError(error).message}`,
        })
    } finally {
      this.#now = undefined
    }
    void this.#next()
  }

  #ask(
    { run, about }: OpenQuestion,
    signal: AbortSignal,
  ): Promise<Questions['permission']['answer'] | undefined> {
    return this.#person.question('permission', { run: run.info, wants: about }, { signal })
  }
}

function keyOf({ run, about }: OpenQuestion): string {
  return JSON.stringify([run.info.agent, about.kind, about.subject])
}
