/** The step that installs packages with the base's own nix. */
import { posix } from 'node:path'
import { AgentPodError } from '../../../core/error.ts'
import type { NetworkRule } from '../../../core/network.ts'
import { parseHostName } from '../../../policy/host-name.ts'
import { matchesHost, matchesPort, readRule } from '../../../policy/rule.ts'
import { shellWord } from '../../../util/shell/shell-word.ts'
import type { Preset } from '../../presets/presets.ts'
import type { Plan } from '../plan.ts'
import { type DraftStep, rootStep } from './draft-step.ts'

/** Where nix puts links to the programs. */
export const NIX_PROFILE = '/opt/agentpod/nix'

/** What nix asks of GitHub for a flake there: the commit of a branch, and its files. */
const GITHUB = ['github.com', 'api.github.com', 'codeload.github.com']

/**
 * Builds run as root of the sandbox: a base seldom has the accounts that nix would use. Nix takes a machine
 * with loopback alone for one without a network, and then downloads nothing, unless each of the settings that
 * it would change is given.
 */
const OPTIONS = [
  ['sandbox', 'false'],
  ['build-users-group', ''],
  ['substitute', 'true'],
  ['download-attempts', '5'],
  ['connect-timeout', '30'],
  ['tarball-ttl', '3600'],
]
  .map(([name = '', value = '']) => `--option ${name} ${shellWord(value)}`)
  .join(' ')

const FLAKE = ['flake.nix', 'flake.lock']

const MISSING =
  'the base has no nix, which [environment.packages] nix needs; add "nix-bin" to apt, or start from an image that has it'

const FLAKES =
  'nix failed. A flake reaches only the hosts of nixos.org and those under [network] in agentpod.toml that you approved'

/**
 * SECURITY: ENV-12. Nix evaluates flakes and builds packages in the step's sandbox, never on the host. The
 * grammar of agentpod.toml keeps options and other paths out of the command. A flake is a program that
 * chooses its own hosts, so it reaches the approved ones only.
 */
export function nixStep(
  plan: Pick<Plan, 'extra' | 'path' | 'workspace'>,
  presets: readonly Preset[],
  approved: readonly NetworkRule[],
): DraftStep[] {
  const { nix } = plan.extra
  if (nix.length === 0) return []
  const own = nix.some((one) => one.startsWith('.#'))
  const flake = plan.workspace
  // The directory belongs to root now, and a later step makes it for the user.
  const clean = `rm -f ${FLAKE.map((file) => shellWord(posix.join(flake, file))).join(' ')}\nrmdir ${shellWord(flake)} 2>/dev/null || true\n`
  const hint = nix.some(isFlake) ? ` || {\n  echo ${shellWord(FLAKES)} >&2\n  exit 1\n}` : ''
  const run = `command -v nix >/dev/null || {
  echo ${shellWord(MISSING)} >&2
  exit 1
}
mkdir -p ${posix.dirname(NIX_PROFILE)}
nix --extra-experimental-features 'nix-command flakes' ${OPTIONS} profile install --profile ${NIX_PROFILE} -- ${nix.map((one) => shellWord(installable(one, flake))).join(' ')}${hint}
${own ? clean : ''}`
  const title = `${nix.join(', ')} from nix`
  const step = rootStep({ name: 'packages/nix', title, run, presets, path: plan.path })
  return [
    {
      ...step,
      network: [...step.network, ...(nix.some(isFlake) ? approved : [])],
      ...(own && { inputs: { files: [...FLAKE], stubs: {} } }),
    },
  ]
}

/** Whether a package comes from a flake, and not from nixpkgs. */
function isFlake(one: string): boolean {
  return one.startsWith('.#') || one.startsWith('github:')
}

export function hasFlakes({ extra }: Pick<Plan, 'extra'>): boolean {
  return extra.nix.some(isFlake)
}

/** SECURITY: CF-02. Throws `failed_precondition` if a flake is on GitHub and its hosts are not approved. */
export function requireFlakeHosts({ extra }: Pick<Plan, 'extra'>, approved: readonly NetworkRule[]): void {
  const flake = extra.nix.find((one) => one.startsWith('github:'))
  if (flake === undefined) return
  const rules = approved.map(readRule)
  const missing = GITHUB.filter(
    (host) =>
      !rules.some((rule) => matchesHost(rule.host, parseHostName(host)) && matchesPort(rule.ports, 443)),
  )
  if (missing.length === 0) return
  throw new AgentPodError({
    code: 'failed_precondition',
    reason: 'nix.hosts',
    message: `${JSON.stringify(flake)} under [environment.packages] nix needs ${missing.join(', ')}, which you have not approved`,
    hint: 'write presets = ["github"] under [network] in agentpod.toml, and run `agentpod policy approve`',
  })
}

/**
 * A plain name is an attribute of nixpkgs. Its channels are on nixos.org; the registry of flakes would lead
 * to GitHub. The project's own flake is where its files are in the step.
 */
function installable(one: string, flake: string): string {
  if (one.startsWith('.#')) return `path:${flake}${one.slice(1)}`
  if (one.startsWith('github:')) return one
  const [, channel = 'nixpkgs-unstable', name = one] = /^nixpkgs(?:\/([^#]+))?#(.+)$/.exec(one) ?? []
  return `https://channels.nixos.org/${channel}/nixexprs.tar.xz#${name}`
}
