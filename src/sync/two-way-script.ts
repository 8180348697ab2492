/**
 * The program that two-way sync runs inside: one for the whole of it, so that the sandbox's list of processes stays readable. It reads
 * questions, each a line with how many bytes follow it, and answers with fields that end in a NUL byte, the last of which is the
 * question's own word. It needs no room on the disk to find changes, so that they come out of a full one.
 */

/** What `find` says of a path: its kind, mode, size, time and number. Two that are the same are the same file, unwritten since. */
export const MARK = '%y %m %s %T@ %i'

/**
 * A path that is not there is told from one that cannot be looked at: its nearest directory has to let us in. What lies behind a link is
 * not there.
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

/** Each change looks once more right before it is made. A file gets its name by renaming, so that nobody reads half of it. */
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

/** For /bin/sh. */
export function helperArguments(workspace: string, stage: string): string[] {
  return ['-c', SERVE, 'agentpod-sync', MARK, LOOK, CHANGE, workspace, stage]
}

/** A path as a pattern of `find` that means it alone; undefined where lines cannot carry it. */
export function literalPattern(path: string): string | undefined {
  return /[\n\r]/.test(path) ? undefined : path.replaceAll(/[\\*?[\]]/g, '\\$&')
}
