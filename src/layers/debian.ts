/** The `debian` base: bootstrapped once from packages, with the mirrors this machine's own apt uses. */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createReadStream, existsSync, readdirSync, readFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { AgentPodError } from '../core/error.ts'

/** Raised whenever the recipe below changes what comes out. */
export const DEBIAN_RECIPE = 2

const FALLBACK_SUITE = 'bookworm'
/** With a fixed time on every file, the same packages give the same layer on every machine. */
const TIME_OF_FILES = '1700000000'
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
const SLIM = [
  'path-exclude=/usr/share/man/*',
  'path-exclude=/usr/share/doc/*',
  'path-include=/usr/share/doc/*/copyright',
  'path-exclude=/usr/share/locale/*',
]

/** Files that must not be the same in every sandbox, or that only the bootstrap needed. */
const CUSTOMIZE = [
  'chroot "$1" useradd -m -u 1000 -s /bin/bash user',
  `printf '%s\\n' 'user ALL=(ALL:ALL) NOPASSWD:ALL' > "$1/etc/sudoers.d/user" && chmod 440 "$1/etc/sudoers.d/user"`,
  'rm -f "$1/etc/machine-id" "$1/etc/resolv.conf" "$1/etc/hostname" && : > "$1/etc/machine-id" && : > "$1/etc/resolv.conf"',
  'rm -rf "$1"/var/log/* "$1"/var/cache/ldconfig/aux-cache "$1"/tmp/*',
]

export interface DebianBuild {
  /** Where the tar file goes. It is removed when the build fails. */
  readonly file: string
  readonly isRoot: boolean
  /** Debian's release; the machine's own when left out. */
  readonly suite?: string | undefined
  readonly etc?: string
  /** Where programs are found, and which proxy leads out. */
  readonly env: Readonly<Record<string, string | undefined>>
  onProgress(line: string): void
  readonly signal?: AbortSignal | undefined
}

/** Bootstraps into a tar file and answers its digest. `failed_precondition` when mmdebstrap is missing or fails. */
export async function buildDebian(build: DebianBuild): Promise<string> {
  const etc = build.etc ?? '/etc'
  const suite = build.suite ?? hostSuite(etc)
  const sources = aptSources(etc, suite)
  const args = [
    `--mode=${build.isRoot ? 'root' : 'unshare'}`,
    '--variant=minbase',
    '--format=tar',
    // Sandboxes get a /dev of their own; a layer holds no device.
    '--skip=output/dev,output/mknod',
    `--include=${PACKAGES.join(',')}`,
    ...SLIM.map((option) => `--dpkgopt=${option}`),
    ...CUSTOMIZE.map((hook) => `--customize-hook=${hook}`),
    suite,
    build.file,
    ...sources,
  ]
  build.onProgress(`building the debian base (${suite}, once, about a minute)`)
  try {
    await mmdebstrap(args, build)
    build.onProgress('checking the layer')
    return await sha256(build.file)
  } catch (error) {
    await rm(build.file, { force: true })
    throw error
  }
}

function mmdebstrap(args: readonly string[], build: DebianBuild): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn('mmdebstrap', args, {
      stdio: ['ignore', 'ignore', 'pipe'],
      signal: build.signal,
      env: { ...build.env, SOURCE_DATE_EPOCH: TIME_OF_FILES },
    })
    let tail = ''
    child.stderr.setEncoding('utf8')
    child.stderr.on('data', (text: string) => {
      tail = (tail + text).slice(-4000)
      for (const step of text.matchAll(/^I: ((?:downloading|extracting|installing|creating) .*)$/gm)) {
        build.onProgress(step[1] ?? '')
      }
    })
    child.once('error', (error: NodeJS.ErrnoException) =>
      reject(buildFailed(error.code === 'ENOENT' ? undefined : error.message)),
    )
    child.once('close', (code) =>
      code === 0 ? resolve() : reject(buildFailed(lastError(tail) ?? `exit code ${code}`)),
    )
  })
}

/** The machine's own release where it is Debian, else its stable one. */
export function hostSuite(etc = '/etc'): string {
  const release = read(join(etc, 'os-release'))
  if (!/^ID=debian$/m.test(release)) return FALLBACK_SUITE
  return /^VERSION_CODENAME=([a-z]+)$/m.exec(release)?.[1] ?? FALLBACK_SUITE
}

/** Where packages come from: for the host's own release its apt source files, for another one the same mirrors; on a host without apt, the tool's own default. */
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

/** One line of sources for each mirror and pocket that a file names for the host's release, with the other release in its place. */
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

function lastError(text: string): string | undefined {
  return text
    .split('\n')
    .filter((line) => /^(E|error):/i.test(line))
    .at(-1)
}

function buildFailed(why: string | undefined): AgentPodError {
  return new AgentPodError({
    code: 'failed_precondition',
    reason: why === undefined ? 'mmdebstrap.missing' : 'base.build_failed',
    message:
      why === undefined ? 'the debian base needs mmdebstrap' : `the debian base could not be built: ${why}`,
    hint:
      why === undefined
        ? 'apt-get install mmdebstrap (or use --base host)'
        : 'check that apt-get update works on this machine, or use --base host',
  })
}
