/** Environments that are written in code: each call returns a new one, with a step or a setting added. */
import type { BuildRequestBody } from '../api/schema/build.ts'
import { COPY_STAGE, copyScript } from '../core/build/copy-script.ts'
import type { PackagePreset } from '../core/build/package-preset.ts'
import { homeOf } from '../core/environment.ts'
import { invalid } from '../core/error.ts'
import type { Kit } from '../core/recipe.ts'
import { shellWord } from '../util/shell/shell-word.ts'
import type { BuildStep } from './builds.ts'
import type { AgentPod } from './client.ts'
import { clientEnvironment } from './default-place.ts'
import {
  buildEnvironmentDockerfile,
  type DockerfileSettings,
  type EnvironmentDockerfile,
  type EnvironmentDockerfileOptions,
  environmentDockerfile,
} from './dockerfile/environment-dockerfile.ts'
import { packInput } from './environment-files.ts'
import { OutputLines } from './output-lines.ts'
import type { CreateOptions } from './sandbox.ts'

type Recipe = BuildRequestBody['recipe']
type RecipeStep = Recipe['steps'][number]
type NetworkWish = NonNullable<RecipeStep['network']>

/** What `create` takes as `environment`. */
export type BuiltEnvironment = NonNullable<CreateOptions['environment']>

export interface EnvironmentRunOptions {
  /** Hosts that the command may reach, like `example.com` or `*.example.com`; none if left out. */
  readonly network?: readonly string[] | undefined
  /** Package managers whose registries it may reach. */
  readonly packages?: readonly PackagePreset[] | undefined
  /** The user it runs as; the environment's own if left out. */
  readonly user?: string | undefined
  readonly timeoutMs?: number | undefined
}

export interface EnvironmentStartOptions {
  /** A command that succeeds when the program is ready, or the port that it listens on. */
  readonly ready?: string | number | undefined
  /** How long it may take to get ready; one minute if left out. */
  readonly timeoutMs?: number | undefined
}

export interface EnvironmentBuildOptions {
  /** One line of progress or output. */
  readonly onLog?: ((line: string) => void) | undefined
  /** The same, as events of whole steps. */
  readonly onStep?: ((step: BuildStep) => void) | undefined
  readonly provider?: string | undefined
  /** Builds all steps again, also those in the cache. */
  readonly force?: boolean | undefined
  readonly signal?: AbortSignal | undefined
}

/** A step before its files are packed. */
interface Draft {
  readonly title: string
  readonly run: string
  readonly user: string
  readonly workdir: string
  readonly variables: Readonly<Record<string, string>>
  readonly network?: NetworkWish | undefined
  readonly presets?: PackagePreset[] | undefined
  readonly timeoutMs?: number | undefined
  readonly copy?: {
    readonly from: string
    readonly to: string
    readonly owner: string
    readonly mode?: string | undefined
  }
}

interface Described {
  readonly base: Recipe['base']
  readonly steps: readonly Draft[]
  readonly variables: Readonly<Record<string, string>>
  readonly user: string
  /** Empty means the home of the user. */
  readonly workdir: string
  /** What the base is built from, if it is the image of a Dockerfile. */
  readonly dockerfile?: EnvironmentDockerfile | undefined
  /** Whether commands in sandboxes run as the user of the image. */
  readonly usesImageUser?: boolean | undefined
  readonly start?: { readonly run: string } & EnvironmentStartOptions
}

export class EnvironmentBuilder {
  readonly #described: Described

  private constructor(described: Described) {
    this.#described = described
  }

  /** Debian with Python, pip, compilers, Node and git; `kit: 'plain'` is Debian alone. */
  static debian(o: { readonly kit?: Kit; readonly suite?: string } = {}): EnvironmentBuilder {
    const base = { name: 'debian' as const, kit: o.kit ?? 'development', ...(o.suite && { suite: o.suite }) }
    return new EnvironmentBuilder({ base, steps: [], variables: {}, user: 'user', workdir: '' })
  }

  /** A container image, such as `python:3.13`. Its steps and commands run as root, or as `user` says. */
  static image(reference: string): EnvironmentBuilder {
    const base = { name: 'image' as const, image: reference }
    return new EnvironmentBuilder({ base, steps: [], variables: {}, user: 'root', workdir: '' })
  }

  /**
   * The image of a Dockerfile, which `build` builds first. Steps run as root; commands in sandboxes run as
   * the user and in the directory that the Dockerfile says, or as `user` and `workdir` say. It needs an admin
   * key, because the image is stored under a name.
   */
  static dockerfile(file = 'Dockerfile', o: EnvironmentDockerfileOptions = {}): EnvironmentBuilder {
    const dockerfile = environmentDockerfile(file, o)
    const base = { name: 'image' as const, image: dockerfile.image }
    const settings = { variables: {}, user: 'root', workdir: '', usesImageUser: true }
    return new EnvironmentBuilder({ base, steps: [], ...settings, dockerfile })
  }

  /** The programs of the server's machine. */
  static host(): EnvironmentBuilder {
    const base = { name: 'host' as const }
    return new EnvironmentBuilder({ base, steps: [], variables: {}, user: 'user', workdir: '' })
  }

  /** Installs packages of Debian, or of another distribution that has apt. */
  apt(...packages: readonly string[]): EnvironmentBuilder {
    const words = wordsOf('apt', packages)
    return this.#add({
      title: `apt: ${packages.join(', ')}`,
      run: `apt-get -q update
apt-get -q install -y --no-install-recommends -- ${words}
apt-get clean
rm -rf /var/lib/apt/lists/*`,
      ...ROOT,
      variables: { ...this.#described.variables, DEBIAN_FRONTEND: 'noninteractive' },
      presets: ['apt'],
    })
  }

  /** Installs Python packages for all users. */
  pip(...packages: readonly string[]): EnvironmentBuilder {
    return this.#add({
      title: `pip: ${packages.join(', ')}`,
      run: `python3 -m pip install --no-cache-dir ${wordsOf('pip', packages)}`,
      ...ROOT,
      variables: {
        ...this.#described.variables,
        HOME: '/root',
        PIP_BREAK_SYSTEM_PACKAGES: '1',
        PIP_ROOT_USER_ACTION: 'ignore',
        PIP_DISABLE_PIP_VERSION_CHECK: '1',
      },
      presets: ['pip'],
    })
  }

  /** Installs packages of npm for all users. */
  npm(...packages: readonly string[]): EnvironmentBuilder {
    return this.#add({
      title: `npm: ${packages.join(', ')}`,
      run: `npm install --global --no-audit --no-fund ${wordsOf('npm', packages)}
rm -rf /root/.npm/_cacache`,
      ...ROOT,
      variables: { ...this.#described.variables, HOME: '/root' },
      presets: ['npm'],
    })
  }

  /**
   * Copies a file, or the content of a directory without what git ignores. A target that ends with `/` is a
   * directory.
   */
  copy(from: string, to: string, o: { readonly mode?: string } = {}): EnvironmentBuilder {
    const target = this.#path(to)
    return this.#add({
      title: `copy ${from} to ${target}`,
      run: '',
      ...ROOT,
      variables: {},
      copy: { from, to: target, owner: this.#described.user, mode: o.mode },
    })
  }

  /** Runs a command for /bin/sh in the working directory. It reaches no host that the options do not name. */
  run(command: string, o: EnvironmentRunOptions = {}): EnvironmentBuilder {
    const { variables, user } = this.#described
    const as = o.user ?? user
    return this.#add({
      title: command.split('\n')[0] ?? '',
      run: command,
      user: as,
      workdir: this.#path('.'),
      variables: { HOME: homeOf(as), ...variables },
      network: (o.network ?? []).map((host) => ruleOf(host)),
      presets: [...(o.packages ?? [])],
      timeoutMs: o.timeoutMs,
    })
  }

  /** Variables for the steps after it, and for sandboxes. */
  env(variables: Readonly<Record<string, string>>): EnvironmentBuilder {
    return this.#with({ variables: { ...this.#described.variables, ...variables } })
  }

  /** The working directory of the steps after it, and of sandboxes. It is made if it does not exist. */
  workdir(path: string): EnvironmentBuilder {
    const { user } = this.#described
    const workdir = this.#path(path)
    return this.#with({ workdir }).#add({
      title: `directory ${workdir}`,
      run: `[ -d ${shellWord(workdir)} ] || { mkdir -p ${shellWord(workdir)}; chown ${shellWord(user)}: ${shellWord(workdir)}; }`,
      ...ROOT,
      variables: {},
    })
  }

  /** The user of the steps after it, and of commands in sandboxes. */
  user(name: string): EnvironmentBuilder {
    return this.#with({ user: name, usesImageUser: false })
  }

  /** A program that runs in each sandbox from its start, also after a stop. */
  start(command: string, o: EnvironmentStartOptions = {}): EnvironmentBuilder {
    return this.#with({ start: { run: command, ...o } })
  }

  /** Builds the steps that are not in the cache. The answer is what `create` takes as `environment`. */
  async build(pod: AgentPod, o: EnvironmentBuildOptions = {}): Promise<BuiltEnvironment> {
    const { base, steps, dockerfile } = this.#described
    const { recipe, archives } = await recipeOf(base, steps)
    const lines = new OutputLines(o.onLog)
    const reports = {
      provider: o.provider,
      signal: o.signal,
      onProgress: (text: string) => o.onLog?.(text),
      onStep(step: BuildStep) {
        lines.flush()
        o.onStep?.(step)
        const end = step.state === 'done' ? `done in ${((step.ms ?? 0) / 1000).toFixed(1)} s` : step.state
        o.onLog?.(`[${step.number}/${step.of}] ${step.title}: ${end}`)
      },
      onOutput: (_: string, data: Buffer) => lines.push(data),
    }
    try {
      const settings =
        dockerfile &&
        (await buildEnvironmentDockerfile(pod, dockerfile, (dockerfile.network ?? []).map(ruleOf), {
          ...reports,
          useCache: !o.force,
          onWarnings(warnings) {
            for (const { line, text } of warnings) o.onLog?.(`warning: line ${line}: ${text}`)
          },
        }))
      const { digest } = await pod.builds.build(recipe, {
        ...reports,
        files: (wanted) => archives.get(wanted) ?? Buffer.alloc(0),
        again: o.force ? recipe.steps[0]?.name : undefined,
      })
      return this.#environment(digest, settings)
    } finally {
      lines.flush()
    }
  }

  #environment(digest: string | undefined, settings: DockerfileSettings | undefined): BuiltEnvironment {
    const { base, variables, start, usesImageUser } = this.#described
    const user = usesImageUser ? (settings?.user ?? 'root') : this.#described.user
    const workdir = this.#described.workdir || settings?.workdir || ''
    return {
      base: base.name,
      ...(base.image !== undefined && { image: base.image }),
      ...(digest !== undefined && { digest }),
      variables: { ...variables },
      user,
      workdir,
      ...(start && {
        services: [
          { name: 'start', run: start.run, user, workdir, variables: {}, ready: readinessOf(start) },
        ],
      }),
    }
  }

  #with(change: Partial<Described>): EnvironmentBuilder {
    return new EnvironmentBuilder({ ...this.#described, ...change })
  }

  #add(step: Draft): EnvironmentBuilder {
    return this.#with({ steps: [...this.#described.steps, step] })
  }

  /** Relative paths begin at the working directory. */
  #path(path: string): string {
    const { workdir, user } = this.#described
    if (path.startsWith('/')) return path
    const below = workdir === '' ? homeOf(user) : workdir
    return path === '.' ? below : `${below}/${path.replace(/^\.\//, '')}`
  }
}

const ROOT = { user: 'root', workdir: '/' } as const

async function recipeOf(
  base: Recipe['base'],
  drafts: readonly Draft[],
): Promise<{ recipe: Recipe; archives: Map<string, Buffer> }> {
  const archives = new Map<string, Buffer>()
  const steps: RecipeStep[] = []
  // A new sandbox cannot name the kit of its base; a built environment has it.
  if (drafts.length === 0 && base.kit !== undefined)
    steps.push({ name: 'base', title: 'the base', run: 'true', network: [] })
  for (const [at, { copy, title, ...draft }] of drafts.entries()) {
    const step = {
      ...draft,
      run: draft.run === '' ? '' : `set -eu\n${draft.run}`,
      name: `step-${at + 1}`,
      title: shortTitle(title),
    }
    if (!copy) {
      steps.push(step)
      continue
    }
    const { archive, digest, entries, from } = await packInput(copy.from, { env: clientEnvironment() })
    archives.set(digest, archive)
    steps.push({
      ...step,
      run: copyScript({ from, to: copy.to, owner: copy.owner, mode: copy.mode }),
      files: { digest, to: COPY_STAGE, entries },
    })
  }
  return { recipe: { base, steps }, archives }
}

const LONGEST_TITLE = 160

function shortTitle(title: string): string {
  const plain = title.replaceAll(/\p{Cc}/gu, ' ').trim()
  return plain.length <= LONGEST_TITLE ? plain : `${plain.slice(0, LONGEST_TITLE - 3)}...`
}

/** A name that begins with a dash would be an option of the package manager. */
function wordsOf(what: string, packages: readonly string[]): string {
  if (packages.length === 0) throw invalid('environment.packages', `${what}() needs at least one package`)
  const option = packages.find((name) => name.startsWith('-') || name === '')
  if (option !== undefined)
    throw invalid('environment.packages', `${JSON.stringify(option)} is not the name of a package`)
  return packages.map(shellWord).join(' ')
}

/** `host`, or `host:port`. */
function ruleOf(text: string): NetworkWish[number] {
  const [, host = '', port] = /^(.*?)(?::(\d{1,5}))?$/.exec(text) ?? []
  return { host, ...(port !== undefined && { ports: [Number(port)] }) }
}

const READY_MS = 60_000

function readinessOf({ ready, timeoutMs = READY_MS }: EnvironmentStartOptions): {
  command?: string
  port?: number
  timeoutMs: number
} {
  if (typeof ready === 'number') return { port: ready, timeoutMs }
  return { ...(ready !== undefined && { command: ready }), timeoutMs }
}
