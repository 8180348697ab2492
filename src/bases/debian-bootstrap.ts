/** Builds the base `debian`: bootstrapped once from packages, with the mirrors of this machine's apt. */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createReadStream, existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { AgentPodError } from '../core/error.ts'
import type { Kit } from '../core/recipe.ts'

/** Increase this when a change below changes the resulting layer. */
export const DEBIAN_RECIPE = 4

const FALLBACK_SUITE = 'bookworm'
/** With a fixed time on every file, the same packages give the same layer on every machine. */
const TIME_OF_FILES = '1700000000'
/** How much of the bootstrap's output goes to the log. */
const MOST_SAID = 256 * 1024
const MOST_REASONS = 2
const KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg'
const PACKAGES = [
  'bash',
  'ca-certificates',
  'coreutils',
  'curl',
  'git',
  'less',
  'make',
  'openssh-client',
  'procps',
  'python3',
  'sudo',
  'unzip',
  'xz-utils',
]
/** The same packages as E2B's base: Python with pip and venv, compilers, Node. */
const DEVELOPMENT_PACKAGES = [
  'build-essential',
  'nodejs',
  'npm',
  'python-is-python3',
  'python3-dev',
  'python3-pip',
  'python3-venv',
]
const DPKG_OPTIONS = [
  // dpkg would flush every file to the disk. A base is complete or removed, and so is a layer on top of it.
  'force-unsafe-io',
  'path-exclude=/usr/share/man/*',
  'path-exclude=/usr/share/doc/*',
  'path-include=/usr/share/doc/*/copyright',
  'path-exclude=/usr/share/locale/*',
]

/**
 * Removes files that must differ between sandboxes or that only the bootstrap needed. /tmp stays: mmdebstrap
 * keeps there the settings with which it calls apt at the end, and without them apt would clean the package
 * lists of this machine.
 */
const CUSTOMIZE = [
  'chroot "$1" useradd -m -u 1000 -s /bin/bash user',
  `printf '%s\\n' 'user ALL=(ALL:ALL) NOPASSWD:ALL' > "$1/etc/sudoers.d/user" && chmod 440 "$1/etc/sudoers.d/user"`,
  'rm -f "$1/etc/machine-id" "$1/etc/resolv.conf" "$1/etc/hostname" && : > "$1/etc/machine-id" && : > "$1/etc/resolv.conf"',
  'rm -rf "$1"/var/log/* "$1"/var/cache/ldconfig/aux-cache',
]

/** Lets pip install for the calling user, as it does outside Debian: a sandbox has no system to protect. */
const DEVELOPMENT_CUSTOMIZE = ['rm -f "$1"/usr/lib/python3*/EXTERNALLY-MANAGED']

export interface DebianBuild {
  /** Where the tar file goes. It is removed when the build fails. */
  readonly file: string
  /** Receives all output of mmdebstrap. */
  readonly logFile: string
  readonly isRoot: boolean
  /** The Debian release; that of the machine when left out. */
  readonly suite?: string | undefined
  /** `plain` when left out. */
  readonly kit?: Kit | undefined
  readonly etc?: string
  /** The PATH for programs, and proxy settings. */
  readonly env: Readonly<Record<string, string | undefined>>
  onProgress(line: string): void
  readonly signal?: AbortSignal | undefined
}

/**
 * Bootstraps into a tar file and returns its digest. Throws `failed_precondition` if mmdebstrap is missing or
 * fails.
 */
export async function buildDebian(build: DebianBuild): Promise<string> {
  const etc = build.etc ?? '/etc'
  const suite = build.suite ?? hostSuite(etc)
  const sources = aptSources(etc, suite)
  const isDevelopment = build.kit === 'development'
  const packages = isDevelopment ? [...PACKAGES, ...DEVELOPMENT_PACKAGES] : PACKAGES
  const hooks = isDevelopment ? [...CUSTOMIZE, ...DEVELOPMENT_CUSTOMIZE] : CUSTOMIZE
  const args = [
    `--mode=${build.isRoot ? 'root' : 'unshare'}`,
    '--variant=minbase',
    '--format=tar',
    // Sandboxes get a /dev of their own; a layer holds no device.
    '--skip=output/dev,output/mknod',
    `--include=${packages.join(',')}`,
    ...DPKG_OPTIONS.map((option) => `--dpkgopt=${option}`),
    ...hooks.map((hook) => `--customize-hook=${hook}`),
    suite,
    build.file,
    ...sources,
  ]
  const [what, time] = isDevelopment
    ? ['debian base with Python, compilers and Node', 'two minutes']
    : ['debian base', 'a minute']
  build.onProgress(`building the ${what} (${suite}, once, about ${time})`)
  try {
    const { code, said } = await mmdebstrap(args, build)
    await writeFile(build.logFile, said, { mode: 0o600 })
    if (code !== 0) throw buildFailed(reasonIn(said) ?? `mmdebstrap ended with ${code}`, build.logFile)
    build.onProgress('checking the layer')
    return await sha256(build.file)
  } catch (error) {
    await rm(build.file, { force: true })
    throw error
  }
}

interface Bootstrapped {
  readonly code: number | string
  readonly said: string
}

/**
 * Without root, mmdebstrap works with subordinate ids, which cannot enter a directory that only this user can
 * enter, such as one made by pam_tmpdir.
 */
function temporary({ env, isRoot }: DebianBuild): Record<string, string> {
  const { TMPDIR } = env
  return isRoot || TMPDIR === undefined || isOpen(resolve(TMPDIR)) ? {} : { TMPDIR: '/tmp' }
}

/** Whether others may pass through it and all above it. */
function isOpen(directory: string): boolean {
  const found = statSync(directory, { throwIfNoEntry: false })
  if (!found || (found.mode & 0o001) === 0) return false
  return directory === '/' || isOpen(dirname(directory))
}

function mmdebstrap(args: readonly string[], build: DebianBuild): Promise<Bootstrapped> {
  return new Promise((resolve, reject) => {
    const child = spawn('mmdebstrap', args, {
      stdio: ['ignore', 'ignore', 'pipe'],
      signal: build.signal,
      env: { ...build.env, ...temporary(build), SOURCE_DATE_EPOCH: TIME_OF_FILES },
    })
    let said = ''
    child.stderr.setEncoding('utf8')
    child.stderr.on('data', (text: string) => {
      said = (said + text).slice(-MOST_SAID)
      for (const step of text.matchAll(/^I: ((?:downloading|extracting|installing|creating) .*)$/gm)) {
        build.onProgress(step[1] ?? '')
      }
    })
    child.once('error', (error: NodeJS.ErrnoException) =>
      reject(error.code === 'ENOENT' ? noBootstrap() : buildFailed(error.message, build.logFile)),
    )
    child.once('close', (code, signal) => resolve({ code: code ?? String(signal), said }))
  })
}

/** The machine's release if it is Debian, else the stable one. */
export function hostSuite(etc = '/etc'): string {
  const release = read(join(etc, 'os-release'))
  if (!/^ID=debian$/m.test(release)) return FALLBACK_SUITE
  return /^VERSION_CODENAME=([a-z]+)$/m.exec(release)?.[1] ?? FALLBACK_SUITE
}

/**
 * Package sources: for the host's own release its apt source files, for another release the same mirrors, on
 * a host without apt the default of mmdebstrap.
 */
function aptSources(etc: string, suite: string): string[] {
  const own = hostSuite(etc)
  if (!/^ID=debian$/m.test(read(join(etc, 'os-release')))) return []
  const parts = join(etc, 'apt', 'sources.list.d')
  const names = existsSync(parts)
    ? readdirSync(parts)
        .filter((name) => /\.(list|sources)$/.test(name))
        .sort()
    : []
  const files = [join(etc, 'apt', 'sources.list'), ...names.map((name) => join(parts, name))].filter((file) =>
    isDebianSource(read(file), own),
  )
  return suite === own ? files : files.flatMap((file) => forSuite(read(file), own, suite))
}

/**
 * One source line for each mirror and pocket that a file names for the host's release, with the other release
 * in its place.
 */
function forSuite(text: string, own: string, suite: string): string[] {
  const line = (uri: string, pocket: string): string =>
    `deb [signed-by=${KEYRING}] ${uri} ${suite}${pocket} main`
  const lines: string[] = []
  for (const stanza of text.split(/\n\s*\n/)) {
    const uri = /^URIs:\s*(\S+)/m.exec(stanza)?.[1]
    const suites = /^Suites:\s*(.+)$/m.exec(stanza)?.[1]?.split(/\s+/) ?? []
    if (uri)
      lines.push(...suites.filter((one) => isOf(one, own)).map((one) => line(uri, one.slice(own.length))))
  }
  for (const [, uri = '', one = ''] of text.matchAll(/^deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+(\S+)/gm))
    if (isOf(one, own)) lines.push(line(uri, one.slice(own.length)))
  return lines
}

function isOf(suite: string, own: string): boolean {
  return suite === own || suite === `${own}-updates` || suite === `${own}-security`
}

/** Third-party repositories stay out of the base: they need keys and trust of their own. */
function isDebianSource(text: string, suite: string): boolean {
  return text.split('\n').some((line) => /^(deb |Suites:)/.test(line) && line.includes(suite))
}

function read(file: string): string {
  return existsSync(file) ? readFileSync(file, 'utf8') : ''
}

async function sha256(file: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(file, { highWaterMark: 1 << 20 })) hash.update(chunk as Buffer)
  return hash.digest('hex')
}

/** The first errors of apt or dpkg. What mmdebstrap prints after them only says that something failed. */
function reasonIn(text: string): string | undefined {
  const errors = [...text.matchAll(/^E: *(.*)$/gm)].map(([, why = '']) => why.trim())
  const told = errors.filter((why) => !/^(mmdebstrap failed to run|apt-get .* failed)$/.test(why))
  const reasons = told.length > 0 ? told : errors
  return reasons.length > 0 ? reasons.slice(0, MOST_REASONS).join('; ') : undefined
}

function noBootstrap(): AgentPodError {
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'mmdebstrap.missing',
    message: 'the debian base needs mmdebstrap',
    hint: 'sudo apt-get install mmdebstrap (or use --base host)',
  })
}

function buildFailed(why: string, logFile: string): AgentPodError {
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'base.build_failed',
    message: `the debian base could not be built: ${why}`,
    hint: `${logFile} has the whole output; check that \`apt-get update\` works on this machine, or use --base host`,
  })
}
