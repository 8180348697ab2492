/**
 * Runs git on the host. SECURITY: no program that a repository's configuration, attributes or hooks name is
 * run (GT-01 to GT-05).
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { PassThrough, type Readable, type Writable } from 'node:stream'
import { AgentPodError } from '../../../core/error.ts'
import { replaceHidden } from '../../../util/hidden-characters.ts'
import { gitEnv, SAFE_GIT } from '../../project-files.ts'

export interface GitOptions {
  readonly cwd: string
  /** The user's environment, for PATH and HOME. */
  readonly env: Readonly<Record<string, string | undefined>>
  /** Variables for git, such as GIT_INDEX_FILE. */
  readonly variables?: Readonly<Record<string, string>> | undefined
  readonly input?: Buffer | string | Readable | undefined
  /** Settings that override the repository's, such as filters that do nothing. */
  readonly settings?: readonly string[] | undefined
  readonly maxBytes?: number | undefined
  /** Git is killed after this time, which counts as a failure. */
  readonly timeoutMs?: number | undefined
}

export interface GitAnswer {
  readonly exitCode: number
  readonly stdout: Buffer
  readonly stderr: string
}

const MOST_BYTES = 512 * 1024 * 1024
const MOST_WORDS = 64 * 1024

const SAFE_VARIABLES = {
  GIT_TERMINAL_PROMPT: '0',
  GIT_ASKPASS: '/bin/false',
  GIT_EDITOR: '/bin/false',
  GIT_PAGER: 'cat',
  GIT_NO_LAZY_FETCH: '1',
  GIT_ALLOW_PROTOCOL: '',
} as const

/** Runs git to its end and returns its exit code. `failed_precondition` if git cannot be started. */
export function git(args: readonly string[], o: GitOptions): Promise<GitAnswer> {
  const child = start(args, o)
  return new Promise((resolve, reject) => {
    const out: Buffer[] = []
    let [bytes, words] = [0, '']
    child.on('error', (cause) => reject(noGit(cause)))
    child.stdout.on('data', (data: Buffer) => {
      bytes += data.length
      if (bytes > (o.maxBytes ?? MOST_BYTES)) child.kill('SIGKILL')
      else out.push(data)
    })
    child.stderr.on('data', (data: Buffer) => {
      if (words.length < MOST_WORDS) words += data.toString('utf8')
    })
    child.on('close', (code) =>
      resolve({ exitCode: code ?? 1, stdout: Buffer.concat(out), stderr: words.slice(0, MOST_WORDS) }),
    )
    feed(child, o.input, reject)
  })
}

/** Git's output as a stream. It fails if git fails; closing it kills git. */
export function gitReadable(args: readonly string[], o: GitOptions): Readable {
  const child = start(args, o)
  const out = new PassThrough()
  let words = ''
  child.stderr.on('data', (data: Buffer) => {
    if (words.length < MOST_WORDS) words += data.toString('utf8')
  })
  child.on('error', (cause) => out.destroy(noGit(cause)))
  child.on('close', (code) => {
    if (code === 0) out.end()
    else out.destroy(gitFailed(args, { exitCode: code ?? 1, stdout: Buffer.alloc(0), stderr: words }))
  })
  out.on('close', () => child.kill('SIGKILL'))
  child.stdout.pipe(out, { end: false })
  feed(child, o.input, (error) => out.destroy(error))
  return out
}

type Child = ChildProcessByStdio<Writable, Readable, Readable>

function start(args: readonly string[], o: GitOptions): Child {
  const settings = (o.settings ?? []).flatMap((setting) => ['-c', setting])
  return spawn('git', ['--no-pager', ...SAFE_GIT, '-c', 'protocol.allow=never', ...settings, ...args], {
    cwd: o.cwd,
    env: { ...gitEnv(o.env), ...SAFE_VARIABLES, ...o.variables },
    stdio: ['pipe', 'pipe', 'pipe'],
    timeout: o.timeoutMs,
    killSignal: 'SIGKILL',
  })
}

function feed(child: Child, input: GitOptions['input'], failed: (error: Error) => void): void {
  // Git may exit before it has read everything.
  child.stdin.on('error', () => undefined)
  if (input === undefined) child.stdin.end()
  else if (typeof input === 'string' || Buffer.isBuffer(input)) child.stdin.end(input)
  else
    input
      .on('error', (error: Error) => {
        child.kill('SIGKILL')
        failed(error)
      })
      .pipe(child.stdin)
}

/** Git's output without the last line break. If git fails, the error has git's message. */
export async function gitText(args: readonly string[], o: GitOptions): Promise<string> {
  const answer = await git(args, o)
  if (answer.exitCode === 0) return answer.stdout.toString('utf8').replace(/\n$/, '')
  throw gitFailed(args, answer)
}

export function gitFailed(args: readonly string[], { stderr, exitCode }: GitAnswer): AgentPodError {
  const words = replaceHidden(stderr.trim().slice(0, 500), ' ')
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'git.failed',
    message: `git ${args[0] ?? ''} failed: ${words || `exit code ${exitCode}`}`,
  })
}

function noGit(cause: unknown): AgentPodError {
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'git.none',
    message: 'git could not be started',
    hint: 'install git, or add it to PATH',
    cause,
  })
}
