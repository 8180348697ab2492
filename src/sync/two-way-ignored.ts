/** Which paths git ignores here, whether they are there or not. */
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { gitEnv, type ProjectOptions, SAFE_GIT } from './project.ts'

const LONGEST_MS = 30_000
/** How often git is asked about one batch: a path that it refuses to speak about is found by halves. */
const MOST_QUESTIONS = 64

/**
 * SECURITY: the names may come from inside a sandbox; they go in as data, behind `./`, so that none is an option or a pattern. What git
 * refuses to speak about counts as ignored: what is not known to be part of the project does not pass. No path may lie behind a link.
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

/** For a directory the one, relative to the project, of its repository: a repository within another has its own rules. */
function repositories(directory: string): (path: string) => string {
  const known = new Map<string, string>([['.', '']])
  const of = (path: string): string => {
    const found = known.get(path) ?? (existsSync(join(directory, path, '.git')) ? path : of(dirname(path)))
    known.set(path, found)
    return found
  }
  return of
}

interface Question {
  readonly cwd: string
  readonly env: NodeJS.ProcessEnv
  left: number
}

async function check(question: Question, paths: readonly string[]): Promise<readonly string[]> {
  const answer = question.left-- > 0 ? await ask(question, paths) : undefined
  if (answer || paths.length <= 1 || question.left <= 0) return answer ?? paths
  const half = paths.length >> 1
  return [...(await check(question, paths.slice(0, half))), ...(await check(question, paths.slice(half)))]
}

/** Where there is no repository, nothing is ignored; the listing of the project sees it in the same way. */
const NO_REPOSITORY = /not a git repository|dubious ownership/

/** Undefined where git refuses. */
function ask({ cwd, env }: Question, paths: readonly string[]): Promise<readonly string[] | undefined> {
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
    // No git, no rules; any other reason why it does not start says nothing about the rules.
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
