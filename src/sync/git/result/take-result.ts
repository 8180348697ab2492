/**
 * Takes the result of work on a copy of a project: a script inside writes a header and a pack, which are
 * stored as they are. They are hostile bytes; `receive` checks them before anything uses them.
 */
import { mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { homeOf } from '../../../core/environment.ts'
import { AgentPodError } from '../../../core/error.ts'
import { replaceHidden } from '../../../util/hidden-characters.ts'
import { stashIn } from '../state/prepare-script.ts'
import type { ResultHeader } from './result-header.ts'
import { LARGEST_PACK_BYTES, ResultReader } from './result-reader.ts'
import { LARGEST_RESULT_FILE, resultScript } from './result-script.ts'

/** The copy that the work was done on. */
export interface CopiedProject {
  readonly workspace: string
  readonly tree: string
  readonly commit?: string | undefined
  /** Directories that the environment provides; they are no part of the result. */
  readonly aside?: readonly string[] | undefined
}

/** What a process inside prints, and how it ends. */
export type ScriptEvent =
  | { readonly kind: 'stdout' | 'stderr'; readonly data: Buffer }
  | { readonly kind: 'lost' }
  | { readonly kind: 'end'; readonly exitCode: number }

export interface TakeOptions {
  readonly project: CopiedProject
  /** The user inside that owns the copy. */
  readonly user: string
  /** The only paths that may have changed, if that is known: see `resultScript`. */
  readonly only?: readonly string[] | undefined
  /** Where the pack is written. A file that is there is replaced. */
  readonly file: string
  /** Whether the file has to survive a power failure. */
  readonly isDurable?: boolean | undefined
  /** Runs the script inside. */
  run(command: string, args: readonly string[]): AsyncIterable<ScriptEvent>
}

export interface TakenResult extends ResultHeader {
  readonly packBytes: number
}

const LONGEST_STDERR = 1000

export async function takeResult(o: TakeOptions): Promise<TakenResult> {
  const { project, user, file, isDurable, run } = o
  const { command, args } = resultScript({
    workspace: project.workspace,
    stash: stashIn(homeOf(user)),
    tree: project.tree,
    commit: project.commit,
    aside: project.aside ?? [],
    largestBytes: LARGEST_RESULT_FILE,
    only: o.only,
  })
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
  const draft = `${file}.draft`
  const out = await open(draft, 'w', 0o600)
  try {
    const reader = new ResultReader()
    let stderr = ''
    for await (const event of run(command, args)) {
      if (event.kind === 'lost') throw malformed('a part of it was lost')
      if (event.kind === 'stderr') stderr = (stderr + event.data.toString('utf8')).slice(-LONGEST_STDERR)
      if (event.kind === 'end') {
        if (event.exitCode !== 0) throw malformed(stderr.trim().split('\n').at(-1) ?? '')
        break
      }
      if (event.kind !== 'stdout') continue
      const pack = reader.push(event.data)
      if (pack === 'too large') throw tooLarge()
      if (pack === 'no header') throw malformed('it has no header')
      await out.write(pack)
    }
    const { header, packBytes } = reader
    if (!header) throw malformed('the sandbox sent nothing')
    if (isDurable) await out.sync()
    await rename(draft, file)
    return { ...header, packBytes }
  } finally {
    await out.close()
    await rm(draft, { force: true })
  }
}

function malformed(why: string): AgentPodError {
  const text = replaceHidden(why.slice(0, 300))
  return new AgentPodError({
    code: 'data_loss',
    reason: 'result.malformed',
    message: `the sandbox sent no usable result${text && `: ${text}`}`,
    hint: 'for a run, `agentpod attach` opens a shell in its sandbox',
  })
}

function tooLarge(): AgentPodError {
  return new AgentPodError({
    code: 'resource_exhausted',
    reason: 'result.too_large',
    message: `the result is larger than ${LARGEST_PACK_BYTES / 1024 ** 3} GiB`,
    hint: 'list files that do not belong in the repository in .gitignore; for a run, `agentpod attach` opens a shell in its sandbox',
  })
}
