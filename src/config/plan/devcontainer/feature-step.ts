/**
 * The step that installs one Feature: as root, with its options as variables, in the way of the official
 * command's wrapper.
 */
import type { NetworkRule } from '../../../core/network.ts'
import { shellWord } from '../../../util/shell/shell-word.ts'
import type { Preset } from '../../presets/presets.ts'
import { type DraftStep, rootStep } from '../recipe/draft-step.ts'
import type { FeatureInstall } from './feature-install.ts'

export interface FeatureUsers {
  readonly remoteUser: string
  readonly containerUser: string
}

/** As the official command places them: some scripts know the path. */
const PLACE = '/tmp/dev-container-features'

export function featureStep(
  feature: FeatureInstall,
  o: FeatureUsers & {
    /** The place in the order of installation. */
    readonly at: number
    /** Variables of the container before this Feature. */
    readonly env: Readonly<Record<string, string>>
    readonly presets: readonly Preset[]
    /** Hosts besides those of the presets. */
    readonly network: readonly NetworkRule[]
  },
): DraftStep {
  const directory = `${PLACE}/${feature.id}_${o.at}`
  const run = `cd ${shellWord(directory)}
chmod -R 0755 .
set -a
. ./devcontainer-features.builtin.env
. ./devcontainer-features.env
set +a
./install.sh
cd /
rm -rf ${PLACE}
`
  const version = feature.version === undefined ? '' : ` ${feature.version}`
  const step = rootStep({
    name: `feature/${o.at + 1}-${feature.id.toLowerCase()}`,
    title: `Feature ${feature.name}${version}`,
    run,
    presets: o.presets,
  })
  return {
    ...step,
    variables: { ...step.variables, ...o.env, ...feature.containerEnv, HOME: '/root' },
    network: [...step.network, ...o.network],
    archive: {
      to: directory,
      data: feature.archive,
      added: {
        'devcontainer-features.env': envFile(feature.variables),
        'devcontainer-features.builtin.env': builtinEnv(o),
      },
      label: feature.name,
    },
  }
}

/** Each line is a quoted assignment for the shell. */
function envFile(variables: Readonly<Record<string, string>>): string {
  return Object.entries(variables)
    .filter(([name]) => NAME.test(name))
    .map(([name, value]) => `${name}=${shellWord(value)}\n`)
    .join('')
}

const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,200}$/

/** Homes are those of the container's own accounts. */
function builtinEnv({ remoteUser, containerUser }: FeatureUsers): string {
  const home = (user: string): string =>
    `"$( (command -v getent >/dev/null 2>&1 && getent passwd ${shellWord(user)} || grep -E ${shellWord(`^${user}:|^[^:]*:[^:]*:${user}:`)} /etc/passwd || true) | cut -d: -f6)"`
  return `_CONTAINER_USER=${shellWord(containerUser)}
_CONTAINER_USER_HOME=${home(containerUser)}
_REMOTE_USER=${shellWord(remoteUser)}
_REMOTE_USER_HOME=${home(remoteUser)}
`
}
