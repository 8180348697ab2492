/** Reads the prompt: from the arguments, a file, standard input, or the user's editor. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { invalid } from '../../core/error.ts'
import type { Parsed } from '../args/parse.ts'
import type { CommandContext } from '../command.ts'

const LARGEST_PROMPT = 256 * 1024
const EXPLAINED = [
  '',
  '# Write what the agent is to do above, save, and leave the editor.',
  '# Lines that begin with # are left out; nothing but those, and nothing is run.',
  '',
].join('\n')

type PromptContext = Pick<CommandContext, 'cwd' | 'env' | 'terminal'>

/** Empty if there is no prompt. */
export async function promptOf(ctx: PromptContext, parsed: Pick<Parsed, 'words' | 'value'>): Promise<string> {
  const { words } = parsed
  const file = parsed.value('prompt-file')
  if (file !== undefined && words.length > 0)
    throw invalid(
      'option.prompt-file',
      '--prompt-file and a prompt do not go together',
      'leave one of them out',
    )
  if (file !== undefined && file !== '-') return fromFile(resolve(ctx.cwd, file), file)
  const isDash = file === '-' || (words.length === 1 && words[0] === '-')
  if (!isDash && words.length > 0) return words.join(' ')
  if (isDash || ctx.terminal.stdin.isTTY !== true) return fromInput(ctx.terminal.stdin)
  return ctx.terminal.isInteractive ? fromEditor(ctx.env) : ''
}

function fromFile(path: string, named: string): string {
  let text: string
  try {
    if (statSync(path).size > LARGEST_PROMPT) throw tooLong()
    text = readFileSync(path, 'utf8')
  } catch (error) {
    const { code } = error as { code?: unknown }
    if (code !== 'ENOENT' && code !== 'EACCES' && code !== 'EISDIR' && code !== 'ENOTDIR') throw error
    throw invalid(
      'option.prompt-file',
      `--prompt-file ${named} cannot be read (${code})`,
      'name a file that you can read',
    )
  }
  return text.trim()
}

async function fromInput(stdin: AsyncIterable<Buffer | string>): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of stdin) {
    const data = Buffer.from(chunk)
    size += data.length
    if (size > LARGEST_PROMPT) throw tooLong()
    chunks.push(data)
  }
  return Buffer.concat(chunks).toString('utf8').trim()
}

function fromEditor(env: PromptContext['env']): string {
  const editor = env['VISUAL'] || env['EDITOR']
  if (!editor) return ''
  const directory = mkdtempSync(join(tmpdir(), 'agentpod-prompt-'))
  const file = join(directory, 'prompt.md')
  try {
    writeFileSync(file, EXPLAINED, { mode: 0o600 })
    // As git does: the variable may hold options, so a shell parses it.
    const { status } = spawnSync('/bin/sh', ['-c', `${editor} "$1"`, 'sh', file], { stdio: 'inherit', env })
    if (status !== 0)
      throw invalid(
        'run.editor',
        `the editor ${JSON.stringify(editor)} failed`,
        'set EDITOR, or give the prompt',
      )
    return withoutComments(fromFile(file, file))
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

function withoutComments(text: string): string {
  return text
    .split('\n')
    .filter((line) => !line.startsWith('#'))
    .join('\n')
    .trim()
}

function tooLong(): Error {
  return invalid(
    'run.prompt',
    `the prompt is longer than ${LARGEST_PROMPT} bytes`,
    'put it into a file of the project',
  )
}
