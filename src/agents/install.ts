/**
 * The recipe of an agent's layer: one directory on top of any environment. It uses nothing of the project and
 * writes nowhere else.
 */
import { baseKind } from '../bases/bases.ts'
import { invalid } from '../core/error.ts'
import type { NetworkRule } from '../core/network.ts'
import { DEFAULT_STEP_MS, type Recipe, type RecipeBase, type Step } from '../core/recipe.ts'
import { shellWord } from '../util/shell/shell-word.ts'
import type { Agent, Install } from './agent.ts'

/** A package registry: variables for the package manager, and the hosts that the step may reach. */
export interface PackageSource {
  readonly variables: Readonly<Record<string, string>>
  readonly network: readonly NetworkRule[]
}

export interface AgentRecipeOptions {
  readonly base: RecipeBase
  /** As Node names it: `x64`, `arm64`. */
  readonly arch: string
  readonly npm: PackageSource
  /** Needed only for agents written in Python. */
  readonly pip?: PackageSource | undefined
  readonly apt?: PackageSource | undefined
}

/**
 * The Node and npm that install agents. Agents that need Node also run with this one, unless they name
 * another.
 */
export const BUILD_NODE = '24.21.0'
const BUILD_NPM = '11.19.1'
const SCRATCH = '/tmp/agentpod-install'

export function agentDirectory({ name }: Pick<Agent, 'name'>): string {
  return `/var/lib/agentpod-${name}`
}

/**
 * Undefined if there is nothing to install. The last step makes the agent's layer; earlier steps only prepare
 * it.
 */
export function agentRecipe(agent: Agent, o: AgentRecipeOptions): Recipe | undefined {
  const { install, name } = agent
  const isKnown = baseKind(o.base.name).tools.hasKnownTools
  if (install.kind === 'none') return undefined
  const to = agentDirectory(agent)
  if (install.kind === 'npm')
    return {
      base: o.base,
      steps: [
        step(
          name,
          titleOf(agent, install.packages),
          `${isKnown ? '' : needing('curl', 'tar')}${npmScript(install, to, o.arch)}`,
          [o.npm],
        ),
      ],
    }
  if (!o.pip)
    throw invalid('agent.pip', `${agent.title} is installed from PyPI, but no registry for pip is configured`)
  const own = step(
    name,
    titleOf(agent, install.packages),
    `${isKnown ? '' : needing('python3', 'ldd')}${pipScript(install.packages, to)}`,
    [o.pip],
  )
  return {
    base: o.base,
    steps: baseKind(o.base.name).tools.packageManager ? [pythonStep(o.apt), own] : [own],
  }
}

function titleOf({ title }: Agent, packages: readonly string[]): string {
  const version = /[@=]([^@=]+)$/.exec(packages[0] ?? '')?.[1]
  return version === undefined ? title : `${title} ${version}`
}

function step(name: string, title: string, run: string, sources: readonly PackageSource[]): Step {
  return {
    name: `agent/${name}`,
    title,
    run,
    user: 'root',
    workdir: '/',
    path: [],
    variables: {
      HOME: `${SCRATCH}/home`,
      DEBIAN_FRONTEND: 'noninteractive',
      ...Object.assign({}, ...sources.map(({ variables }) => variables)),
    },
    network: sources.flatMap(({ network }) => network),
    timeoutMs: DEFAULT_STEP_MS,
  }
}

const BEGIN = `set -eu
umask 022
rm -rf ${SCRATCH}
mkdir -p ${SCRATCH}/home
trap 'rm -rf ${SCRATCH}' EXIT
`

/** For a base with unknown tools: a missing tool is reported before anything is installed. */
function needing(...programs: readonly string[]): string {
  return `for program in ${programs.join(' ')}; do
  command -v "$program" >/dev/null || { echo "the base has no $program, which is needed to install the agent: use an image that has it"; exit 1; }
done
`
}

/** Every file belongs to root and is readable, but not writable, for everyone else. */
const END = (to: string): string => `chown -R 0:0 ${to}
chmod -R u+rwX,go+rX,go-w ${to}
`

/**
 * SECURITY: no script of a package runs during installation. Agents whose programs are packages of their
 * platform are started there, so that no install script is needed.
 */
function npmScript(install: Install & { readonly kind: 'npm' }, to: string, arch: string): string {
  const cpu = arch === 'arm64' ? 'aarch64' : 'x86_64'
  const at = (text: string): string => text.replaceAll('{arch}', arch).replaceAll('{cpu}', cpu)
  const links = Object.entries(install.programs ?? {}).map(
    ([name, path]) =>
      `chmod 755 ${shellWord(`${to}/node_modules/${at(path)}`)}\nln -s ${shellWord(`../node_modules/${at(path)}`)} ${shellWord(`${to}/bin/${name}`)}\n`,
  )
  const node = install.node === undefined ? '' : ownNode(install.node, to, arch)
  return `${BEGIN}registry=\${npm_config_registry%/}
[ -n "$registry" ] || { echo 'no registry for npm is configured'; exit 1; }
fetch() { # name, version, directory
  mkdir -p "$3"
  curl -fsSL --retry 3 --retry-all-errors -o ${SCRATCH}/package.tgz "$registry/$1/-/\${1##*/}-$2.tgz"
  tar -xzf ${SCRATCH}/package.tgz -C "$3" --strip-components=1 --no-same-owner
  rm ${SCRATCH}/package.tgz
}
fetch node-linux-${arch} ${BUILD_NODE} ${SCRATCH}/node
fetch npm ${BUILD_NPM} ${SCRATCH}/npm
chmod 755 ${SCRATCH}/node/bin/node
rm -rf ${to}
mkdir -p ${to}/bin
cd ${to}
printf '{"private":true}' > package.json
PATH=${SCRATCH}/node/bin:$PATH node ${SCRATCH}/npm/bin/npm-cli.js install --no-audit --no-fund --ignore-scripts --no-bin-links --cache ${SCRATCH}/cache --loglevel error -- ${install.packages.map((one) => shellWord(at(one))).join(' ')}
${node}${links.join('')}${VENDORED}find ${to}/node_modules -name '*.map' -type f -delete
${END(to)}`
}

/** Vendored programs of packages. Some rely on an install script to make them executable. */
const VENDORED = `find node_modules -type f -path '*/vendor/*' ! -perm -u+x ! -name '*.*' > ${SCRATCH}/vendored
while read -r file; do
  [ "$(head -c 4 "$file" | tail -c 3)" != ELF ] || chmod 755 "$file"
done < ${SCRATCH}/vendored
`

function ownNode(version: string, to: string, arch: string): string {
  const from = version === BUILD_NODE ? '' : `fetch node-linux-${arch} ${version} ${SCRATCH}/own\n`
  const place = version === BUILD_NODE ? 'node' : 'own'
  return `${from}mkdir -p ${to}/node/bin
cp ${SCRATCH}/${place}/bin/node ${to}/node/bin/node
chmod 755 ${to}/node/bin/node
`
}

/** The debian base has no Python by default. */
function pythonStep(apt: PackageSource | undefined): Step {
  if (!apt)
    throw invalid('agent.apt', 'Python is installed from Debian, but no registry for apt is configured')
  const run = `${BEGIN}apt-get -q update
apt-get -q install -y --no-install-recommends -o Dpkg::Use-Pty=0 -- python3 python3-venv
rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin
`
  return { ...step('python', 'python3 of Debian', run, [apt]), name: 'agent/python' }
}

/**
 * The layer contains the interpreter with its standard library and shared libraries, because the environment
 * below may have no Python or another one.
 */
function pipScript(packages: readonly string[], to: string): string {
  return `${BEGIN}rm -rf ${to}
mkdir -p ${to}/bin ${to}/python/bin ${to}/python/lib
python=$(python3 -c 'import os, sys; print(os.path.realpath(sys.executable))')
library=$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
cp "$python" ${to}/python/bin/python3
cp -R "$library" ${to}/python/lib/
rm -rf ${to}/python/lib/*/test ${to}/python/lib/*/site-packages ${to}/python/lib/*/dist-packages ${to}/python/lib/*/config-*
for file in "$python" "$library"/lib-dynload/*.so; do ldd "$file" 2>/dev/null || :; done > ${SCRATCH}/linked
sed -n 's/.*=> \\(\\/[^ ]*\\) .*/\\1/p' ${SCRATCH}/linked > ${SCRATCH}/libraries
while read -r file; do
  case \${file##*/} in libc.so.*|libm.so.*|libdl.so.*|libpthread.so.*|librt.so.*|libutil.so.*|ld-linux*) ;; *) cp -L "$file" ${to}/python/lib/ ;; esac
done < ${SCRATCH}/libraries
python3 -m venv ${SCRATCH}/pip
${SCRATCH}/pip/bin/python -m pip install -q --no-cache-dir --disable-pip-version-check --only-binary :all: --target ${to}/packages -- ${packages.map(shellWord).join(' ')}
find ${to} -name __pycache__ -type d -prune -exec rm -rf {} +
${END(to)}`
}
