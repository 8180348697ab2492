/** What a run has made of the project: a pack made inside, kept outside until a client asks for it. It is hostile, and nothing here looks into it. */
import { createHash } from 'node:crypto'
import { mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { homeOf } from '../core/environment.ts'
import { AgentPodError } from '../core/error.ts'
import type { RunProject, RunResult } from '../core/run.ts'
import type { Live } from '../engine/context.ts'
import { followConversation, startConversation } from '../guest/conversation.ts'
import { stashIn } from '../sync/git/inside-prepare.ts'
import { LARGEST_PACK_BYTES, ResultReader } from '../sync/git/result-reader.ts'
import { LARGEST_RESULT_FILE, resultScript } from '../sync/git/result-script.ts'
import { replaceHidden } from '../util/hidden-characters.ts'

const RESULT_MS = 10 * 60_000

export interface TakeOptions {
  readonly project: RunProject
  readonly user: string
  /** Where the pack is written; what was there is replaced. */
  readonly file: string
  readonly signal: AbortSignal
}

export async function takeResult({ guest }: Live, o: TakeOptions): Promise<RunResult> {
  const { project, user, file } = o
  const signal = AbortSignal.any([o.signal, AbortSignal.timeout(RESULT_MS)])
  const { command, args } = resultScript({
    workspace: project.workspace,
    stash: stashIn(homeOf(user)),
    tree: project.tree,
    commit: project.commit,
    aside: project.aside,
    largestBytes: LARGEST_RESULT_FILE,
  })
  const tag = `result-${createHash('sha256').update(`${file} ${performance.now()}`).digest('hex').slice(0, 16)}`
  await startConversation(
    guest,
    { command: [command, ...args], user, workdir: '/', variables: {}, tag, stdin: false },
    signal,
  )
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
  const draft = `${file}.draft`
  const out = await open(draft, 'w', 0o600)
  try {
    const reader = new ResultReader()
    let words = ''
    for await (const event of followConversation(guest, tag, { offset: 0, signal })) {
      if (event.kind === 'gap') throw refused('some of it was lost')
      if (event.kind === 'stderr') words = (words + event.data.toString('utf8')).slice(-1000)
      if (event.kind === 'end') {
        if (event.exit.exitCode !== 0) throw refused(words.trim().split('\n').at(-1) ?? '')
        break
      }
      if (event.kind !== 'stdout') continue
      const pack = reader.push(event.data)
      if (pack === 'too large') throw tooLarge()
      if (pack === 'no header') throw refused('it does not begin as one')
      await out.write(pack)
    }
    const { header, packBytes } = reader
    if (!header) throw refused('there is none')
    await out.sync()
    await rename(draft, file)
    return { ...header, packBytes }
  } finally {
    await out.close()
    await rm(draft, { force: true })
  }
}

function refused(words: string): AgentPodError {
  const printable = replaceHidden(words.slice(0, 300))
  return new AgentPodError({
    code: 'data_loss',
    reason: 'result.malformed',
    message: `the sandbox gave no usable result${printable && `: ${printable}`}`,
    hint: '`agentpod attach` opens a shell in it',
  })
}

function tooLarge(): AgentPodError {
  return new AgentPodError({
    code: 'resource_exhausted',
    reason: 'result.too_large',
    message: `the result takes more than ${LARGEST_PACK_BYTES / 1024 ** 3} GiB`,
    hint: '`agentpod attach` opens a shell in its sandbox: remove what does not belong there, or list it in .gitignore',
  })
}
