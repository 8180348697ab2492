/**
 * The SDKs under test: fetched into the cache by the ordinary package clients, so that they are not
 * dependencies of ours.
 */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { ROOT } from '../../support/world.ts'

const execute = promisify(execFile)
const CACHE = join(ROOT, '.cache', 'compat')
const INSTALL_MS = 120_000

export interface Sdk {
  /** As the page of results calls it. */
  readonly title: string
  /** Where it lies; fetched first where it is not there yet. */
  install(): Promise<string>
  /** The program and its arguments that drive it over every case. */
  command(directory: string): readonly string[]
  readonly env?: (directory: string) => Record<string, string>
}

/** As much of the JavaScript SDK as the tests of ours call by themselves. */
export interface E2bSdk {
  readonly Sandbox: {
    create(options: Readonly<Record<string, unknown>>): Promise<E2bSandbox>
    connect(id: string, options: Readonly<Record<string, unknown>>): Promise<E2bSandbox>
    getInfo(id: string, options: Readonly<Record<string, unknown>>): Promise<E2bInfo>
  }
}

export interface E2bInfo {
  readonly state: string
  readonly startedAt: string | Date
  readonly endAt: string | Date
  readonly network?: { readonly maskRequestHost?: string }
}

export interface E2bSandbox {
  readonly sandboxId: string
  readonly commands: {
    run(
      command: string,
      options?: Readonly<Record<string, unknown>>,
    ): Promise<{ readonly stdout: string; readonly exitCode: number }>
  }
  readonly files: {
    read(path: string, options?: Readonly<Record<string, unknown>>): Promise<string>
    write(path: string, data: string, options?: Readonly<Record<string, unknown>>): Promise<unknown>
    makeDir(path: string, options?: Readonly<Record<string, unknown>>): Promise<boolean>
    list(path: string, options?: Readonly<Record<string, unknown>>): Promise<readonly { name: string }[]>
    rename(from: string, to: string, options?: Readonly<Record<string, unknown>>): Promise<unknown>
    remove(path: string, options?: Readonly<Record<string, unknown>>): Promise<void>
    exists(path: string): Promise<boolean>
    getInfo(path: string): Promise<{ readonly size: number; readonly owner: string }>
    watchDir(
      path: string,
      onEvent: (event: { readonly name: string; readonly type: string }) => void,
      options?: Readonly<Record<string, unknown>>,
    ): Promise<{ stop(): Promise<void> }>
  }
  setTimeout(ms: number): Promise<void>
  downloadUrl(path: string, options?: Readonly<Record<string, unknown>>): Promise<string>
  kill(): Promise<boolean>
}

/** The newest, the one before it, and two that speak the older paths. */
const JAVASCRIPT = ['2.51.0', '2.50.0', '2.46.1', '2.45.0'] as const
const PYTHON = '2.63.0'
export const NEWEST = JAVASCRIPT[0]

export const SDKS: readonly Sdk[] = [
  ...JAVASCRIPT.map((version) => ({
    title: `npm ${version}`,
    install: () => installJavascript(version),
    command: (directory: string) => [
      process.execPath,
      join(import.meta.dirname, 'js', 'run.mjs'),
      join(directory, 'node_modules', 'e2b', 'dist', 'index.mjs'),
    ],
  })),
  {
    title: `PyPI ${PYTHON}`,
    install: () => installPython(PYTHON),
    command: () => ['python3', join(import.meta.dirname, 'python_suite.py')],
    env: (directory) => ({ PYTHONPATH: directory, PYTHONDONTWRITEBYTECODE: '1' }),
  },
]

/** A directory whose node_modules has that version. */
export async function installJavascript(version: string): Promise<string> {
  const directory = join(CACHE, `e2b-${version}`)
  if (existsSync(join(directory, 'node_modules', 'e2b', 'dist', 'index.mjs'))) return directory
  await mkdir(directory, { recursive: true })
  const options = ['--no-audit', '--no-fund', '--ignore-scripts', '--prefix', directory]
  await execute('npm', ['install', ...options, `e2b@${version}`], { timeout: INSTALL_MS, cwd: directory })
  return directory
}

async function installPython(version: string): Promise<string> {
  const directory = join(CACHE, `python-e2b-${version}`)
  if (existsSync(join(directory, 'e2b', '__init__.py'))) return directory
  const options = ['--quiet', '--disable-pip-version-check', '--target', directory]
  await execute('python3', ['-m', 'pip', 'install', ...options, `e2b==${version}`], { timeout: INSTALL_MS })
  return directory
}
