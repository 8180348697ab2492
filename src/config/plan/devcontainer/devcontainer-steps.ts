/** Steps of a devcontainer: one for each Feature, and one for the directories that its users need. */
import { homeOf } from '../../../core/environment.ts'
import type { NetworkRule } from '../../../core/network.ts'
import { shellWord } from '../../../util/shell/shell-word.ts'
import type { Plan } from '../plan.ts'
import { type DraftStep, type PresetsByName, presetsNamed, rootStep } from '../recipe/draft-step.ts'
import { featureStep } from './feature-step.ts'
import { stagesScript } from './lifecycle-script.ts'

export function devcontainerSteps(
  { devcontainer, user }: Plan,
  presets: PresetsByName,
  approved: readonly NetworkRule[],
): DraftStep[] {
  if (!devcontainer) return []
  const { features, remoteUser, containerUser } = devcontainer
  const used = presetsNamed(presets, 'apt', 'npm', 'pip')
  let env: Record<string, string> = {}
  const steps = features.map((feature, at) => {
    const step = featureStep(feature, {
      at,
      env,
      presets: used,
      network: approved,
      remoteUser,
      containerUser,
    })
    env = { ...env, ...feature.containerEnv }
    return step
  })
  return [...steps, placesStep(devcontainer, user)]
}

/** The commands of `postAttachCommand`; a shell that opens runs them. */
export const ATTACH_SCRIPT = '/usr/local/share/agentpod/attach'

/** The user may be one that a Feature creates, so this comes after the Features. */
function placesStep(devcontainer: NonNullable<Plan['devcontainer']>, user: string): DraftStep {
  const { workspace, folder, directories, file, plan } = devcontainer
  const own = [...new Set([workspace, homeOf(user)])].map(shellWord).join(' ')
  const attach = stagesScript({ lifecycle: plan.lifecycle, file, workspace: folder }, ['postAttachCommand'])
  const known = `id -u ${shellWord(user)} >/dev/null || {
  echo ${shellWord(`the user ${user} of ${file} is not in the image; name another remoteUser`)} >&2
  exit 1
}
`
  const run = `${/^[0-9]+$/.test(user) ? '' : known}for directory in ${own}; do
  mkdir -p "$directory"
  chown ${shellWord(user)} "$directory"
done
${directories.map((path) => `mkdir -p ${shellWord(path)}\nchmod 1777 ${shellWord(path)}\n`).join('')}${attach === undefined ? '' : `mkdir -p /usr/local/share/agentpod\nprintf %s ${shellWord(attach)} > ${ATTACH_SCRIPT}\nchmod 755 ${ATTACH_SCRIPT}\n`}`
  return rootStep({ name: 'places', title: `directories of ${user}`, run })
}
