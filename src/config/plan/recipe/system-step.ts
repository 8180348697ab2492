/** The step that installs Debian packages: languages, servers, libraries. */
import { baseKind } from '../../../bases/bases.ts'
import { DEBIAN_NAME, DEBIAN_VERSION, TOOL_PACKAGES } from '../../../bases/debian-packages.ts'
import { invalid } from '../../../core/error.ts'
import { shellWord } from '../../../util/shell/shell-word.ts'
import { printable } from '../../toml/problem.ts'
import type { Plan } from '../plan.ts'
import { type DraftStep, type PresetsByName, presetsNamed, rootStep } from './draft-step.ts'

/** Versions that agentpod.lock pins, by the names of packages. */
export type Pinned = Readonly<Record<'apt' | 'npm' | 'pip', Readonly<Record<string, string>>>>

/** Installs all system packages in one step: languages, servers, libraries. */
export function systemStep(plan: Plan, presets: PresetsByName, pinned: Pinned): DraftStep[] {
  const { packageManager, ownPackageManager } = baseKind(plan.resolvedBase.base).tools
  if (ownPackageManager) return imageStep(plan, presets)
  if (packageManager === undefined) return []
  const names = [
    ...plan.languages.flatMap(({ source }) => (source.kind === 'packaged' ? source.tool.packages : [])),
    ...plan.tools.flatMap(({ name, from }) => (from === 'packages' ? (TOOL_PACKAGES[name] ?? []) : [])),
    ...plan.services.flatMap(({ packages }) => packages),
    ...plan.packages.filter(({ isOptional }) => !isOptional).map(({ name }) => name),
  ]
  const optional = plan.packages.filter(({ name, isOptional }) => isOptional && !names.includes(name))
  const packages = [...new Set(names)].sort()
  if (packages.length + optional.length === 0) return []
  // Keeps Debian from starting services: AgentPod starts them, and not during the build.
  const run = `printf 'exit 101\\n' > /usr/sbin/policy-rc.d; chmod 755 /usr/sbin/policy-rc.d
mkdir -p /etc/postgresql-common; printf 'create_main_cluster = false\\n' > /etc/postgresql-common/createcluster.conf
${preferences(pinned.apt)}apt-get -q update
${choosing(optional.map(({ name }) => name))}apt-get -q install -y --no-install-recommends -o Dpkg::Options::=--force-confold -o Dpkg::Use-Pty=0 -- ${packages.map((one) => shellWord(pinnedPackage(one, pinned.apt))).join(' ')}${optional.length > 0 ? ' $optional' : ''}
apt-get clean
rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /usr/sbin/policy-rc.d /etc/apt/preferences.d/agentpod
${PYTHON_LINK}`
  return [
    rootStep({
      name: 'system',
      title: `packages of Debian: ${shortList(packages)}`,
      run,
      presets: presetsNamed(presets, 'apt'),
    }),
  ]
}

/** With the image's own apt, if it has one: only what agentpod.toml names. */
function imageStep(plan: Plan, presets: PresetsByName): DraftStep[] {
  const packages = plan.packages
    .filter(({ isAsked }) => isAsked)
    .map(({ name }) => name)
    .sort()
  if (packages.length === 0) return []
  const run = `command -v apt-get >/dev/null || {
  echo 'the image has no apt-get, which [environment.packages] apt and [addons] need; install the packages in a Dockerfile' >&2
  exit 1
}
apt-get -q update
apt-get -q install -y --no-install-recommends -o Dpkg::Use-Pty=0 -- ${packages.map(shellWord).join(' ')}
apt-get clean
rm -rf /var/lib/apt/lists/*
`
  return [
    rootStep({
      name: 'system',
      title: `packages of apt: ${shortList(packages)}`,
      run,
      presets: presetsNamed(presets, 'apt'),
    }),
  ]
}

function shortList(packages: readonly string[]): string {
  return `${packages.slice(0, 4).join(', ')}${packages.length > 4 ? ` and ${packages.length - 4} more` : ''}`
}

/**
 * A directly requested package has exactly the pinned version or is an error; `preferences` pins its
 * dependencies as far as possible.
 */
function pinnedPackage(wish: string, pinned: Readonly<Record<string, string>>): string {
  return wish.includes('=') || !Object.hasOwn(pinned, wish) ? wish : `${wish}=${pinned[wish]}`
}

/** Keeps the packages from CI that this release has. */
function choosing(names: readonly string[]): string {
  if (names.length === 0) return ''
  return `optional=
for one in ${names.map(shellWord).join(' ')}; do
  if apt-cache show --no-all-versions "$one" >/dev/null 2>&1; then optional="$optional $one"; fi
done
`
}

/**
 * With a priority above 1000, apt installs this version even if a newer one is available.
 *
 * SECURITY: CF-02. Both values come from a project's file, and a line end would add a stanza.
 */
function preferences(pinned: Readonly<Record<string, string>>): string {
  const stanzas = Object.entries(pinned).map(([name, version]) => {
    if (!DEBIAN_NAME.test(name) || !DEBIAN_VERSION.test(version))
      throw invalid(
        'lock.package',
        `${JSON.stringify(printable(`${name} ${version}`))} is no version of a package`,
      )
    return `Package: ${name}\nPin: version ${version}\nPin-Priority: 1001\n`
  })
  if (stanzas.length === 0) return ''
  const text = Buffer.from(stanzas.join('\n')).toString('base64')
  return `printf %s ${text} | base64 -d > /etc/apt/preferences.d/agentpod\n`
}

/** `python` means Python 3. */
const PYTHON_LINK = '[ ! -x /usr/bin/python3 ] || [ -e /usr/bin/python ] || ln -s python3 /usr/bin/python'
