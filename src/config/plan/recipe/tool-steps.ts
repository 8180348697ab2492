/** Steps that install package managers and the packages of `[environment.packages]`. */

import semver from 'semver'
import type { NetworkRule } from '../../../core/network.ts'
import { shellWord } from '../../../util/shell/shell-word.ts'
import { toRange } from '../languages/version.ts'
import type { Plan } from '../plan.ts'
import { TOOLS, TOOLS_BIN } from '../resolve/search-path.ts'
import { npmPackage } from '../resolve/tools.ts'
import { type DraftStep, type PresetsByName, presetsNamed, rootStep } from './draft-step.ts'
import { nixStep } from './nix-step.ts'
import type { Pinned } from './system-step.ts'

/** Package managers that npm or pip installs. */
export function toolSteps(plan: Plan, presets: PresetsByName, pinned: Pinned): DraftStep[] {
  const npm = plan.tools.filter(({ from }) => from === 'npm')
  const pip = plan.tools.filter(({ from }) => from === 'pip')
  const steps: DraftStep[] = []
  if (npm.length > 0) {
    const wanted = npm.map(({ name, version }) =>
      atVersion(npmPackage(name, version), pinned.npm[npmPackage(name, version)] ?? version, '@'),
    )
    // If two packages have a program of the same name, the later one wins.
    steps.push(
      rootStep({
        name: 'tools/npm',
        title: `${npm.map(({ name, version }) => [name, version].filter(Boolean).join(' ')).join(', ')} from npm`,
        run: `npm install -g --no-audit --no-fund --prefix ${TOOLS} ${wanted.map(shellWord).join(' ')}\n`,
        presets: presetsNamed(presets, 'npm'),
        path: plan.path,
      }),
    )
  }
  if (pip.length > 0) {
    const wanted = pip.map(({ name, version }) => atVersion(name, pinned.pip[name] ?? version, '=='))
    steps.push(
      rootStep({
        name: 'tools/pip',
        title: `${pip.map(({ name, version }) => [name, version].filter(Boolean).join(' ')).join(', ')} from pip`,
        run: pipInstall(wanted) + (pip.some(({ name }) => name === 'poetry') ? poetryMirror(wanted) : ''),
        presets: presetsNamed(presets, 'pip'),
        path: plan.path,
      }),
    )
  }
  return steps
}

/** Appends an exact version as it is, a range in the manager's syntax, and nothing if there is no version. */
function atVersion(name: string, version: string | undefined, sign: '@' | '=='): string {
  if (version === undefined || version === '*') return name
  return sign === '@' ? `${name}@${version}` : `${name}${pipRange(version)}`
}

/** pip accepts neither carets nor bare numbers. */
function pipRange(version: string): string {
  if (/^\d+(?:\.\d+){0,1}$/.test(version)) return `==${version}.*`
  if (/^\d/.test(version)) return `==${version}`
  if (!/[\^|~*](?!=)/.test(version)) return version
  const range = toRange('python', version)
  const [alone, ...others] = range === undefined ? [] : new semver.Range(range).set
  if (!alone || others.length > 0) return ''
  return alone
    .map(({ operator, semver: { major, minor, patch } }) => `${operator || '=='}${major}.${minor}.${patch}`)
    .join(',')
}

function pipInstall(requirements: readonly string[]): string {
  return `[ -d ${TOOLS}/python ] || python3 -m venv ${TOOLS}/python
${TOOLS}/python/bin/pip install -q --disable-pip-version-check ${requirements.map(shellWord).join(' ')}
mkdir -p ${TOOLS_BIN}
for program in ${TOOLS}/python/bin/*; do
  case \${program##*/} in python*|pip|pip[0-9]*|activate*|Activate*) continue ;; esac
  link=${TOOLS_BIN}/\${program##*/}
  if [ -L "$link" ] || [ ! -e "$link" ]; then ln -sf "$program" "$link"; fi
done
`
}

/**
 * Poetry asks PyPI in JSON, whatever index pip uses, and fails if a mirror only answers in HTML. With such a
 * mirror it gets a plugin that asks like pip; otherwise it stays unchanged.
 */
function poetryMirror(requirements: readonly string[]): string {
  return `if [ -n "\${PIP_INDEX_URL:-}" ] || ! ${TOOLS}/python/bin/python - <<'ASK'
import urllib.request
asked = urllib.request.Request('https://pypi.org/simple/poetry/', headers={'Accept': 'application/vnd.pypi.simple.v1+json'})
answer = urllib.request.urlopen(asked, timeout=60).headers.get('Content-Type', '')
raise SystemExit(0 if 'json' in answer else 'PyPI is a mirror that does not answer as Poetry asks: it gets a plugin for mirrors')
ASK
then
  ${TOOLS}/python/bin/pip install -q --disable-pip-version-check ${[...requirements, 'poetry-plugin-pypi-mirror'].map(shellWord).join(' ')}
  rm -f ${TOOLS_BIN}/poetry
  cat > ${TOOLS_BIN}/poetry <<'PROGRAM'
#!/bin/sh

export POETRY_PYPI_MIRROR_URL="\${POETRY_PYPI_MIRROR_URL:-\${PIP_INDEX_URL:-https://pypi.org/simple/}}"
exec ${TOOLS}/python/bin/poetry "$@"
PROGRAM
  chmod 755 ${TOOLS_BIN}/poetry
fi
`
}

export function packageSteps(
  plan: Plan,
  presets: PresetsByName,
  pinned: Pinned,
  approved: readonly NetworkRule[],
): DraftStep[] {
  const { cargo, go } = plan.extra
  const npm = plan.extra.npm.map((one) => pin(one, /^(@?[^@]+)(?:@.*)?$/, pinned.npm, '@'))
  const pip = plan.extra.pip.map((one) => pin(one, /^([A-Za-z0-9._-]+)/, pinned.pip, '=='))
  const title = (list: readonly string[], from: string): string => `${list.join(', ')} from ${from}`
  return [
    ...(npm.length > 0
      ? [
          rootStep({
            name: 'packages/npm',
            title: title(npm, 'npm'),
            run: `npm install -g --no-audit --no-fund --prefix ${TOOLS} ${npm.map(shellWord).join(' ')}\n`,
            presets: presetsNamed(presets, 'npm'),
            path: plan.path,
          }),
        ]
      : []),
    ...(pip.length > 0
      ? [
          rootStep({
            name: 'packages/pip',
            title: title(pip, 'pip'),
            run: pipInstall(pip),
            presets: presetsNamed(presets, 'pip'),
            path: plan.path,
          }),
        ]
      : []),
    ...(cargo.length > 0
      ? [
          rootStep({
            name: 'packages/cargo',
            title: title(cargo, 'cargo'),
            run: cargo.map((one) => `cargo install --locked --root ${TOOLS} ${shellWord(one)}\n`).join(''),
            presets: presetsNamed(presets, 'cargo'),
            path: plan.path,
          }),
        ]
      : []),
    ...(go.length > 0
      ? [
          rootStep({
            name: 'packages/go',
            title: title(go, 'go'),
            run: `export GOBIN=${TOOLS_BIN} GOFLAGS=-modcacherw\n${go.map((one) => `go install ${shellWord(one.includes('@') ? one : `${one}@latest`)}\n`).join('')}rm -rf "$HOME/go"\n`,
            presets: presetsNamed(presets, 'go'),
            path: plan.path,
          }),
        ]
      : []),
    ...nixStep(plan, presetsNamed(presets, 'nix'), approved),
  ]
}

/** A requested package with the version from the lock. */
function pin(wish: string, grammar: RegExp, pinned: Readonly<Record<string, string>>, sign: string): string {
  const name = grammar.exec(wish)?.[1] ?? wish
  const version = Object.hasOwn(pinned, name) ? pinned[name] : undefined
  return version === undefined ? wish : `${name}${sign}${version}`
}
