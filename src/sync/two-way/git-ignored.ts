/** Which paths git on this machine ignores, whether they exist or not. */
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { gitEnv, type ProjectOptions, SAFE_GIT } from '../project-files.ts'

const LONGEST_MS = 30_000
/** Calls of git for one batch: if git rejects a batch, the path at fault is found by bisection. */
const MOST_QUESTIONS = 64

/**
 * SECURITY: the names may come from a sandbox. They are passed as data, prefixed with `./`, so that none is
 * read as an option or a pattern. A path that git rejects counts as ignored: only known parts of the project
 * are synced. Callers pass no path that is behind a link.
 */
export async function ignoredPaths(
  directory: string,
  paths: readonly string[],
  env: ProjectOptions['env'],
): Promise<Set<string>> {
  const ignored = new Set<string>()
  const repositoryOf = repositories(directory)
  for (const [repository, group] of Map.groupBy(paths, (path) => repositoryOf(dirname(path)))) {
    const question = { cwd: join(directory, repository), env: gitEnv(env), left: MOST_QUESTIONS }
    const found = await check(
      question,
      group.map((path) => relative(repository, path)),
    )
    for (const path of found) ignored.add(join(repository, path))
  }
  return ignored
}

/**
 * Finds the repository that a directory belongs to, relative to the project: a nested repository has its own
 * rules.
 */
function repositories(directory: string): (path: string) => string {
  const known = new Map<string, string>([['.', '']])
  const of = (path: string): string => {
    const found = known.get(path) ?? (existsSync(join(directory, path, '.git')) ? path : of(dirname(path)))
    known.set(path, found)
    return found
  }
  return of
}

interface HelperRequest {
  readonly cwd: string
  readonly env: NodeJS.ProcessEnv
  left: number
}

async function check(question: HelperRequest, paths: readonly string[]): Promise<readonly string[]> {
  const answer = question.left-- > 0 ? await ask(question, paths) : undefined
  if (answer || paths.length <= 1 || question.left <= 0) return answer ?? paths
  const half = paths.length >> 1
  return [...(await check(question, paths.slice(0, half))), ...(await check(question, paths.slice(half)))]
}

/** Outside a repository nothing is ignored, as in the listing of the project. */
const NO_REPOSITORY = /not a git repository|dubious ownership/

/** Undefined if git rejects the paths. */
function ask({ cwd, env }: HelperRequest, paths: readonly string[]): Promise<readonly string[] | undefined> {
  return new Promise((resolve) => {
    const git = spawn('git', [...SAFE_GIT, 'check-ignore', '-z', '--stdin'], {
      cwd,
      env,
      timeout: LONGEST_MS,
      killSignal: 'SIGKILL',
    })
    const out: Buffer[] = []
    let said = ''
    git.stdout.on('data', (data: Buffer) => out.push(data))
    git.stderr.on('data', (data: Buffer) => {
      said = (said + data.toString('utf8')).slice(-2000)
    })
    // Without git there are no rules. Any other failure to start says nothing about the rules.
    git.on('error', (error: NodeJS.ErrnoException) => resolve(error.code === 'ENOENT' ? [] : undefined))
    git.stdin.on('error', () => undefined)
    git.on('close', (code) => {
      if (code === 128 && NO_REPOSITORY.test(said)) return resolve([])
      if (code !== 0 && code !== 1) return resolve(undefined)
      const names = Buffer.concat(out).toString('utf8').split('\0')
      resolve(names.filter((name) => name !== '').map((name) => name.replace(/^\.\//, '')))
    })
    git.stdin.end(paths.map((path) => `./${path}\0`).join(''))
  })
}
