/** The same compose project as Docker's own command and as AgentPod read it, in one form. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { composeFilesIn, readCompose } from '../../../src/config/compose/compose-project.ts'
import type { ComposeMount, ComposeService } from '../../../src/config/compose/model.ts'
import type { ComposeProjectFiles } from './projects.ts'

/** What is compared of a service. Left out where a side says nothing. */
export type Compared = Readonly<Record<string, unknown>>
export type ComparedServices = Readonly<Record<string, Compared>>

export interface ComposeComparison {
  readonly ours: ComparedServices
  readonly docker: ComparedServices
}

export function compareCompose(program: string, project: ComposeProjectFiles): ComposeComparison {
  const directory = mkdtempSync(join(tmpdir(), 'compose-compared-'))
  try {
    for (const [path, text] of Object.entries(project.files)) {
      mkdirSync(dirname(join(directory, path)), { recursive: true })
      writeFileSync(join(directory, path), text)
    }
    return { ours: oursOf(directory, project), docker: dockerOf(program, directory, project) }
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

function oursOf(directory: string, { profiles }: ComposeProjectFiles): ComparedServices {
  const has = (file: string): boolean => existsSync(join(directory, file))
  const { services } = readCompose({
    files: composeFilesIn('', has),
    read: (file) => (has(file) ? readFileSync(join(directory, file), 'utf8') : undefined),
    profiles,
    directory,
  })
  return Object.fromEntries(services.map((service) => [service.name, plain(comparedOurs(service))]))
}

function comparedOurs(service: ComposeService): Compared {
  const { build, ports, mounts, dependsOn, healthcheck } = service
  return {
    image: service.image,
    build: build && {
      context: build.context,
      dockerfile: build.dockerfile ?? 'Dockerfile',
      args: build.args,
      target: build.target,
    },
    command: service.command,
    entrypoint: service.entrypoint,
    environment: service.environment,
    ports: sorted(ports.map(({ target, published }) => ({ target, published }))),
    expose: sorted(service.expose),
    mounts: sorted(mounts.map(mountOf)),
    dependsOn: Object.fromEntries(
      dependsOn.map(({ service: name, condition, isRequired }) => [
        name,
        { condition, required: isRequired },
      ]),
    ),
    // Off is no check at all.
    healthcheck: healthcheck?.test === undefined ? undefined : { test: healthcheck.test },
    workingDir: service.workingDir,
    user: service.user,
    cpus: service.cpus,
    memoryMib: service.memoryMib,
    pids: service.pids,
    stopSignal: service.stopSignal,
    stopMs: service.stopMs,
  }
}

function mountOf(mount: ComposeMount): object {
  switch (mount.kind) {
    case 'volume':
      return { kind: 'volume', source: mount.name, target: mount.target, readOnly: mount.isReadOnly }
    case 'bind':
      return { kind: 'bind', source: mount.source, target: mount.target, readOnly: mount.isReadOnly }
    case 'tmpfs':
      return { kind: 'tmpfs', target: mount.target }
    default:
      return { kind: 'empty', target: mount.target }
  }
}

/** What `docker compose config --format json` prints, as far as it is compared. */
interface DockerService {
  readonly image?: string
  readonly build?: {
    readonly context: string
    readonly dockerfile?: string
    readonly args?: Readonly<Record<string, string>>
    readonly target?: string
  }
  readonly command?: readonly string[] | null
  readonly entrypoint?: readonly string[] | null
  readonly environment?: Readonly<Record<string, string | null>>
  readonly ports?: readonly { readonly target: number; readonly published?: string }[]
  readonly expose?: readonly string[]
  readonly volumes?: readonly {
    readonly type: string
    readonly source?: string
    readonly target: string
    readonly read_only?: boolean
  }[]
  readonly tmpfs?: readonly string[]
  readonly depends_on?: Readonly<Record<string, { readonly condition: string; readonly required: boolean }>>
  readonly healthcheck?: { readonly test?: readonly string[] }
  readonly working_dir?: string
  readonly user?: string
  readonly cpus?: number
  readonly mem_limit?: string
  readonly pids_limit?: number
  readonly deploy?: {
    readonly resources?: {
      readonly limits?: { readonly cpus?: number | string; readonly memory?: string; readonly pids?: number }
    }
  }
  readonly stop_signal?: string
  readonly stop_grace_period?: string
}

function dockerOf(
  program: string,
  directory: string,
  { profiles = [] }: ComposeProjectFiles,
): ComparedServices {
  const words = [...profiles.flatMap((one) => ['--profile', one]), 'config', '--format', 'json']
  const text = execFileSync(program, words, {
    cwd: directory,
    encoding: 'utf8',
    // Nothing of this machine's environment decides.
    env: { PATH: process.env['PATH'], HOME: directory },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const { services } = unescaped(JSON.parse(text)) as { services: Readonly<Record<string, DockerService>> }
  return Object.fromEntries(
    Object.entries(services).map(([name, service]) => [name, plain(comparedDocker(service, directory))]),
  )
}

/** It prints a dollar as a file would have to have it. */
function unescaped(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value).replaceAll('$$', '$'))
}

function comparedDocker(service: DockerService, directory: string): Compared {
  const { build, volumes = [], tmpfs = [], healthcheck, environment = {}, deploy } = service
  const limits = deploy?.resources?.limits ?? {}
  const bytes = service.mem_limit ?? limits.memory
  const inside = (path: string): string => relative(directory, path)
  const test = healthcheck?.test
  return {
    image: service.image,
    build: build && {
      context: inside(build.context),
      dockerfile: build.dockerfile,
      args: build.args ?? {},
      target: build.target,
    },
    command: service.command ?? undefined,
    entrypoint: service.entrypoint ?? undefined,
    // A name without a value anywhere is a variable that is not set.
    environment: Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== null)),
    ports: sorted(
      (service.ports ?? []).map(({ target, published }) => ({
        target,
        published: published === undefined ? undefined : Number(published),
      })),
    ),
    expose: sorted((service.expose ?? []).map(Number)),
    mounts: sorted([
      ...volumes.map(({ type, source, target, read_only: readOnly = false }) =>
        type === 'tmpfs'
          ? { kind: 'tmpfs', target }
          : source === undefined
            ? { kind: 'empty', target }
            : { kind: type, source: type === 'bind' ? inside(source) : source, target, readOnly },
      ),
      ...tmpfs.map((path) => ({ kind: 'tmpfs', target: path.split(':')[0] })),
    ]),
    dependsOn: Object.fromEntries(
      Object.entries(service.depends_on ?? {}).map(([name, { condition, required }]) => [
        name,
        { condition, required },
      ]),
    ),
    healthcheck: test === undefined || test[0] === 'NONE' ? undefined : { test: checkOf(test) },
    workingDir: service.working_dir,
    user: service.user,
    cpus: service.cpus ?? (limits.cpus === undefined ? undefined : Number(limits.cpus)),
    memoryMib: bytes === undefined ? undefined : Number(bytes) / (1024 * 1024),
    pids: service.pids_limit ?? limits.pids,
    stopSignal: service.stop_signal,
    stopMs: service.stop_grace_period === undefined ? undefined : durationMs(service.stop_grace_period),
  }
}

function checkOf([kind, ...words]: readonly string[]): string | readonly string[] {
  return kind === 'CMD-SHELL' ? words.join(' ') : words
}

function durationMs(text: string): number {
  const [, minutes = '0', seconds = '0'] = /^(?:(\d+)m)?(?:(\d+)s)?$/.exec(text) ?? []
  return (Number(minutes) * 60 + Number(seconds)) * 1000
}

function sorted<T>(values: readonly T[]): readonly T[] {
  return values.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1))
}

/** Without what is undefined or empty. */
function plain(compared: Compared): Compared {
  const text = JSON.stringify(compared)
  const isEmpty = (value: unknown): boolean =>
    typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).length === 0
  return Object.fromEntries(
    Object.entries(JSON.parse(text) as Record<string, unknown>).filter(
      ([key, value]) =>
        !isEmpty(value) &&
        !(Array.isArray(value) && value.length === 0 && key !== 'command' && key !== 'entrypoint'),
    ),
  )
}
