/**
 * Docker's own compose command of the second generation: that of this machine, or Debian's, unpacked in the
 * cache.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from './world.ts'

const SUITE = 'trixie'
const KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg'
const FETCH_MS = 300_000

/** The words that call it, or why there is none. */
export function dockerCompose(): { readonly program: string } | { readonly missing: string } {
  for (const program of ['docker-compose', fetched()]) if (isSecondGeneration(program)) return { program }
  if (process.getuid?.() !== 0 || !existsSync(KEYRING))
    return { missing: 'needs docker-compose 2, or Debian' }
  try {
    fetch()
  } catch (error) {
    return { missing: `docker-compose 2 cannot be downloaded here: ${String(error).split('\n').at(0)}` }
  }
  return isSecondGeneration(fetched())
    ? { program: fetched() }
    : { missing: 'docker-compose 2 does not run here' }
}

function isSecondGeneration(program: string): boolean {
  const { stdout } = spawnSync(program, ['version', '--short'], { encoding: 'utf8' })
  return /^v?[2-9]\./.test(stdout ?? '')
}

function directory(): string {
  return join(ROOT, '.cache', 'compat', `docker-compose-${SUITE}`)
}

function fetched(): string {
  return join(directory(), 'files/usr/libexec/docker/cli-plugins/docker-compose')
}

/** The one that this machine's apt uses for Debian itself. */
function mirror(): string {
  const format = ['--format', '$(REPO_URI)', 'Created-By: Packages', 'Label: Debian']
  const [first] = execFileSync('apt-get', ['indextargets', ...format], { encoding: 'utf8' }).split('\n')
  if (!first) throw new Error('apt has no mirror of Debian')
  return first
}

/** With lists and settings of its own: apt of this machine is not changed. */
function fetch(): void {
  const at = (...path: string[]): string => join(directory(), ...path)
  for (const path of ['lists/partial', 'archives/partial']) mkdirSync(at(path), { recursive: true })
  writeFileSync(at('sources.list'), `deb [signed-by=${KEYRING}] ${mirror()} ${SUITE} main\n`)
  const options = [
    `Dir::Etc::SourceList=${at('sources.list')}`,
    'Dir::Etc::SourceParts=/dev/null',
    `Dir::State::Lists=${at('lists')}`,
    `Dir::Cache=${directory()}`,
    'APT::Sandbox::User=root',
  ].flatMap((option) => ['-o', option])
  const apt = (...words: string[]): unknown =>
    execFileSync('apt-get', [...options, '-qq', ...words], {
      cwd: directory(),
      timeout: FETCH_MS,
      stdio: 'pipe',
    })
  apt('update')
  apt('download', 'docker-compose')
  const archive = readdirSync(directory()).find((name) => name.startsWith('docker-compose_'))
  execFileSync('dpkg-deb', ['-x', at(archive ?? ''), at('files')])
}
