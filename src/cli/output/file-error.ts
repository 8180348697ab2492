/** System errors about a path, in plain words and with a hint. */
import { AgentPodError, type ErrorCode } from '../../core/error.ts'

interface Problem {
  readonly code: ErrorCode
  readonly says: string
  readonly hint: (path: string) => string
}

const DENIED: Problem = {
  code: 'permission_denied',
  says: 'permission denied',
  hint: (path) => `\`ls -ld ${path}\` shows who may use it; its directories need the permission too`,
}

const PROBLEMS: Readonly<Record<string, Problem>> = {
  EACCES: DENIED,
  EPERM: DENIED,
  ENOTDIR: {
    code: 'invalid_argument',
    says: 'a part of this path is a file, not a directory',
    hint: () => 'correct the path, or move the file away',
  },
  EISDIR: { code: 'invalid_argument', says: 'it is a directory', hint: () => 'name a file' },
  ENOENT: {
    code: 'not_found',
    says: 'no such file or directory',
    hint: () => 'check the spelling; a relative path starts at the directory you are in',
  },
  EEXIST: { code: 'already_exists', says: 'it exists already', hint: () => 'choose another name' },
  EROFS: {
    code: 'failed_precondition',
    says: 'its file system is read-only',
    hint: () => 'choose a writable place',
  },
  ELOOP: { code: 'invalid_argument', says: 'too many symbolic links', hint: () => 'correct the path' },
  ENAMETOOLONG: {
    code: 'invalid_argument',
    says: 'the name is too long',
    hint: () => 'choose a shorter one',
  },
}

/** An error about a path that a call on it threw; `what` is the attempt, such as `cannot read`. */
export function fileError(
  thrown: unknown,
  o: { readonly reason: string; readonly what: string; readonly path: string },
): AgentPodError {
  const problem = problemOf(thrown)
  return new AgentPodError({
    code: 'invalid_argument',
    reason: o.reason,
    message: `${o.what} ${o.path}: ${problem?.says ?? (thrown as Error).message}`,
    hint: problem?.hint(o.path),
    cause: thrown,
  })
}

/** A system error about a path, wherever it was thrown. Undefined for other errors. */
export function fromSystem(thrown: unknown): AgentPodError | undefined {
  const { path, syscall = '' } = (thrown ?? {}) as NodeJS.ErrnoException
  const problem = problemOf(thrown)
  if (!problem || typeof path !== 'string' || syscall.startsWith('spawn')) return undefined
  return new AgentPodError({
    code: problem.code,
    reason: 'path.unusable',
    message: `cannot use ${path}: ${problem.says}`,
    hint: problem.hint(path),
    cause: thrown,
  })
}

/** The state directory cannot be made, read or written. */
export function homeUnusable(root: string, thrown: unknown): AgentPodError {
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'home.unusable',
    message: `the state directory ${root} cannot be used: ${problemOf(thrown)?.says ?? (thrown as Error).message}`,
    hint: 'set AGENTPOD_HOME to a directory you own',
    cause: thrown,
  })
}

function problemOf(thrown: unknown): Problem | undefined {
  const code = String((thrown as NodeJS.ErrnoException | null | undefined)?.code)
  return Object.hasOwn(PROBLEMS, code) ? PROBLEMS[code] : undefined
}
