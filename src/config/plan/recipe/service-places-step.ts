/** Directories that the service of a compose file has, in the sandbox that is this service. */
import { homeOf } from '../../../core/environment.ts'
import { shellWord } from '../../../util/shell/shell-word.ts'
import type { Plan } from '../plan.ts'
import { type DraftStep, rootStep } from './draft-step.ts'

/**
 * As with Docker, a mount of the project hides what the image has there, and directories of volumes in it
 * keep what the image has.
 */
export function servicePlacesStep({ service, user, workspace }: Plan): DraftStep[] {
  if (!service) return []
  const { isFilled, kept, directories } = service
  const lines: string[] = []
  if (service.workspace !== undefined && isFilled) lines.push(emptied(workspace, kept))
  if (service.workspace !== undefined || user !== 'root') {
    const own = [...new Set([workspace, homeOf(user)])].map(shellWord).join(' ')
    const known = `id -u ${shellWord(user)} >/dev/null || {
  echo ${shellWord(`the user ${user} of the service ${service.name} is not in the image; name another user`)} >&2
  exit 1
}
`
    lines.push(
      `${user === 'root' || /^[0-9]+$/.test(user) ? '' : known}for directory in ${own}; do
  mkdir -p "$directory"
${user === 'root' ? '' : `  chown ${shellWord(user)} "$directory"\n`}done
`,
    )
  }
  for (const path of directories) lines.push(`mkdir -p ${shellWord(path)}\n`)
  if (lines.length === 0) return []
  return [
    rootStep({ name: 'places', title: `directories of the service ${service.name}`, run: lines.join('') }),
  ]
}

function emptied(workspace: string, kept: readonly string[]): string {
  const isKept = kept.length === 0 ? '' : `    ${kept.map(shellWord).join(' | ')}) ;;\n`
  return `if cd ${shellWord(workspace)} 2>/dev/null; then
  for one in * .[!.]* ..?*; do
    case "$one" in
${isKept}    *) rm -rf -- "./$one" ;;
    esac
  done
  cd /
fi
`
}
