/** The log of one build of a template: lines with a limit for all of them together. */
import { StringDecoder } from 'node:string_decoder'
import type { BuildEvent } from '../../../build/build-request.ts'
import type { TemplateLog } from '../../../core/build/template.ts'
import type { Clock } from '../../../util/clock.ts'
import { replaceHiddenInLines } from '../../../util/hidden-characters.ts'
import { stepNumber } from './translate-steps.ts'

/** SECURITY: CP-16. A log is in memory while its build runs, and in the database afterwards. */
const MOST_LINES = 10_000
const MOST_CHARACTERS = 1024 * 1024
const LONGEST_LINE = 4000

type Place = Pick<TemplateLog, 'step'>

export class TemplateBuildLog {
  readonly #clock: Clock
  readonly #lines: TemplateLog[] = []
  readonly #decoder = new StringDecoder('utf8')
  #characters = 0
  #isFull = false
  /** The line that has no end yet, and the step that wrote it. */
  #rest = ''
  #step: string | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get lines(): readonly TemplateLog[] {
    return this.#lines
  }

  say(message: string, place: Place = {}): void {
    if (this.#isFull) return
    const text = replaceHiddenInLines(message).slice(0, LONGEST_LINE)
    this.#characters += text.length
    this.#isFull = this.#lines.length >= MOST_LINES || this.#characters > MOST_CHARACTERS
    if (this.#isFull) this.#push('warn', '[the rest of the output was left out]', {})
    else this.#push('info', text, place)
  }

  /** Why the build failed, also when the log is full. */
  fail(message: string, step: string): void {
    this.flush()
    this.#push('error', replaceHiddenInLines(message).slice(0, LONGEST_LINE * 4), { step })
  }

  onEvent(event: BuildEvent): void {
    if (event.kind === 'progress') this.say(event.text)
    if (event.kind === 'step') this.#onStep(event)
    if (event.kind === 'output') this.#onOutput(event.name, event.data)
  }

  flush(): void {
    this.#rest += this.#decoder.end()
    if (this.#rest !== '') this.say(this.#rest, { step: this.#step })
    this.#rest = ''
  }

  #onStep({ name, number, of, title, state }: Extract<BuildEvent, { readonly kind: 'step' }>): void {
    this.flush()
    const line = `[builder ${number}/${of}] ${title}`
    const step = stepNumber(name)
    if (state === 'cached') this.say(`CACHED ${line}`, { step })
    if (state === 'started') this.say(line, { step })
  }

  #onOutput(name: string, data: Buffer): void {
    this.#step = stepNumber(name)
    const lines = (this.#rest + this.#decoder.write(data)).split('\n')
    this.#rest = (lines.pop() ?? '').slice(0, LONGEST_LINE)
    for (const line of lines) this.say(line.replace(/\r$/, ''), { step: this.#step })
  }

  #push(level: TemplateLog['level'], message: string, place: Place): void {
    this.#lines.push({ at: this.#clock.now(), level, message, ...place })
  }
}
