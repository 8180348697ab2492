/** A plan as a recipe: the steps in the order in which they change least often. */
import semver from 'semver'
import { kindOf } from '../../bases/bases.ts'
import { DEBIAN_NAME, DEBIAN_VERSION, TOOL_PACKAGES } from '../../bases/debian-packages.ts'
import { homeOf } from '../../core/environment.ts'
import { invalid } from '../../core/error.ts'
import { DEFAULT_STEP_MS, type RecipeBase, type Step } from '../../core/recipe.ts'
import { writeRule } from '../../policy/rule.ts'
import { checked } from '../../util/shell-script.ts'
import { shellWord } from '../../util/shell-word.ts'
import type { ClientPreset } from '../presets/catalog.ts'
import type { Preset } from '../presets/presets.ts'
import { printable } from '../problem.ts'
import type { Listed } from './listings.ts'
import type { LanguagePlan, Plan, SetupPlan } from './plan.ts'
import { inside, insidePath, npmPackage, TOOLS, TOOLS_BIN } from './resolve.ts'
import { KNOWN_SERVICES } from './service-catalog.ts'
import { partsOf } from './service-plan.ts'
import { toRange } from './version.ts'

/** A step whose files are still to be packed. */
export interface DraftStep extends Step {
  readonly inputs?:
    | { readonly files: readonly string[]; readonly stubs: Readonly<Record<string, string>> }
    | undefined
}

export interface DraftRecipe {
  readonly base: RecipeBase
  readonly steps: readonly DraftStep[]
}

/** Versions that agentpod.lock pins, by the names of packages. */
export type Pinned = Readonly<Record<'apt' | 'npm' | 'pip', Readonly<Record<string, string>>>>

const NOTHING_PINNED: Pinned = { apt: {}, npm: {}, pip: {} }

type Presets = ReadonlyMap<ClientPreset, Preset>

export function recipeOf(plan: Plan, presets: Presets, pinned: Pinned = NOTHING_PINNED): DraftRecipe {
  const steps = [
    ...systemStep(plan, presets, pinned),
    ...plan.languages.flatMap((one) => languageStep(one, presets)),
    ...toolSteps(plan, presets, pinned),
    ...packageSteps(plan, presets, pinned),
    ...serviceStep(plan),
    ...profileStep(plan),
    ...plan.setups.map((setup) => setupStep(plan, setup, presets)),
  ]
  const { stepMs: timeoutMs = DEFAULT_STEP_MS } = plan.resources
  return { base: recipeBase(plan), steps: steps.map((step) => ({ ...step, timeoutMs })) }
}

/** With those of the base's tools that the layers rely on. */
function recipeBase({ ground, languages, tools }: Plan): RecipeBase {
  const used = [
    ...languages.flatMap(({ language, source }) =>
      source.kind === 'there' ? [[language, `${source.version} ${source.directory}`] as const] : [],
    ),
    ...tools.flatMap(({ name, version, directory }) =>
      directory === undefined ? [] : [[name, `${version} ${directory}`] as const],
    ),
  ]
  return kindOf(ground.base).recipe(ground, Object.fromEntries(used))
}

/** A step as root with nothing of its own. */
function root(
  name: string,
  title: string,
  run: string,
  presets: readonly Preset[],
  path: readonly string[] = [],
): DraftStep {
  return {
    name,
    title: bounded(title),
    run: `set -eu\n${presetFiles(presets)}${run}`,
    user: 'root',
    workdir: '/',
    path,
    variables: { HOME: '/root', DEBIAN_FRONTEND: 'noninteractive', ...presetVariables(presets) },
    network: presets.flatMap(({ rules }) => rules.map(writeRule)),
    timeoutMs: DEFAULT_STEP_MS,
  }
}

const LONGEST_TITLE = 160

/** SECURITY: CF-02. For people, on a terminal. */
function bounded(title: string): string {
  const all = printable(title, title.length)
  return all.length <= LONGEST_TITLE ? all : `${all.slice(0, LONGEST_TITLE - 3)}...`
}

function presetVariables(presets: readonly Preset[]): Record<string, string> {
  return Object.assign({}, ...presets.map(({ variables }) => variables)) as Record<string, string>
}

/** Package managers that have words of their own for the mirrors that presets name. */
export function mirrorVariables(
  { tools }: Pick<Plan, 'tools'>,
  { npm_config_registry: npm, PIP_INDEX_URL: pip }: Readonly<Record<string, string>>,
): Record<string, string> {
  const yarn = tools.find(({ name }) => name === 'yarn')
  const isNew = yarn && npmPackage(yarn.name, yarn.version) !== 'yarn'
  return {
    // Each of the two lines of Yarn refuses the other's.
    ...(npm &&
      yarn &&
      (isNew ? { YARN_NPM_REGISTRY_SERVER: npm.replace(/\/$/, '') } : { yarn_registry: npm })),
    ...(pip && {
      UV_DEFAULT_INDEX: pip,
      PDM_PYPI_URL: pip,
      PIPENV_PYPI_MIRROR: pip,
      POETRY_PYPI_MIRROR_URL: pip,
    }),
  }
}

/** What a client has to find in its home to use the same mirror as this machine's. */
function presetFiles(presets: readonly Preset[]): string {
  return presets
    .flatMap(({ files }) => files)
    .map(({ path, text }) => {
      const target = `"$HOME"/${shellWord(path)}`
      return `mkdir -p "$(dirname ${target})"\nprintf %s ${shellWord(Buffer.from(text).toString('base64'))} | base64 -d > ${target}\n`
    })
    .join('')
}

function of(presets: Presets, ...names: readonly ClientPreset[]): Preset[] {
  return names.flatMap((name) => presets.get(name) ?? [])
}

/** Everything that packages of the system have, in one step: languages, servers, libraries. */
function systemStep(plan: Plan, presets: Presets, pinned: Pinned): DraftStep[] {
  if (kindOf(plan.ground.base).packageManager === undefined) return []
  const names = [
    ...plan.languages.flatMap(({ source }) => (source.kind === 'packaged' ? source.tool.packages : [])),
    ...plan.tools.flatMap(({ name, from }) => (from === 'packages' ? (TOOL_PACKAGES[name] ?? []) : [])),
    ...plan.services.flatMap(({ packages }) => packages),
    ...plan.packages.filter(({ isOptional }) => !isOptional).map(({ name }) => name),
  ]
  const optional = plan.packages.filter(({ name, isOptional }) => isOptional && !names.includes(name))
  const packages = [...new Set(names)].sort()
  if (packages.length + optional.length === 0) return []
  const shown = packages.slice(0, 4).join(', ')
  // A service that Debian would start by itself is started by us, and by nobody during the build.
  const run = `printf 'exit 101\\n' > /usr/sbin/policy-rc.d; chmod 755 /usr/sbin/policy-rc.d
mkdir -p /etc/postgresql-common; printf 'create_main_cluster = false\\n' > /etc/postgresql-common/createcluster.conf
${preferences(pinned.apt)}apt-get -q update
${choosing(optional.map(({ name }) => name))}apt-get -q install -y --no-install-recommends -o Dpkg::Options::=--force-confold -o Dpkg::Use-Pty=0 -- ${packages.map((one) => shellWord(pinnedPackage(one, pinned.apt))).join(' ')}${optional.length > 0 ? ' $optional' : ''}
apt-get clean
rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /usr/sbin/policy-rc.d /etc/apt/preferences.d/agentpod
${PYTHON_LINK}`
  return [
    root(
      'system',
      `packages of Debian: ${shown}${packages.length > 4 ? ` and ${packages.length - 4} more` : ''}`,
      run,
      of(presets, 'apt'),
    ),
  ]
}

/** What is asked for by name is exactly that version or an error; `preferences` does as much as can be done for what comes along. */
function pinnedPackage(wish: string, pinned: Readonly<Record<string, string>>): string {
  return wish.includes('=') || !Object.hasOwn(pinned, wish) ? wish : `${wish}=${pinned[wish]}`
}

/** Of packages that CI names, those that this release has. */
function choosing(names: readonly string[]): string {
  if (names.length === 0) return ''
  return `optional=
for one in ${names.map(shellWord).join(' ')}; do
  if apt-cache show --no-all-versions "$one" >/dev/null 2>&1; then optional="$optional $one"; fi
done
`
}

/**
 * With a priority beyond a thousand apt takes this version although a newer one is there.
 *
 * SECURITY: CF-02. Both come from a project's file, and a line end in one would be a stanza more.
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

/** Programs that say `python` mean Python 3 by now. */
const PYTHON_LINK = '[ ! -x /usr/bin/python3 ] || [ -e /usr/bin/python ] || ln -s python3 /usr/bin/python'

function languageStep({ language, source }: LanguagePlan, presets: Presets): DraftStep[] {
  const to = `/opt/agentpod/${language}-${source.version}`
  if (source.kind === 'npm')
    return [
      root(
        language,
        `${language} ${source.version} from npm`,
        `mkdir -p ${to}\n${fromNpm(source.package, source.version, source.sha512, to)}${source.npm ? npmItself(source.npm, to) : ''}${language === 'deno' ? `mkdir -p ${to}/bin\nmv ${to}/deno ${to}/bin/\n` : ''}chmod 755 ${to}/bin/*\n`,
        of(presets, 'npm'),
      ),
    ]
  if (source.kind === 'go')
    return [
      root(
        'go',
        `go ${source.version} from the module proxy`,
        fromGoProxy(source.version, source.arch, to),
        of(presets, 'go'),
      ),
    ]
  return []
}

const REGISTRY = `registry=\${npm_config_registry%/}
[ -n "$registry" ] || { echo 'where npm fetches from is not known'; exit 1; }
`

/** A package's archive, unpacked. Its digest is the one that the registry announced when the plan was made. */
function fromNpm(name: string, version: string, sha512: string | undefined, to: string): string {
  const file = `${name.split('/').at(-1)}-${version}.tgz`
  const check = sha512 ? `printf '%s  %s\\n' ${sha512} /tmp/package.tgz | sha512sum -c --quiet -\n` : ''
  return `${REGISTRY}curl -fsSL --retry 3 --retry-all-errors -o /tmp/package.tgz "$registry/${name}/-/${file}"
${check}tar -xzf /tmp/package.tgz -C ${to} --strip-components=1 --no-same-owner
rm /tmp/package.tgz
`
}

/** The package with Node's program does not have npm. */
function npmItself({ version, sha512 }: Listed, to: string): string {
  const place = `${to}/lib/node_modules/npm`
  return `mkdir -p ${place}
${fromNpm('npm', version, sha512, place)}ln -s ../lib/node_modules/npm/bin/npm-cli.js ${to}/bin/npm
ln -s ../lib/node_modules/npm/bin/npx-cli.js ${to}/bin/npx
`
}

/** Module archives know no executable files. */
function fromGoProxy(version: string, arch: string, to: string): string {
  const name = `v0.0.1-go${version}.linux-${arch}`
  return `proxy=\${GOPROXY%%[,|]*}
curl -fsSL --retry 3 --retry-all-errors -o /tmp/go.zip "\${proxy%/}/golang.org/toolchain/@v/${name}.zip"
mkdir -p /tmp/go
if command -v unzip >/dev/null; then unzip -q /tmp/go.zip -d /tmp/go; else python3 -m zipfile -e /tmp/go.zip /tmp/go; fi
mkdir -p ${to}
cp -r "/tmp/go/golang.org/toolchain@${name}/." ${to}/
chmod 755 ${to}/bin/* ${to}/pkg/tool/*/*
rm -rf /tmp/go /tmp/go.zip
`
}

/** Package managers that are programs of a language themselves. */
function toolSteps(plan: Plan, presets: Presets, pinned: Pinned): DraftStep[] {
  const npm = plan.tools.filter(({ from }) => from === 'npm')
  const pip = plan.tools.filter(({ from }) => from === 'pip')
  const steps: DraftStep[] = []
  if (npm.length > 0) {
    const wanted = npm.map(({ name, version }) =>
      atVersion(npmPackage(name, version), pinned.npm[npmPackage(name, version)] ?? version, '@'),
    )
    // What two of them bring under one name, the later one has.
    steps.push(
      root(
        'tools/npm',
        `${npm.map(({ name, version }) => [name, version].filter(Boolean).join(' ')).join(', ')} from npm`,
        `npm install -g --no-audit --no-fund --prefix ${TOOLS} ${wanted.map(shellWord).join(' ')}\n`,
        of(presets, 'npm'),
        plan.path,
      ),
    )
  }
  if (pip.length > 0) {
    const wanted = pip.map(({ name, version }) => atVersion(name, pinned.pip[name] ?? version, '=='))
    steps.push(
      root(
        'tools/pip',
        `${pip.map(({ name, version }) => [name, version].filter(Boolean).join(' ')).join(', ')} from pip`,
        pipInstall(wanted) + (pip.some(({ name }) => name === 'poetry') ? poetryMirror(wanted) : ''),
        of(presets, 'pip'),
        plan.path,
      ),
    )
  }
  return steps
}

/** An exact version is asked for as such, a range in the manager's own words, and nothing as nothing. */
function atVersion(name: string, version: string | undefined, sign: '@' | '=='): string {
  if (version === undefined || version === '*') return name
  return sign === '@' ? `${name}@${version}` : `${name}${pipRange(version)}`
}

/** pip knows neither carets nor bare numbers. */
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
 * Poetry asks PyPI itself, in JSON, whatever index pip is told to use, and fails where a mirror answers in HTML alone. Where there is such a mirror it is given
 * a plugin that asks as pip does; elsewhere it stays as it is.
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

function packageSteps(plan: Plan, presets: Presets, pinned: Pinned): DraftStep[] {
  const { cargo, go } = plan.extra
  const npm = plan.extra.npm.map((one) => pin(one, /^(@?[^@]+)(?:@.*)?$/, pinned.npm, '@'))
  const pip = plan.extra.pip.map((one) => pin(one, /^([A-Za-z0-9._-]+)/, pinned.pip, '=='))
  const title = (list: readonly string[], from: string): string => `${list.join(', ')} from ${from}`
  return [
    ...(npm.length > 0
      ? [
          root(
            'packages/npm',
            title(npm, 'npm'),
            `npm install -g --no-audit --no-fund --prefix ${TOOLS} ${npm.map(shellWord).join(' ')}\n`,
            of(presets, 'npm'),
            plan.path,
          ),
        ]
      : []),
    ...(pip.length > 0
      ? [root('packages/pip', title(pip, 'pip'), pipInstall(pip), of(presets, 'pip'), plan.path)]
      : []),
    ...(cargo.length > 0
      ? [
          root(
            'packages/cargo',
            title(cargo, 'cargo'),
            cargo.map((one) => `cargo install --locked --root ${TOOLS} ${shellWord(one)}\n`).join(''),
            of(presets, 'cargo'),
            plan.path,
          ),
        ]
      : []),
    ...(go.length > 0
      ? [
          root(
            'packages/go',
            title(go, 'go'),
            `export GOBIN=${TOOLS_BIN} GOFLAGS=-modcacherw\n${go.map((one) => `go install ${shellWord(one.includes('@') ? one : `${one}@latest`)}\n`).join('')}rm -rf "$HOME/go"\n`,
            of(presets, 'go'),
            plan.path,
          ),
        ]
      : []),
  ]
}

/** A wish with the version that the lock has for it. */
function pin(wish: string, grammar: RegExp, pinned: Readonly<Record<string, string>>, sign: string): string {
  const name = grammar.exec(wish)?.[1] ?? wish
  const version = Object.hasOwn(pinned, name) ? pinned[name] : undefined
  return version === undefined ? wish : `${name}${sign}${version}`
}

/** Login shells, which agents like, set a PATH of their own on Debian: what the environment puts before it has to be said there too. */
function profileStep({ path, ground }: Plan): DraftStep[] {
  if (path.length === 0 || !kindOf(ground.base).hasProfile) return []
  const line = `PATH=${shellWord(path.join(':'))}:"$PATH"`
  const run = `printf '%s\\n' ${shellWord(line)} > /etc/profile.d/agentpod.sh\n`
  return [root('profile', 'the PATH of login shells', run, [])]
}

/** Data directories are made once, so that a start is a start and not an installation. */
function serviceStep(plan: Plan): DraftStep[] {
  const known = plan.services.filter((one) => one.known !== undefined)
  if (known.length === 0) return []
  const run = known.map((service) => {
    const parts = partsOf(service, plan.user)
    return `install -d -o ${parts.daemon} -g ${parts.daemon} -m 700 ${parts.data}\n${KNOWN_SERVICES[service.known ?? '']?.prepare(parts)}\n`
  })
  return [root('services', `data of ${known.map(({ name }) => name).join(', ')}`, run.join(''), [])]
}

function setupStep(plan: Plan, setup: SetupPlan, presets: Presets): DraftStep {
  const used = of(presets, ...setup.presets)
  const home = homeOf(plan.user)
  const own = Object.fromEntries(
    Object.entries(setup.variables).map(([name, value]) => [name, inside(value, plan.workspace)]),
  )
  return {
    name: setup.name,
    title: bounded(
      `dependencies${setup.directory === '' ? '' : ` of ${setup.directory}`}, by ${setup.manager}`,
    ),
    run: `set -eu\n${presetFiles(used)}mkdir -p ${shellWord(insidePath(plan.workspace, setup.directory))}\ncd ${shellWord(insidePath(plan.workspace, setup.directory))}\n${checked(setup.run)}\n${FORGOTTEN}`,
    user: plan.user,
    workdir: '/',
    path: plan.path,
    variables: {
      HOME: home,
      CI: '1',
      ...Object.fromEntries(plan.variables.map(({ name, value }) => [name, value])),
      ...presetVariables(used),
      ...mirrorVariables(plan, presetVariables(used)),
      ...own,
    },
    network: used.flatMap(({ rules }) => rules.map(writeRule)),
    timeoutMs: DEFAULT_STEP_MS,
    inputs: { files: setup.inputs, stubs: setup.stubs },
  }
}

/** Downloads are kept outside, where nobody inside can change them; a second copy in the layer is of no use. */
const FORGOTTEN =
  'rm -rf "$HOME/.npm/_cacache" "$HOME/.npm/_logs" "$HOME/.cache/pip" "$HOME/.cache/pypoetry/cache" "$HOME/.cache/yarn"\n'

/** What runs at every start: the file's own command, in the project. Undefined where there is none. */
export function startOf({ commands, workspace }: Pick<Plan, 'commands' | 'workspace'>): string | undefined {
  const own = commands.start.filter(({ rank }) => rank === 'agentpod.toml').map(({ run }) => run)
  return own.length === 0 ? undefined : `cd ${shellWord(workspace)} || exit 1\n${own.join('\n')}`
}
