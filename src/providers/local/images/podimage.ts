/**
 * Runs podimage, which speaks to registries: one process for each job. It gets the job by stdin, files as
 * open descriptors, and answers with JSON lines. It gives up root's rights before it reads anything.
 */
import { spawn } from 'node:child_process'
import * as z from 'zod'
import { AgentPodError, ERROR_CODES } from '../../../core/error.ts'

export interface PodimageRun {
  /** Open files; the first one is descriptor 3. */
  readonly files?: readonly number[] | undefined
  onProgress?(line: string): void
  /** How many bytes of a blob have arrived. */
  onBytes?(bytes: number): void
  readonly signal: AbortSignal
}

/** How the program is called. */
export type Podimage = (job: Readonly<Record<string, unknown>>, o: PodimageRun) => Promise<unknown>

/** podimage copies streams, so it needs little. */
const MEMORY = '192MiB'
const LONGEST_LINE = 32 * 1024 * 1024
const LONGEST_STDERR = 4000
/** Variables that say how to reach registries and whom to trust. Nothing else is passed on. */
const PASSED = ['HTTPS_PROXY', 'https_proxy', 'HTTP_PROXY', 'http_proxy', 'NO_PROXY', 'no_proxy']
const TRUST = ['SSL_CERT_FILE', 'SSL_CERT_DIR']

const line = z.union([
  z.strictObject({ progress: z.string().max(1000) }),
  z.strictObject({ bytes: z.number().nonnegative() }),
  z.strictObject({ result: z.unknown() }),
  z.strictObject({
    error: z.strictObject({
      code: z.enum(ERROR_CODES),
      reason: z.string().max(100),
      message: z.string().max(4000),
      hint: z.string().max(1000).optional(),
    }),
  }),
])

export function podimageProgram(
  program: string,
  env: Readonly<Record<string, string | undefined>>,
  upstreamProxy?: string,
): Podimage {
  const proxy = upstreamProxy === undefined ? {} : { HTTPS_PROXY: upstreamProxy, HTTP_PROXY: upstreamProxy }
  const passed = [...PASSED, ...TRUST].flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]]))
  const own = { ...Object.fromEntries(passed), ...proxy, GOMEMLIMIT: MEMORY, GOMAXPROCS: '2' }
  return (job, o) =>
    new Promise((resolve, reject) => {
      const child = spawn(program, [], {
        stdio: ['pipe', 'pipe', 'pipe', ...(o.files ?? [])],
        env: own,
        cwd: '/',
        signal: o.signal,
        killSignal: 'SIGKILL',
      })
      let rest = ''
      let stderr = ''
      let answer: z.infer<typeof line> | undefined
      const take = (text: string): void => {
        const parsed = line.safeParse(parseLine(text))
        if (!parsed.success) return
        const { data } = parsed
        if ('progress' in data) o.onProgress?.(data.progress)
        else if ('bytes' in data) o.onBytes?.(data.bytes)
        else answer = data
      }
      const { stdin, stdout, stderr: errors } = child
      if (!stdin || !stdout || !errors) throw new TypeError('podimage has no pipes')
      stdout.setEncoding('utf8')
      stdout.on('data', (text: string) => {
        const parts = (rest + text).split('\n')
        rest = parts.pop() ?? ''
        if (rest.length > LONGEST_LINE) child.kill('SIGKILL')
        for (const part of parts) take(part)
      })
      errors.setEncoding('utf8')
      errors.on('data', (text: string) => {
        stderr = (stderr + text).slice(-LONGEST_STDERR)
      })
      stdin.on('error', () => undefined)
      stdin.end(JSON.stringify(job))
      let failed: Error | undefined
      child.once('error', (error) => {
        failed = error
      })
      child.once('close', () => {
        if (answer && 'result' in answer) resolve(answer.result)
        else if (answer && 'error' in answer) reject(new AgentPodError(answer.error))
        else reject(o.signal.aborted ? interrupted(o.signal) : died(failed?.message ?? stderr))
      })
    })
}

function parseLine(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function interrupted(signal: AbortSignal): AgentPodError {
  const isLate = signal.reason instanceof DOMException && signal.reason.name === 'TimeoutError'
  return isLate
    ? new AgentPodError({
        code: 'deadline_exceeded',
        reason: 'image.timeout',
        message: 'the transfer of the image took too long',
        hint: 'try again: the download continues where it stopped',
      })
    : new AgentPodError({
        code: 'canceled',
        reason: 'canceled',
        message: 'the transfer of the image was canceled',
      })
}

function died(why: string): AgentPodError {
  return new AgentPodError({
    code: 'internal',
    reason: 'podimage.died',
    message: `podimage ended without an answer: ${why.trim().split('\n')[0]?.slice(0, 300) ?? ''}`,
    hint: 'try again; scripts/build --force builds podimage again',
  })
}
