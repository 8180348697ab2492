/**
 * The script that collects the result of a run. It runs in the sandbox, with the sandbox's git, in our
 * repository beside the workspace. The agent may have destroyed or rewritten the workspace's own `.git`, so
 * only the subjects of commits are read from it. To the host the output is hostile; `result-header.ts`
 * describes how it begins.
 */
import type { Script } from '../../changes.ts'
import { FIND_GIT } from '../../find-git.ts'
import { ATTRIBUTES } from '../state/prepare-script.ts'
import { groupPaths, MOST_PATHS } from './group-paths.ts'

/** Larger files are left out of the result, and listed. */
export const LARGEST_RESULT_FILE = 100 * 1024 * 1024

export interface ResultScriptOptions {
  readonly workspace: string
  /** The stash that the project was prepared with; its `repo.git` has the objects of the start. */
  readonly stash: string
  /** The tree that the run began with, as the host knows it. */
  readonly tree: string
  readonly commit: string | undefined
  /** Directories of the workspace that are not part of the project. */
  readonly aside: readonly string[]
  readonly largestBytes: number
  /**
   * The only paths that may have changed, relative to the workspace, none inside another and none in a
   * repository inside the project. Everything is looked at without it.
   */
  readonly only?: readonly string[] | undefined
}

/**
 * Whether `$1` is inside a submodule: git rejects such paths. `$links` lists the submodules, one per line.
 */
const WITHIN = `IFS="
"
set -f
within() {
  for link in $links; do case $1 in "$link"/*) return 0 ;; esac; done
  return 1
}`

/** Turns paths into patterns that exclude them. */
const EXCLUDE = `${WITHIN}
for path; do within "\${path#./}" || printf ":(exclude,top,literal)%s\\0" "\${path#./}"; done`

/**
 * Repositories that the agent created inside the project become plain files: a link to a commit that exists
 * only in the sandbox is useless. Their own ignore rules apply, and those of the top of the project. `$@` are
 * the paths of `.git` below the top.
 */
const NESTED = `${WITHIN}
for found; do
  shift
  directory=\${found#./}
  directory=\${directory%/.git}
  within "$directory" && continue
  git ls-files --error-unmatch -- ":(top,literal)$directory" >/dev/null 2>&1 && continue
  git check-ignore -q -- "./$directory" 2>/dev/null && continue
  printf ":(exclude,top,literal)%s\\0" "$directory" >> "$out/without"
  set -- "$@" "$directory"
done
for directory; do
  {
    printf ".\\0"
    for other; do
      case $other in "$directory"/*) printf ":(exclude,top,literal)%s\\0" "\${other#"$directory"/}" ;; esac
    done
    printf "%s\\0" ":(exclude,top,glob)**/*[[:cntrl:]]*" ":(exclude,top,glob)**/*[[:cntrl:]]*/**"
    (cd "$directory" && links= && find . -name .git -prune -o -type f -size +"$largest"c -exec sh -c "$exclude" sh {} +)
  } > "$out/inner"
  tree=$(
    cd "$directory" || exit 1
    export GIT_WORK_TREE="$PWD" GIT_INDEX_FILE="$out/inner.index"
    rm -f "$GIT_INDEX_FILE"
    git -c core.excludesFile="$out/ignore" add -A --ignore-errors --pathspec-from-file="$out/inner" --pathspec-file-nul
    git write-tree
  ) && git read-tree --prefix="$directory/" "$tree"
done`

/**
 * Lists large files that are new or changed, with their sizes. `$@` are paths of large files; ignored and
 * unchanged files are skipped.
 */
const LARGE = `${WITHIN}
for found; do
  path=\${found#./}
  within "$path" && continue
  was=$(git ls-files -s -- ":(top,literal)$path" 2>/dev/null)
  if [ -n "$was" ]; then
    was=\${was#* }
    [ "\${was%% *}" = "$(git hash-object --no-filters -- "$found" 2>/dev/null)" ] && continue
  else
    git check-ignore -q -- "$found" 2>/dev/null && continue
  fi
  printf "%d %s\\0" "$(wc -c < "$found")" "$path"
done`

/**
 * Lists submodules that changed. Each has its own stash, made by prepare-script.ts; an empty submodule has
 * none. `$@` are their paths.
 */
const SUBMODULES = `for path; do
  stashed=$stash/modules/$(printf "%s" "$path" | sha256sum | cut -c1-24)/repo.git
  if [ -f "$stashed/index" ]; then
    changed=$(
      cd "$path" 2>/dev/null || { echo gone; exit; }
      cp -p "$stashed/index" "$out/inner.index"
      export GIT_DIR="$stashed" GIT_WORK_TREE="$PWD" GIT_INDEX_FILE="$out/inner.index"
      { git diff-files --name-only --ignore-submodules=all; git ls-files -o --exclude-standard; } | head -c 1
    )
  else changed=$(ls -A "$path" | head -c 1)
  fi
  [ -z "$changed" ] || printf "%s\\0" "$path"
done`

/** Settings that override the configuration of our repository, which the agent may have changed. */
const SETTINGS = [
  'core.fileMode=true',
  'core.symlinks=true',
  'core.ignoreCase=false',
  'core.protectHFS=true',
  'core.protectNTFS=true',
  'core.looseCompression=1',
  'core.fsync=none',
  // A copy of the sandbox keeps times and sizes, but not inode numbers and ctimes.
  'core.checkStat=minimal',
  'core.trustctime=false',
  'core.fsmonitor=false',
  'core.hooksPath=/dev/null',
  'safe.directory=*',
].map((setting) => setting.split('=') as [string, string])

const RESULT = `${FIND_GIT}export LC_ALL=C GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_TERMINAL_PROMPT=0 GIT_NO_REPLACE_OBJECTS=1 GIT_OPTIONAL_LOCKS=0
unset GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_CEILING_DIRECTORIES GIT_NAMESPACE
stash=$1 workspace=$2 start=$3 commit=$4 largest=$5 exclude=$6 nested=$7 large=$8 submodules=$9 only=\${10} reread=\${11}
shift 11
export stash largest exclude nested large
fail() { printf '%s\\n' "$1" >&2; exit 1; }
damaged='the stored start of the run is damaged, so its changes cannot be found'
cd "$workspace" || fail 'the workspace no longer exists'
export GIT_DIR="$stash/repo.git" GIT_WORK_TREE="$PWD"
umask 077
out=$(mktemp -d "$stash/result.XXXXXX") || fail "$damaged"
export out
trap 'rm -rf "$out"' EXIT
trap 'exit 1' HUP INT TERM
{ [ -d "$GIT_DIR/info" ] || mkdir -p "$GIT_DIR/info"; } && printf '%s\\n' '${ATTRIBUTES}' > "$GIT_DIR/info/attributes" || fail "$damaged"
for aside; do printf '/%s\\n' "$aside" | sed 's/[][*?\\\\ ]/\\\\&/g'; done > "$out/aside"
cat "$GIT_DIR/info/exclude" "$out/aside" > "$out/ignore" 2>/dev/null
[ -f .gitignore ] && [ ! -L .gitignore ] && cat .gitignore >> "$out/ignore" 2>/dev/null

${SETTINGS.map(([key, value], i) => `export GIT_CONFIG_KEY_${i}='${key}' GIT_CONFIG_VALUE_${i}='${value}'`).join('\n')}
export GIT_CONFIG_KEY_${SETTINGS.length}=core.excludesFile GIT_CONFIG_VALUE_${SETTINGS.length}="$out/aside" GIT_CONFIG_COUNT=${SETTINGS.length + 1}
export GIT_INDEX_FILE="$out/index"
# The index of the start knows when files were written, which spares reading them all. One that says something else is not believed.
if [ -f "$GIT_DIR/index" ] && cp -p "$GIT_DIR/index" "$out/index" && [ "$(git write-tree 2>/dev/null)" = "$start" ]; then :
else rm -f "$out/index"; git read-tree "$start" || fail "$damaged"
fi

# What is left out: what is aside, submodules, large files, repositories inside.
links=$(git ls-files -s -z | tr '\\0' '\\n' | sed -n 's/^160000 [0-9a-f]* 0	//p')
export links
# With submodules everything is looked at: each has an index of its own.
[ -z "$links" ] && [ ! -s "$stash/submodules" ] || only=
: > "$out/gone"
if [ -z "$only" ]; then printf '.\\0' > "$out/without"
else
  : > "$out/there"
  printf '%s\\n' "$only" | while IFS= read -r path; do
    if [ -e "./$path" ] || [ -L "./$path" ]; then printf '%s\\n' "$path" >> "$out/there"
    else printf ':(top,literal)%s\\0' "$path" >> "$out/gone"
    fi
  done
  sed 's|^|:(top,literal)|' "$out/there" | tr '\\n' '\\0' > "$out/without"
fi
for aside; do printf ':(exclude,top,literal)%s\\0' "$aside"; done | tee -a "$out/gone" >> "$out/without"
printf '%s\\n' "$links" | while IFS= read -r link; do
  [ -z "$link" ] || printf ':(exclude,top,literal)%s\\0' "$link"
done >> "$out/without"
# What is aside is not walked: it may be most of what there is.
walk() {
  while IFS= read -r path; do set -- -path ".$path" -prune -o "$@"; done < "$out/aside"
  if [ -z "$only" ]; then find . "$@"
  elif [ -s "$out/there" ]; then
    (
      set -f
      IFS="
"
      find $(sed 's|^|./|' "$out/there") "$@"
    )
  fi
}
walk -name .git -prune -o -type f -size +"$largest"c -exec sh -c 'sh -c "$exclude" sh "$@" >> "$out/without"; sh -c "$large" sh "$@"' sh {} + 2>/dev/null | head -c 65536 > "$out/large"
if [ -n "$links" ] || [ -s "$stash/submodules" ]; then
  (
    { printf '%s\\n' "$links"; cat "$stash/submodules"; } 2>/dev/null | sort -u > "$out/links"
    set --
    while IFS= read -r link; do [ -z "$link" ] || set -- "$@" "$link"; done < "$out/links"
    sh -c "$submodules" sh "$@"
  ) 2>/dev/null | head -c 65536 > "$out/submodules"
else : > "$out/submodules"
fi
walk -path ./.git -prune -o -path './*/.git' -prune -exec sh -c 'eval "$nested"' sh {} + >/dev/null 2>&1

for aside; do shift; set -- "$@" ":(exclude,top,literal)$aside"; done
# Tracked files stay tracked. Of the others, those whose names hold control characters are of no use to anybody.
if [ -n "$only" ] && grep -q '^:(top,literal)' "$out/gone"; then
  git rm -r -q -f --cached --ignore-unmatch --pathspec-from-file="$out/gone" --pathspec-file-nul >/dev/null 2>"$out/words" || fail "the changes could not be collected: $(tail -n 1 "$out/words")"
fi
# Without a path that is there, the list would mean everything.
[ -z "$only" ] || [ -s "$out/there" ] || nothing=1
# What is on the list is read, also if its time and size are those of the start. A long list is not given to git, which would compare
# each of its paths with every file; files whose names begin like one of the list are read in vain.
if [ -n "$reread" ]; then
  printf '%s\n' "$reread" | sed "s/^/$(printf '\t')/" > "$out/reread"
  git -c core.quotePath=false ls-files -s | grep -F -f "$out/reread" | git update-index --index-info
elif [ -n "$only" ] && [ -z "\${nothing-}" ]; then
  (
    set -f
    IFS="
"
    git ls-files -s -z -- $(sed 's|^|:(top,literal)|' "$out/there") "$@" | git update-index -z --index-info
  ) 2>/dev/null
fi
[ -n "\${nothing-}" ] || git add -u --ignore-errors --pathspec-from-file="$out/without" --pathspec-file-nul >/dev/null 2>"$out/words"
[ $? -le 1 ] || fail "the changes could not be collected: $(tail -n 1 "$out/words")"
printf '%s\\0' ':(exclude,top,glob)**/*[[:cntrl:]]*' ':(exclude,top,glob)**/*[[:cntrl:]]*/**' >> "$out/without"
if [ -z "$only" ]; then git add -A --ignore-errors --pathspec-from-file="$out/without" --pathspec-file-nul >/dev/null 2>>"$out/words"
elif [ -z "\${nothing-}" ]; then
  # Git adds no new file by a list of paths that also has exceptions (seen in 2.39), but lists them. Names with control characters
  # are among the exceptions already.
  (
    set -f
    IFS="
"
    git ls-files -z -o --exclude-standard -- $(tr '\\n\\0' '\\001\\n' < "$out/without" | grep -v "$(printf '\\001')")
  ) > "$out/new" 2>>"$out/words"
  [ ! -s "$out/new" ] || git --literal-pathspecs add -A --ignore-errors --pathspec-from-file="$out/new" --pathspec-file-nul >/dev/null 2>>"$out/words"
fi
[ $? -le 1 ] || fail "the changes could not be collected: $(tail -n 1 "$out/words")"
[ -s "$out/words" ] && grep -q 'No space left on device' "$out/words" && fail 'there is no space left on the disk of the sandbox'
tree=$(git write-tree) || fail 'the changes could not be collected'
if [ -z "$only" ]; then git ls-files -z -o -m --exclude-standard -- . "$@"
elif [ -z "\${nothing-}" ]; then
  (
    set -f
    IFS="
"
    git ls-files -z -o -m --exclude-standard -- $(sed 's|^|:(top,literal)|' "$out/there") "$@"
  )
fi 2>/dev/null | head -c 65536 > "$out/left"
(
  unset GIT_WORK_TREE GIT_INDEX_FILE
  export GIT_DIR="$PWD/.git"
  git -c log.showSignature=false log -z --max-count=50 --encoding=UTF-8 --format=tformat:%s HEAD \${commit:+--not "$commit"} --
) 2>/dev/null </dev/null | head -c 16384 > "$out/commits"

count() { if [ -s "$out/$1" ]; then echo $(($(wc -c < "$out/$1"))); else echo 0; fi; }
printf 'agentpod-result 1\\ntree %s\\ncommits %d\\nlarge %d\\nleft %d\\nsubmodules %d\\n\\n' "$tree" "$(count commits)" "$(count large)" "$(count left)" "$(count submodules)"
cat "$out/commits" "$out/large" "$out/left" "$out/submodules"
printf '%s\\n^%s\\n' "$tree" "$start" | git pack-objects --revs --stdout -q --delta-base-offset || fail 'the changes could not be packed'`

/** Exits with 0 after a header and a pack; otherwise with another code and the reason as a line on stderr. */
export function resultScript(o: ResultScriptOptions): Script {
  // SECURITY: a line break in a path would start another pattern, which could exclude everything.
  const aside = o.aside.filter((path) => path !== '' && !/\p{Cc}/u.test(path))
  const { stash, workspace, tree, commit = '', largestBytes } = o
  const all = (o.only ?? []).some((path) => path === '' || /\p{Cc}/u.test(path)) ? [] : (o.only ?? [])
  // Git writes these characters in another way than they are in the list.
  const isLong = all.length > MOST_PATHS && !all.some((path) => /["\\]/.test(path))
  const [only, reread] = isLong ? [groupPaths(all), all] : [all, []]
  const scripts = [EXCLUDE, NESTED, LARGE, SUBMODULES]
  const lists = [only.join('\n'), reread.join('\n')]
  const given = [stash, workspace, tree, commit, String(largestBytes), ...scripts, ...lists]
  return { command: '/bin/sh', args: ['-c', RESULT, 'agentpod', ...given, ...aside] }
}
