/** The command of a build step that copies its input files to their place. */
import { shellWord } from '../../util/shell/shell-word.ts'

/** Where the files of such a step are unpacked first, as root. It is gone when the step ends. */
export const COPY_STAGE = '/.agentpod-copy'

export interface CopyWish {
  /** The file or directory below the stage; it may be a pattern for several. */
  readonly from: string
  /** An absolute path. It is a directory if it ends with `/`, or if several files are copied. */
  readonly to: string
  /** A user, or `user:group`. The group of a user alone is the one that it logs in with. */
  readonly owner: string
  /** Octal, for everything that is copied. */
  readonly mode?: string | undefined
}

/** The owner as a word of chown's: a user alone means the group that it logs in with. */
export function ownerWord(owner: string): string {
  return shellWord(owner.includes(':') ? owner : `${owner}:`)
}

/** A directory is copied with its content, not as a directory inside the target, as Docker does it. */
export function copyScript({ from, to, owner, mode }: CopyWish): string {
  const isPattern = /[*?[\]]/.test(from)
  const spec = ownerWord(owner)
  return `set -eu
cd ${COPY_STAGE}
target=${shellWord(to)}
chown -R ${spec} .
${mode === undefined ? '' : `chmod -R ${shellWord(mode)} .\n`}directory() { [ -d "$1" ] || { mkdir -p "$1"; chown ${spec} "$1"; }; }
put() {
  if [ -d "$1" ] && [ ! -L "$1" ]; then
    directory "$target"
    for each in "$1"/* "$1"/.[!.]* "$1"/..?*; do
      if [ -e "$each" ] || [ -L "$each" ]; then cp -a "$each" "$target"/; fi
    done
  elif [ -d "$target" ]; then cp -a "$1" "$target"/
  else directory "$(dirname "$target")"; cp -a "$1" "$target"
  fi
}
case $target in */) directory "$target" ;; esac
IFS=
${isPattern ? `set -- ${pattern(from)}` : `set -- ${shellWord(from)}`}
[ $# -eq 1 ] || directory "$target"
for one in "$@"; do
  [ -e "$one" ] || [ -L "$one" ] || { echo "no such file among those to copy: $one" >&2; exit 1; }
  put "$one"
done
cd /
rm -rf ${COPY_STAGE}`
}

/** Quoted except for the characters that the shell expands. */
function pattern(text: string): string {
  return text.replaceAll(/[^*?[\]\w@%+=:,./-]/g, (one) => (one === "'" ? `"'"` : `'${one}'`))
}
