/**
 * Records agents at work on a small project: the real programs of three of them, in our sandboxes, on the
 * private internet of the tests, where the names of model services lead to a scripted model.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { homedir, hostname, tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { brokenProject, payingWith } from '../../test/support/agent-runs.ts'
import { AgentStage } from '../../test/support/agent-stage.ts'
import { noInternet } from '../../test/support/internet.ts'
import { ROOT } from '../../test/support/world.ts'
import { readCast, textOf, writeCast } from './cast.ts'
import { svgOf } from './svg.ts'

const AGENTS = ['claude', 'codex', 'gemini']
const KEY = 'not-a-real-key-0123456789'
const SIZE = { columns: '110', rows: '32' }
const LONGEST_PAUSE_SECONDS = '1.5'
const ASCIINEMA = 'asciinema==2.4.0'
const LARGEST_BYTES = 200 * 1024
const TO = join(ROOT, 'docs', 'demo')

/** Gives the asciinema of this machine, or installs one beside the other downloads of the clone. */
function asciinema(): string {
  if (spawnSync('asciinema', ['--version']).status === 0) return 'asciinema'
  const place = join(ROOT, '.cache', 'asciinema')
  const program = join(place, 'bin', 'asciinema')
  if (existsSync(program)) return program
  execFileSync('python3', ['-m', 'venv', place], { stdio: 'inherit' })
  execFileSync(join(place, 'bin', 'pip'), ['install', '--quiet', ASCIINEMA], { stdio: 'inherit' })
  return program
}

/** Refuses a recording that names this machine, its paths or its user. */
function checkPlain(text: string, more: readonly string[]): void {
  const { username } = userInfo()
  const words = [ROOT, tmpdir(), homedir(), hostname(), `${username}@`, KEY, ...more]
  const found = words.find((word) => word.length > 1 && text.includes(word))
  if (found !== undefined) throw new Error(`the recording has ${found} in it`)
}

async function record(): Promise<string> {
  await using stage = await AgentStage.open({ keys: [KEY], scenario: 'fix' })
  const project = brokenProject(stage.directory(), 'sums')
  // npm would look for a newer version of itself, which the private internet does not have.
  project.write('.npmrc', 'update-notifier=false\n')
  project.commitAll()
  const named = AGENTS.flatMap((name) => ['--agent', name])
  await stage.outside.ok(['build', ...named], { cwd: project.root, timeoutMs: 600_000 })
  await stage.close()
  const file = join(stage.directory(), 'demo.cast')
  const words = ['rec', '--quiet', '--overwrite', '--cols', SIZE.columns, '--rows', SIZE.rows]
  const session = `'${process.execPath}' --disable-warning=ExperimentalWarning '${join(import.meta.dirname, 'session.ts')}'`
  const [enter = '', ...rest] = stage.internet.onMachine
  const { status } = spawnSync(
    enter,
    [...rest, asciinema(), ...words, '--idle-time-limit', LONGEST_PAUSE_SECONDS, '-c', session, file],
    {
      cwd: project.root,
      stdio: ['ignore', 'inherit', 'inherit'],
      env: {
        ...payingWith(KEY),
        PATH: `${ROOT}:${process.env['PATH']}`,
        HOME: project.home,
        AGENTPOD_HOME: stage.home,
        SSL_CERT_FILE: '/etc/ssl/certs/ca-certificates.crt',
        TERM: 'xterm-256color',
        LANG: 'C.UTF-8',
      },
    },
  )
  if (status !== 0) throw new Error(`the recording ended with ${status}`)
  const cast = readFileSync(file, 'utf8')
  // asciinema exits with 0 even if its command fails.
  if (!textOf(readCast(cast)).includes('$ git log'))
    throw new Error(`it ended early:\n${textOf(readCast(cast))}`)
  checkPlain(writeCast(readCast(cast)), [project.root, stage.home])
  return cast
}

const why = noInternet()
if (why) throw new Error(why)
const cast = readCast(await record())
const written = writeCast(cast)
if (written.length > LARGEST_BYTES) throw new Error(`the recording has ${written.length} bytes`)
mkdirSync(TO, { recursive: true })
writeFileSync(join(TO, 'agents.cast'), written)
writeFileSync(join(TO, 'agents.txt'), textOf(cast))
writeFileSync(join(TO, 'agents.svg'), svgOf(readCast(written)))
