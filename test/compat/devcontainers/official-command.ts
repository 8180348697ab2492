/**
 * The official command, fetched into the cache by npm, with a stand-in for the container engine: no
 * containers run, and an image is what the test says it is.
 */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { ROOT } from '../../support/world.ts'

const execute = promisify(execFile)
/** Pinned: what it prints changes with it. */
const VERSION = '0.89.0'
const INSTALL_MS = 120_000
const RUN_MS = 30_000

/** The path of its program. */
export async function installOfficial(): Promise<string> {
  const directory = join(ROOT, '.cache', 'compat', `devcontainers-${VERSION}`)
  const program = join(directory, 'node_modules', '@devcontainers', 'cli', 'devcontainer.js')
  if (existsSync(program)) return program
  await mkdir(directory, { recursive: true })
  const options = ['--no-audit', '--no-fund', '--ignore-scripts', '--prefix', directory]
  await execute('npm', ['install', ...options, `@devcontainers/cli@${VERSION}`], {
    timeout: INSTALL_MS,
    cwd: directory,
  })
  return program
}

const ENGINE = `#!/bin/sh
case "$1 $2 $3" in
  ps*) cat "$STAND_IN_CONTAINERS" ;;
  "compose version"* | version*) echo 2.0.0 ;;
  buildx*) echo 0.20.0 ;;
  compose*) cat "$STAND_IN_COMPOSE" ;;
  "inspect --type container") cat "$STAND_IN_CONTAINER" ;;
  inspect*) cat "$STAND_IN_IMAGE" ;;
  *) exit 1 ;;
esac
`

export interface OfficialRequest {
  readonly program: string
  /** For the stand-in and its answers. */
  readonly scratch: string
  readonly project: string
  /** The path of one of several files. */
  readonly config?: string | undefined
  /** Of the image; undefined for an image without labels. */
  readonly label?: string | undefined
  readonly env?: Readonly<Record<string, string>> | undefined
  /** Without the merged configuration and Features. */
  readonly isPlain?: boolean | undefined
  /** A container of the project that runs. */
  readonly container?: { readonly env: readonly string[]; readonly labels: Readonly<Record<string, string>> }
}

/** What `read-configuration` prints. */
export async function officialConfiguration(o: OfficialRequest): Promise<Record<string, unknown>> {
  const engine = join(o.scratch, 'engine')
  const image = join(o.scratch, 'image.json')
  const compose = join(o.scratch, 'compose.json')
  await writeFile(engine, ENGINE)
  await chmod(engine, 0o755)
  const labels = o.label === undefined ? {} : { 'devcontainer.metadata': o.label }
  const config = { User: '', Env: ['PATH=/usr/bin'], Labels: labels }
  await writeFile(
    image,
    JSON.stringify([{ Id: 'sha256:0', Os: 'linux', Architecture: 'amd64', Config: config }]),
  )
  await writeFile(
    compose,
    JSON.stringify({ services: { app: { image: 'made:1' }, db: { image: 'made:1' } } }),
  )
  const containers = join(o.scratch, 'containers')
  const container = join(o.scratch, 'container.json')
  await writeFile(containers, o.container ? '0123456789ab\n' : '')
  const { env = [], labels: containerLabels = {} } = o.container ?? {}
  const state = { Status: 'running', StartedAt: '2026-01-01T00:00:00Z', FinishedAt: '' }
  const running = {
    Id: '0123456789ab',
    Created: '2026-01-01T00:00:00Z',
    Name: '/c',
    State: state,
    Mounts: [],
    NetworkSettings: { Ports: {} },
  }
  await writeFile(
    container,
    JSON.stringify([
      { ...running, Config: { Image: 'made:1', User: '', Env: env, Labels: containerLabels } },
    ]),
  )
  const options = o.isPlain ? [] : ['--include-merged-configuration', '--include-features-configuration']
  if (o.config !== undefined) options.push('--config', o.config)
  const { stdout } = await execute(
    process.execPath,
    [o.program, 'read-configuration', '--workspace-folder', '.', '--docker-path', engine, ...options],
    {
      cwd: o.project,
      timeout: RUN_MS,
      maxBuffer: 64 * 1024 * 1024,
      env: {
        ...process.env,
        ...o.env,
        HOME: o.scratch,
        TMPDIR: o.scratch,
        STAND_IN_IMAGE: image,
        STAND_IN_COMPOSE: compose,
        STAND_IN_CONTAINERS: containers,
        STAND_IN_CONTAINER: container,
      },
    },
  )
  return JSON.parse(stdout) as Record<string, unknown>
}

/** The lockfile that it would write. */
export async function officialLock(o: OfficialRequest): Promise<string> {
  const { stdout } = await execute(
    process.execPath,
    [o.program, 'upgrade', '--workspace-folder', '.', '--dry-run', '--log-level', 'error'],
    { cwd: o.project, timeout: RUN_MS, env: { ...process.env, HOME: o.scratch, TMPDIR: o.scratch } },
  )
  return stdout
}
