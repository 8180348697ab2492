/**
 * Finds what a command changed, with the sandbox's git in a repository beside the workspace. To the host the
 * answer is hostile: it is stored and shown, never run.
 */
import { AgentPodError } from '../core/error.ts'
import { CACHES } from './cache-patterns.ts'
import { FIND_GIT } from './find-git.ts'

/** Beside the workspace, so that the project's own `.git` is not touched. */
const REPOSITORY = '.agentpod-base'

/**
 * Attributes that override the project's: bytes are compared unchanged, no line ending is converted and no
 * filter runs.
 */
const ATTRIBUTES = '* -text -filter -ident !diff !merge'

const GIT = `set -e
${FIND_GIT}export GIT_DIR="$1" GIT_WORK_TREE="$2" GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null LC_ALL=C
cd "$2"
shift 2`

/** Records the current state of the workspace. */
const BASELINE = `${GIT}
git init -q --template= >/dev/null
mkdir -p "$GIT_DIR/info"
echo '${ATTRIBUTES}' > "$GIT_DIR/info/attributes"
git config core.fileMode true
git config core.symlinks true
git config core.quotePath false
for out; do printf '/%s\\n' "\${out#*)}" | sed 's/[][*?\\\\ ]/\\\\&/g'; done > "$GIT_DIR/info/exclude"
printf '%s\\n' ${CACHES} >> "$GIT_DIR/info/exclude"
git add -A -f -- . "$@"
git write-tree > "$GIT_DIR/base"`

/** The changed files, then the patch: \`git diff\` against the baseline, as one stream. */
const CHANGES = `${GIT}
git add -A -- . >/dev/null
base=$(cat "$GIT_DIR/base")
git diff-index --cached --raw -z -M "$base"
printf '\\0\\0'
git diff-index --cached --binary --full-index -M "$base"`

export interface Script {
  readonly command: string
  readonly args: readonly string[]
}

/** `aside` are directories that are not part of the project, such as installed dependencies. */
export function baselineScript(directory: string, workspace: string, aside: readonly string[] = []): Script {
  return script(BASELINE, directory, workspace, aside)
}

export function changesScript(directory: string, workspace: string, aside: readonly string[] = []): Script {
  return script(CHANGES, directory, workspace, aside)
}

function script(text: string, directory: string, workspace: string, aside: readonly string[]): Script {
  // SECURITY: a line break in a path would start another pattern, which could exclude everything.
  const plain = aside.filter((path) => !/\p{Cc}/u.test(path))
  const out = plain.map((path) => `:(exclude,top,literal)${path}`)
  return {
    command: '/bin/sh',
    args: ['-c', text, 'agentpod', `${directory}/${REPOSITORY}`, workspace, ...out],
  }
}

export interface CommandChange {
  readonly kind: 'added' | 'deleted' | 'modified' | 'renamed' | 'type changed'
  readonly path: string
  readonly from?: string | undefined
}

const KINDS: Record<string, CommandChange['kind']> = {
  A: 'added',
  D: 'deleted',
  M: 'modified',
  R: 'renamed',
  C: 'added',
  T: 'type changed',
}

/** Parses the output of `changesScript`. */
export function parseChanges(output: Buffer): { changes: CommandChange[]; patch: Buffer } {
  const cut = output.indexOf('\0\0\0')
  const border = cut >= 0 ? cut + 1 : output.indexOf('\0\0')
  if (border < 0)
    throw new AgentPodError({
      code: 'data_loss',
      reason: 'changes.malformed',
      message: 'the sandbox returned no valid list of changes',
    })
  const fields = output
    .subarray(0, border)
    .toString('utf8')
    .split('\0')
    .filter((field) => field !== '')
  const changes: CommandChange[] = []
  for (let i = 0; i < fields.length; ) {
    const kind = KINDS[/ ([A-Z])\d*$/.exec(fields[i++] ?? '')?.[1] ?? ''] ?? 'modified'
    const from = kind === 'renamed' ? fields[i++] : undefined
    changes.push({ kind, path: fields[i++] ?? '', from })
  }
  return { changes, patch: output.subarray(border + 2) }
}
