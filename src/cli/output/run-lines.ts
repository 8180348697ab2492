/** The events of a run as lines. SECURITY: all of it is hostile text, escaped and limited in length. */
import { isIP } from 'node:net'
import type { RunEventBodyView, UsageOfRunView } from '../../api/schema/run.ts'
import type { PermissionAbout } from '../../core/run.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import { joinLines, oneLine, truncate, withoutSequences } from '../../util/one-line.ts'
import { shellWord } from '../../util/shell/shell-word.ts'
import type { Terminal } from './terminal.ts'
import { span } from './units.ts'

export type Style = Pick<Terminal, 'bold' | 'dim' | 'red' | 'green'>

export const PLAIN: Style = {
  bold: (text) => text,
  dim: (text) => text,
  red: (text) => text,
  green: (text) => text,
}

export interface Rendered {
  readonly lines: readonly string[]
}

export interface LineOptions {
  readonly run: string
  /** The width to wrap text at. Undefined in a pipe, where lines are not wrapped. */
  readonly width: number | undefined
  readonly style: Style
  /** Whether the user is asked the agents' questions: then no command for an answer is shown. */
  readonly isAsking: boolean
}

const NOTHING: Rendered = { lines: [] }
const LONGEST_LINE = 2000
const OUTPUT_LINES = 3
const FAILED_OUTPUT_LINES = 8
const MOST_HOSTS = 1000

/** Lines of one run. */
export class RunLines {
  readonly #o: LineOptions
  #text: Text | undefined
  #last: RunEventBodyView['type'] | undefined
  /** An open question, which a rule may answer at once. */
  #question: Asked | undefined
  readonly #hosts = new Set<string>()

  constructor(o: LineOptions) {
    this.#o = o
  }

  take(body: RunEventBodyView): Rendered {
    if (body.type === 'message' || body.type === 'thought') return this.#say(body)
    if (this.#question && isSettledBy(this.#question, body)) this.#question = undefined
    const before = this.rest()
    const { lines } = this.#render(body)
    this.#last = body.type
    return { lines: [...before, ...lines] }
  }

  /** Whether a question waits to be shown: the next event may be a rule's answer. */
  get isHolding(): boolean {
    return this.#question !== undefined
  }

  /** Text without a line end so far, and the waiting question. */
  rest(): readonly string[] {
    const lines = this.#text?.end() ?? []
    this.#text = undefined
    const question = this.#question ? this.#asked(this.#question) : []
    this.#question = undefined
    return [...lines, ...question]
  }

  #say(body: Extract<RunEventBodyView, { type: 'message' | 'thought' }>): Rendered {
    const from = body.type === 'thought' ? 'thought' : body.from
    const key = `${from} ${body.message}`
    const before = this.#text?.key === key && !this.#question ? [] : this.rest()
    this.#text ??= new Text(key, this.#paint(from), this.#o.width, from === 'user' ? '> ' : '')
    this.#last = body.type
    return { lines: [...before, ...this.#text.add(body.text)] }
  }

  #paint(from: 'agent' | 'user' | 'thought'): (line: string) => string {
    const { bold, dim } = this.#o.style
    return from === 'agent' ? (line) => line : from === 'user' ? bold : dim
  }

  #render(body: Exclude<RunEventBodyView, { type: 'message' | 'thought' }>): Rendered {
    const { dim, red } = this.#o.style
    switch (body.type) {
      case 'state':
        return this.#state(body)
      case 'plan':
        return { lines: body.entries.slice(0, 50).map((entry) => this.#step(entry)) }
      case 'tool':
        return this.#tool(body)
      case 'edit':
        return { lines: [this.#edit(body)] }
      case 'command':
        return { lines: this.#command(body) }
      case 'permission.asked':
        this.#question = body
        return NOTHING
      case 'permission.answered':
        return { lines: this.#answered(body) }
      case 'network.denied':
        return { lines: this.#refused(body) }
      case 'usage':
        return NOTHING
      case 'note':
        return { lines: [dim(this.#fit(`note: ${body.text}`))] }
      case 'error':
        return { lines: [red(this.#fit(`error: ${body.text}`))] }
    }
  }

  #state({ state, outcome, reason }: Extract<RunEventBodyView, { type: 'state' }>): Rendered {
    if (state !== 'ended') return NOTHING
    const { red, green, bold } = this.#o.style
    const why = reason === undefined ? '' : `: ${reason}`
    const line = this.#fit(`${SIGNS[outcome ?? 'failed']} ${words(outcome ?? 'failed')}${why}`)
    if (outcome === 'changed') return { lines: [green(line)] }
    return { lines: [outcome === 'unchanged' ? bold(line) : red(line)] }
  }

  #step({ text, status }: { readonly text: string; readonly status: 'pending' | 'doing' | 'done' }): string {
    const line = this.#fit(`  ${STEPS[status]} ${text}`)
    return status === 'done' ? this.#o.style.dim(line) : line
  }

  #tool({ title, status, output }: Extract<RunEventBodyView, { type: 'tool' }>): Rendered {
    const { dim, red } = this.#o.style
    if (status === 'started' || status === 'running') return NOTHING
    const isTold = this.#last === 'command' || this.#last === 'edit'
    if (status === 'done') return isTold ? NOTHING : { lines: [dim(this.#fit(`· ${title}`))] }
    if (this.#last === 'command') return NOTHING
    return { lines: [red(this.#fit(`✗ ${title}`)), ...this.#output(output, FAILED_OUTPUT_LINES)] }
  }

  #edit({ path, added, removed }: Extract<RunEventBodyView, { type: 'edit' }>): string {
    const { green, red } = this.#o.style
    const counts = ` +${added} −${removed}`
    return `${this.#fit(`✎ ${path}`, counts.length)} ${green(`+${added}`)} ${red(`−${removed}`)}`
  }

  #command({ command, exitCode, output }: Extract<RunEventBodyView, { type: 'command' }>): string[] {
    const { dim, red } = this.#o.style
    const hasFailed = exitCode !== undefined && exitCode !== 0
    const end = hasFailed ? ` (exit code ${exitCode})` : ''
    const line = this.#fit(`$ ${exactly(command)}`, end.length)
    return [
      `${line}${hasFailed ? red(end) : ''}`,
      ...this.#output(output, hasFailed ? FAILED_OUTPUT_LINES : OUTPUT_LINES).map((one) => dim(one)),
    ]
  }

  /** The last lines, which usually hold the error. */
  #output(output: string | undefined, most: number): string[] {
    const all = withoutSequences(output ?? '')
      .split('\n')
      .filter((line) => line.trim() !== '')
    const left = all.length - most
    const shown = left > 1 ? [`… ${left} lines`, ...all.slice(-most)] : all
    return shown.map((line) => this.#fit(`  ${line.trimEnd()}`))
  }

  #asked({ permission, about }: Asked): string[] {
    // The screen shows it already.
    if (this.#o.isAsking) return []
    const { bold, dim } = this.#o.style
    const question = bold(this.#fit(`? ${aboutText(about)}`))
    const call = `agentpod answer ${this.#o.run} ${shellWord(withoutSequences(permission))} allow`
    return [question, dim(this.#fit(`  to allow it: ${call}`))]
  }

  #answered(body: Extract<RunEventBodyView, { type: 'permission.answered' }>): string[] {
    const { dim, red } = this.#o.style
    const { about, answer, by } = body
    if (answer === 'allow') return by === 'user' ? [dim(this.#fit(`  allowed: ${aboutText(about)}`))] : []
    const why = by === 'rule' ? 'a rule denies it' : by === 'user' ? 'denied' : 'no answer in time, so denied'
    const line = red(this.#fit(`✗ ${why}: ${aboutText(about)}`))
    return by === 'user' ? [line] : [line, dim(this.#fit(`  to allow it: ${allowing(about)}`))]
  }

  /** Once per host; `agentpod net log` has every attempt. */
  #refused({ host, port, reason }: Extract<RunEventBodyView, { type: 'network.denied' }>): string[] {
    const place = `${host}:${port}`
    if (this.#hosts.has(place) || this.#hosts.size >= MOST_HOSTS) return []
    this.#hosts.add(place)
    const { dim, red } = this.#o.style
    const allow = adviceFor(withoutSequences(port === 443 || port === 80 ? host : place), reason)
    return [red(this.#fit(`✗ refused: ${place} (${reason})`)), dim(this.#fit(`  ${allow}`))]
  }

  #fit(text: string, less = 0): string {
    return truncate(oneLine(text), Math.max(20, (this.#o.width ?? LONGEST_LINE) - less))
  }
}

/** The advice depends on the reason of the refusal; it names an option only if one helps. */
export function adviceFor(place: string, reason: string): string {
  if (reason.startsWith('secret') || reason === 'credential.foreign')
    return 'no option allows it: a secret would have gone to the wrong host'
  if (reason === 'host.never' || reason === 'address.denied')
    return 'no option allows it: this address is never reachable'
  if (reason === 'rule.deny') return 'a rule denies it: remove that rule'
  if (reason === 'mode.off') return 'the sandbox has no network: --net allowlist gives it one'
  if (/^(?:budget|cap|dns\.flood)/.test(reason)) return 'a limit was reached: no option allows it'
  if (reason === 'request.method') return 'no option allows it: this method is never forwarded'
  if (reason === 'policy.changed') return 'the rules changed while the connection was open: retry'
  if (isBareAddress(place)) return 'no option allows a bare IP address: use the server’s name'
  if (reason === 'address.private' || reason === 'open.host')
    return `to allow it: --allow-private ${shellWord(place)}`
  return `to allow it: --allow ${shellWord(place)}`
}

/** With a port or without. */
function isBareAddress(place: string): boolean {
  return isIP(place) !== 0 || isIP(place.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1')) !== 0
}

type Asked = Extract<RunEventBodyView, { type: 'permission.asked' }>

function isSettledBy({ permission }: Asked, body: RunEventBodyView): boolean {
  return body.type === 'permission.answered' && body.by === 'rule' && body.permission === permission
}

const SIGNS = {
  changed: '✓',
  unchanged: '–',
  denied: '✗',
  failed: '✗',
  timed_out: '✗',
  over_budget: '✗',
  canceled: '✗',
} as const

const STEPS = { done: '✓', doing: '▸', pending: '○' } as const

const WHAT = { bash: 'run', write: 'write', mcp: 'call', network: 'reach' } as const

/** A word with spaces for people. */
export function words(word: string): string {
  return word.replaceAll('_', ' ')
}

export function aboutText({ kind, subject }: Pick<PermissionAbout, 'kind' | 'subject'>): string {
  return `${WHAT[kind]} ${exactly(subject)}`
}

/** What the user decides about: all of it if it fits the screen, else its beginning and end. */
export function questionLines(
  { kind, subject }: Pick<PermissionAbout, 'kind' | 'subject'>,
  width: number,
  isWhole = false,
): { readonly lines: readonly string[]; readonly isCut: boolean } {
  const text = exactly(subject)
  if (text.length <= width * 2) return { lines: [`${WHAT[kind]} ${text}`], isCut: false }
  const all = subject
    .split('\n')
    .flatMap((line) => wrap(showHidden(line.replaceAll('\t', '  ')), Math.max(20, width - 2)))
    .map((line) => `  ${line}`)
  const hidden = all.length - QUESTION_HEAD - QUESTION_TAIL
  if (isWhole || hidden <= 1) return { lines: [`${WHAT[kind]}:`, ...all], isCut: false }
  const middle = `  … ${hidden} lines not shown`
  return {
    lines: [`${WHAT[kind]}:`, ...all.slice(0, QUESTION_HEAD), middle, ...all.slice(-QUESTION_TAIL)],
    isCut: true,
  }
}

const QUESTION_HEAD = 16
const QUESTION_TAIL = 8

/**
 * The option that would have allowed it. A `*` in the subject allows more than this subject, so it is shown.
 */
function allowing({ kind, subject }: Pick<PermissionAbout, 'kind' | 'subject'>): string {
  if (kind === 'network') return `--allow ${shellWord(exactly(subject))}`
  return `--permission ${shellWord(`${kind}:${exactly(subject)}=allow`)}`
}

export function usageText({ input, cached, output, costUsd, source }: UsageOfRunView): string {
  if (source === 'none') return 'no model calls seen'
  const money = costUsd === null ? 'cost unknown' : dollars(costUsd)
  return `${tokens(input + cached)} in, ${tokens(output)} out, ${money}`
}

export function dollars(usd: number): string {
  return `$${usd.toFixed(usd > 0 && usd < 0.1 ? 4 : 2)}`
}

export function tokens(count: number): string {
  if (count < 1000) return `${count} tokens`
  return count < 1_000_000 ? `${(count / 1000).toFixed(1)}k tokens` : `${(count / 1e6).toFixed(2)}M tokens`
}

export function elapsed(
  run: { readonly createdAt: string; readonly endedAt: string | null },
  now: number,
): string {
  return span((run.endedAt === null ? now : Date.parse(run.endedAt)) - Date.parse(run.createdAt))
}

/**
 * SECURITY: a command on one line, with nothing removed. A shell executes the characters that a terminal
 * would obey or overwrite, and they may be the part that matters.
 */
function exactly(text: string): string {
  return showHidden(joinLines(text.replaceAll('\t', '  '), ' ⏎ '))
}

const LONGEST_WAITING = 4000

/** Turns text that arrives in parts into lines as soon as they are complete. */
class Text {
  readonly key: string
  readonly #paint: (line: string) => string
  readonly #width: number | undefined
  readonly #mark: string
  #waiting = ''
  #hasBegun = false
  #isBlankDue = false

  constructor(key: string, paint: (line: string) => string, width: number | undefined, mark: string) {
    this.key = key
    this.#paint = paint
    this.#width = width
    this.#mark = mark
  }

  add(text: string): string[] {
    this.#waiting += text
    const parts = this.#waiting.split('\n')
    const rest = parts.pop() ?? ''
    const lines = parts.flatMap((part) => this.#lines(part))
    // A long text is shown before its line ends, and so is a line that never ends.
    const folded = this.#width === undefined ? [rest] : wrap(rest, this.#room)
    const isFull = rest.length > LONGEST_WAITING
    this.#waiting = isFull ? '' : (folded.at(-1) ?? '')
    const full = isFull ? folded : folded.slice(0, -1)
    return [...lines, ...full.flatMap((line) => this.#lines(line))]
  }

  end(): string[] {
    const lines = this.#lines(this.#waiting)
    this.#waiting = ''
    return lines
  }

  get #room(): number {
    return Math.max(20, (this.#width ?? LONGEST_LINE) - this.#mark.length)
  }

  /** Several blank lines become one. */
  #lines(text: string): string[] {
    const line = showHidden(withoutSequences(text)).trimEnd()
    if (line.trim() === '') {
      this.#isBlankDue = this.#hasBegun
      return []
    }
    const blank = this.#isBlankDue ? [''] : []
    this.#isBlankDue = false
    this.#hasBegun = true
    const folded = this.#width === undefined ? [truncate(line, LONGEST_LINE)] : wrap(line, this.#room)
    return [...blank, ...folded.map((one) => this.#paint(`${this.#mark}${one}`))]
  }
}

/** Breaks lines at spaces if possible. */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = []
  const characters = [...text]
  let from = 0
  while (characters.length - from > width) {
    const space = characters.lastIndexOf(' ', from + width)
    const at = space > from + width / 2 ? space : from + width
    lines.push(characters.slice(from, at).join(''))
    from = characters[at] === ' ' ? at + 1 : at
  }
  return [...lines, characters.slice(from).join('')]
}
