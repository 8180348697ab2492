/**
 * Prepares the project in the sandbox: a repository in the workspace that the agent may use and destroy, and
 * beside it our own copy (the stash), which the result is compared with. The script runs in the sandbox, as
 * its user, with its git.
 */
import { createHash } from 'node:crypto'
import { invalid } from '../../../core/error.ts'
import { CACHES } from '../../cache-patterns.ts'
import type { Script } from '../../changes.ts'
import { FIND_GIT } from '../../find-git.ts'
import { OBJECT_ID, type ObjectId } from '../plumbing/repository.ts'

export interface PrepareScriptOptions {
  /** Directory for the files; created if needed. */
  readonly workspace: string
  /** Our own directory, outside every workspace, which exists as long as the workspace. */
  readonly stash: string
  readonly commit: ObjectId | undefined
  readonly tree: ObjectId
  readonly branch: string | undefined
  readonly shallow: readonly ObjectId[]
  /** Directories that belong to the environment: they are not changed, and git ignores them. */
  readonly aside: readonly string[]
  /** Packs in the sandbox, on the same file system as the stash. They are moved. */
  readonly packs: readonly string[]
  /** Paths of submodules in the workspace. A submodule that is no longer listed is removed. */
  readonly submodules?: readonly string[] | undefined
  /**
   * Whether nothing but this script has written into the workspace and the stash. Then only files that differ
   * between the two states are looked at; otherwise every file is reset.
   */
  readonly isUntouched?: boolean | undefined
}

/** Path of the stash in a home directory of the sandbox. */
export function stashIn(home: string): string {
  return `${home}/.agentpod`
}

/** Path of a submodule's stash; '' is the project itself. */
export function stashOf(stash: string, path: string): string {
  if (path === '') return stash
  return `${stash}/modules/${createHash('sha256').update(path).digest('hex').slice(0, 24)}`
}

/**
 * Contents of a prepared stash:
 *
 * - `repo.git`: bare, with every object of the commit and the tree, `refs/agentpod/tree` and
 *   `refs/agentpod/commit`. Its `info/attributes` overrides the project's, so that bytes are written and read
 *   unchanged; its `info/exclude` lists the directories of the environment; its `index` is the tree as it was
 *   checked out;
 * - `tree`, `commit` and `branch`: one line each, empty if there is none;
 * - `aside`: the directories of the environment that `info/exclude` was made for.
 *
 * Files of an earlier tree are updated to the new one: changed files are written, removed files are deleted,
 * ignored files stay.
 */
export function prepareScript(o: PrepareScriptOptions): Script {
  for (const id of [o.tree, ...(o.commit === undefined ? [] : [o.commit]), ...o.shallow])
    if (!OBJECT_ID.test(id)) throw invalid('prepare.id', `${JSON.stringify(id)} is not an object id`)
  // SECURITY: a line break in a path would start another pattern, which could exclude everything.
  const aside = o.aside.filter((path) => path !== '' && !/\p{Cc}/u.test(path))
  const submodules = (o.submodules ?? []).filter((path) => !/\p{Cc}/u.test(path))
  return {
    command: '/bin/sh',
    args: [
      '-c',
      PREPARE,
      'agentpod',
      o.workspace,
      o.stash,
      o.tree,
      o.commit ?? '',
      o.branch ?? '',
      lines(o.shallow),
      lines(aside),
      lines(submodules),
      o.isUntouched ? 'untouched' : '',
      ...o.packs,
    ],
  }
}

function lines(words: readonly string[]): string {
  return words.map((word) => `${word}\n`).join('')
}

/**
 * Files have exactly the bytes of their objects: no line ending is converted, no filter runs, no keyword is
 * expanded.
 */
export const ATTRIBUTES = '* -text -filter -ident -working-tree-encoding !diff !merge'

/**
 * Git compares only times and sizes: a copy of the sandbox keeps them, but not inode numbers and ctimes, so
 * git would read every file again.
 */
const OURS = '-c core.checkStat=minimal -c core.trustctime=false -c core.fsync=none -c gc.auto=0'

const PREPARE = `set -eu
${FIND_GIT}umask 022
workspace=$1 stash=$2 tree=$3 commit=$4 branch=$5 shallow=$6 aside=$7 submodules=$8 untouched=$9
shift 9
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_CEILING_DIRECTORIES
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_TERMINAL_PROMPT=0 GIT_ADVICE=0 LC_ALL=C
base=$stash/repo.git
ours() { git ${OURS} --git-dir="$base" --work-tree="$workspace" "$@"; }
agents() { git ${OURS} --git-dir="$workspace/.git" --work-tree="$workspace" "$@"; }
lines() { if [ -f "$1" ]; then cat "$1"; fi; }

mkdir -p "$workspace" "$stash"
cd "$workspace"
if [ ! -d "$base/objects" ]; then git -c init.defaultBranch=main init -q --bare --template= "$base" >&2; fi
mkdir -p "$base/info" "$base/objects/pack"
printf '%s\\n' '${ATTRIBUTES}' > "$base/info/attributes"

for pack; do
  name=pack-$(ours -c pack.writeReverseIndex=false index-pack -o "$pack.idx" "$pack")
  mv -f "$pack" "$base/objects/pack/$name.pack"
  mv -f "$pack.idx" "$base/objects/pack/$name.idx"
done
rm -f "$base/shallow"
if [ -n "$shallow" ]; then printf '%s' "$shallow" > "$base/shallow"; fi
ours update-ref refs/agentpod/tree "$tree"
if [ -n "$commit" ]; then ours update-ref refs/agentpod/commit "$commit"; fi

lines "$stash/submodules" | while IFS= read -r path; do
  if ! printf '%s' "$submodules" | grep -qxF -e "$path"; then rm -rf "$workspace/$path"; fi
done
printf '%s' "$submodules" > "$stash/submodules"

# Where the environment has a directory and the project a file or a link, such as a link to installed dependencies, the directory
# stays: the files are those of a tree without it, and the index says that it is not to be looked at.
aim=$tree
lines "$stash/hidden" | while IFS= read -r path; do ours update-index --force-remove -- "$path"; done
printf '%s' "$aside" | while IFS= read -r path; do
  if [ -d "$path" ] && [ ! -L "$path" ] && [ "$(ours cat-file -t "$tree:$path" 2>/dev/null)" = blob ]; then
    printf '%s\\n' "$path"
  fi
done > "$stash/hidden"
if [ -s "$stash/hidden" ]; then
  export GIT_INDEX_FILE="$stash/aim"
  ours read-tree "$tree"
  while IFS= read -r path; do ours update-index --force-remove -- "$path"; done < "$stash/hidden"
  aim=$(ours write-tree)
  unset GIT_INDEX_FILE
fi
# Files that both trees have are as they were: git need not look at each of them.
known=
if [ -n "$untouched" ] && [ -f "$base/index" ] && was=$(ours write-tree 2>/dev/null) && ours -c checkout.workers=0 read-tree -m -u "$was" "$aim" 2>/dev/null; then
  # Files of no tree are those that the last run of this script found, unless other rules say which they are.
  rules=$(ours diff-tree -r --name-only "$was" "$aim" -- .gitignore ':(glob)**/.gitignore')
  if [ -z "$rules" ] && [ -f "$stash/aside" ] && [ "$(cat "$stash/aside"; echo .)" = "$aside." ]; then known=yes; fi
else ours -c checkout.workers=0 read-tree --reset -u "$aim" >&2
fi
cp "$base/index" "$stash/index"
while IFS= read -r path; do
  entry=$(ours --literal-pathspecs ls-tree "$tree" -- "$path")
  mode=\${entry%% *} entry=\${entry#* blob }
  ours update-index --add --cacheinfo "$mode,\${entry%%[!0-9a-f]*},$path"
  ours update-index --skip-worktree -- "$path"
done < "$stash/hidden"
rm -f "$stash/aim"

if [ -z "$known" ]; then
printf '%s' "$aside" > "$stash/aside"
printf '%s' "$aside" | sed 's/[][*?\\\\ ]/\\\\&/g; s|^|/|' > "$base/info/exclude"
printf '%s\\n' ${CACHES} >> "$base/info/exclude"
ours ls-files --others --exclude-standard -z > "$stash/extra"
tr '\\n\\0' '\\001\\n' < "$stash/extra" > "$stash/lines"
sed -n "/$(printf '\\001')/d"'; s/[][*?\\\\ ]/\\\\&/g; s|^|/|p' "$stash/lines" >> "$base/info/exclude"
rm -f "$stash/extra" "$stash/lines"
fi

rm -rf .git
git -c init.defaultBranch=main init -q --template= "$workspace" >&2
mkdir -p .git/objects/pack .git/info
for pack in "$base"/objects/pack/pack-*; do
  [ ! -e "$pack" ] || ln "$pack" .git/objects/pack/ 2>/dev/null || cp "$pack" .git/objects/pack/
done
cp "$base/info/exclude" .git/info/exclude
if [ -n "$shallow" ]; then printf '%s' "$shallow" > .git/shallow; fi
cat >> .git/config <<'END'
[user]
	name = agent
	email = agent@agentpod.invalid
[gc]
	auto = 0
[core]
	checkStat = minimal
	trustctime = false
END
if [ -n "$branch" ]; then agents symbolic-ref HEAD "refs/heads/$branch"; else detached=--no-deref; fi
mv "$stash/index" .git/index
if [ -n "$commit" ]; then
  agents update-ref \${detached-} HEAD "$commit"
  committed=$(agents rev-parse "$commit^{tree}")
  if [ -s "$stash/hidden" ] || [ "$committed" != "$tree" ]; then agents read-tree -m "$commit"; fi
  while IFS= read -r path; do agents update-index --skip-worktree -- "$path" 2>/dev/null || :; done < "$stash/hidden"
else rm -f .git/index
fi
printf '%s\\n' "$commit" > "$stash/commit"
printf '%s\\n' "$branch" > "$stash/branch"
printf '%s\\n' "$tree" > "$stash/tree"
`
