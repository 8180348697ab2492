/**
 * The helper that two-way sync runs in the sandbox: one process for the whole sync, so that the sandbox's
 * process list stays readable. A request is a line with the number of bytes that follow it. An answer is a
 * list of fields that end in a NUL byte; the last field repeats the random word of the request. Finding
 * changes needs no disk space, so changes can be copied out of a sandbox whose disk is full.
 */

/**
 * What `find` prints for a path: type, mode, size, time, inode. If two prints are equal, the file is
 * unchanged.
 */
export const STAMP_FORMAT = '%y %m %s %T@ %i'

/**
 * Distinguishes an absent path from an unreadable one: the nearest existing directory must be searchable. A
 * path behind a link counts as absent.
 */
const LOOK = `mark=$1
shift
for path; do
  shift
  above=$path link= near=
  while above=\${above%/*}; [ "$above" != . ]; do
    if [ -L "$above" ]; then link=1; fi
    if [ -z "$near" ] && [ -d "$above" ]; then near=$above; fi
  done
  if [ -n "$link" ]; then printf 'absent\\0%s\\0\\0' "$path"
  elif [ -e "$path" ] || [ -L "$path" ]; then set -- "$@" "$path"
  elif [ -x "\${near:-.}" ]; then printf 'absent\\0%s\\0\\0' "$path"
  fi
done
[ $# -eq 0 ] || find "$@" -maxdepth 0 -printf "$mark\\0%p\\0%l\\0" 2>/dev/null`

/**
 * Each change checks the path again right before. A file is renamed into place, so that no one reads half of
 * it.
 */
const CHANGE = `mark=$1 stage=$2
shift 2
while [ $# -ge 5 ]; do
  what=$1 expected=$2 path=$3 source=$4 mode=$5
  shift 5
  above=$path way=
  while above=\${above%/*}; [ "$above" != . ]; do
    if [ -L "$above" ] || { [ -e "$above" ] && ! [ -d "$above" ]; }; then way=1; fi
  done
  status=failed said=
  now=$(find "$path" -maxdepth 0 -printf "$mark" 2>/dev/null) || now=
  if [ -n "$way" ]; then status=way
  elif [ "$now" != "$expected" ]; then status=changed
  elif [ "$what" = remove ]; then
    if rm -f -- "$path" || said=$(rm -f -- "$path" 2>&1); then status=done; fi
    directory=\${path%/*}
    [ "$directory" = . ] || rmdir -p --ignore-fail-on-non-empty -- "\${directory#./}" 2>/dev/null
  else
    [ -d "\${path%/*}" ] || said=$(mkdir -p -- "\${path%/*}" 2>&1)
    if [ "$what" = link ]; then
      link=$source source=$stage/link
      said=$(ln -sfT -- "$link" "$source" 2>&1) || source=
    elif [ -n "$mode" ]; then said=$(chmod "$mode" "$source" 2>&1) || source=
    fi
    if [ -z "$source" ]; then :
    elif mv -fT -- "$source" "$path" || said=$(mv -fT -- "$source" "$path" 2>&1); then status=done; fi
  fi
  printf '%s\\0%s\\0%s\\0' "$status" "$path" "$said"
done`

const SERVE = `export LC_ALL=C
mark=$1 look=$2 change=$3 workspace=$4 stage=$5
scan() {
  set --
  while IFS= read -r out; do set -- "$@" -path "./$out" -o; done
  find . -mindepth 1 \\( "$@" -name .git \\) -prune -o -printf "$mark\\0%p\\0%l\\0" 2>/dev/null
}
if ! find . -maxdepth 0 -printf '' || ! printf x | sha256sum -z >/dev/null || ! printf x | xargs -0 true ||
  ! mv --version >/dev/null; then
  printf 'unfit\\0'
  exit 1
fi
printf 'ready\\0'
while read -r question word size; do
  if ! cd -- "$workspace"; then
    head -c "$size" >/dev/null
    printf 'gone\\0'
  else
    case $question in
      scan) head -c "$size" | scan ;;
      look) head -c "$size" | xargs -0 -r -x -n 200 -s 1000000 sh -c "$look" agentpod "$mark" ;;
      hash) head -c "$size" | xargs -0 -r sha256sum -z -- ;;
      change)
        mkdir -p -- "$stage" && find "$stage" -type f -exec touch -- {} +
        head -c "$size" | xargs -0 -r -x -n 100 -s 1000000 sh -c "$change" agentpod "$mark" "$stage"
        ;;
      clear) rm -rf -- "$stage" ;;
    esac
  fi 2>/dev/null
  printf '%s\\0' "$word"
done
cd / && rm -rf -- "$stage"`

/** Arguments for /bin/sh. */
export function helperArguments(workspace: string, stage: string): string[] {
  return ['-c', SERVE, 'agentpod-sync', STAMP_FORMAT, LOOK, CHANGE, workspace, stage]
}

/** A pattern for `find` that matches only this path; undefined if the path has a line break. */
export function literalPattern(path: string): string | undefined {
  return /[\n\r]/.test(path) ? undefined : path.replaceAll(/[\\*?[\]]/g, '\\$&')
}
