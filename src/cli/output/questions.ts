/** The questions of the workbench, asked at this terminal. */
import { createInterface } from 'node:readline'
import { showHidden } from '../../util/hidden-characters.ts'
import type { Questions } from '../../workbench/ask.ts'
import { labelOf } from '../../workbench/run/run-label.ts'
import { choice, isYes } from './ask.ts'
import { questionLines } from './run-lines.ts'
import { gateLines } from './run-result-lines.ts'
import type { Terminal } from './terminal.ts'

export async function askGrant(
  terminal: Terminal,
  { file, lines }: Questions['grant']['about'],
): Promise<boolean> {
  terminal.say(`${file} asks for more than you have granted:`)
  for (const line of lines) terminal.say(`  ${showHidden(line)}`)
  return isYes(terminal, 'grant it to this project, as it is now?')
}

export async function askGated(
  terminal: Terminal,
  { by, files }: Questions['gated']['about'],
): Promise<readonly string[]> {
  terminal.say('')
  terminal.say(terminal.bold(`${by} changed files that would run later on this machine:`))
  for (const line of gateLines(terminal, files)) terminal.say(line)
  const answer = await choice(terminal, 'include them? [y]es, [N]o, [e]ach: ', ['y', 'n', 'e'])
  if (answer !== 'e') return answer === 'y' ? files.map(({ path }) => path) : []
  const taken: string[] = []
  for (const { path } of files) if (await isYes(terminal, `include ${showHidden(path)}?`)) taken.push(path)
  return taken
}

const LISTED = 20

export async function askUncommitted(
  terminal: Terminal,
  { paths }: Questions['uncommitted']['about'],
): Promise<boolean> {
  terminal.say('these files were not committed at the start, and would be committed with the merge:')
  for (const path of paths.slice(0, LISTED)) terminal.say(`  ${showHidden(path)}`)
  if (paths.length > LISTED) terminal.say(`  and ${paths.length - LISTED} more`)
  return isYes(terminal, 'commit them too?')
}

export interface PermissionQuestionOptions {
  readonly signal?: AbortSignal | undefined
  /** Called for Ctrl-C at the question. */
  readonly onInterrupt?: (() => void) | undefined
}

type PermissionAnswer = Questions['permission']['answer']

const ANSWERS: ReadonlyMap<string, PermissionAnswer> = new Map([
  ['y', 'once'],
  ['yes', 'once'],
  ['n', 'deny'],
  ['no', 'deny'],
  ['a', 'always'],
  ['always', 'always'],
])

export async function askPermission(
  terminal: Terminal,
  { run, wants }: Questions['permission']['about'],
  { signal, onInterrupt }: PermissionQuestionOptions,
): Promise<PermissionAnswer> {
  const lines = createInterface({ input: terminal.stdin, output: terminal.stderr })
  if (onInterrupt) lines.on('SIGINT', onInterrupt)
  const show = (isWhole: boolean): void => {
    const question = questionLines(wants, (terminal.stderr.columns || 80) - 1, isWhole)
    const [first, ...rest] = question.lines
    terminal.say(`${terminal.bold(labelOf(run))} wants to ${first}`)
    for (const line of rest) terminal.say(line)
    lines.setPrompt(`allow it? [y]es, [n]o, [a]lways this${question.isCut ? ', [s]how all of it' : ''}: `)
  }
  show(false)
  try {
    return await new Promise<PermissionAnswer>((resolve, reject) => {
      signal?.addEventListener('abort', () => reject(signal.reason), { once: true })
      lines.on('line', (line) => {
        const word = line.trim().toLowerCase()
        const answer = ANSWERS.get(word)
        if (answer) return resolve(answer)
        if (word === 's' || word === 'show') show(true)
        lines.prompt()
      })
      // At the end of the input no answer will come, and no answer denies.
      lines.once('close', () => resolve('deny'))
      lines.prompt()
    })
  } finally {
    lines.close()
    if (signal?.aborted) terminal.say('')
  }
}
