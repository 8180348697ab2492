/** The base `debian`, with a bootstrap that only says how it was called. */
import assert from 'node:assert/strict'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { type ErrorCode, isAgentPodError } from '../core/error.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { FakeProvider } from '../testing/fake-provider.ts'
import { BaseRoots } from './base-roots.ts'
import { buildDebian, hostSuite } from './debian-bootstrap.ts'

let scratch: string
let etc: string
beforeEach(() => {
  scratch = mkdtempSync(join(tmpdir(), 'agentpod-debian-'))
  etc = join(scratch, 'etc')
  mkdirSync(join(etc, 'apt', 'sources.list.d'), { recursive: true })
  release('debian', 'bookworm')
})
afterEach(() => rmSync(scratch, { recursive: true }))

const release = (id: string, name: string): void =>
  writeFileSync(join(etc, 'os-release'), `ID=${id}\nVERSION_CODENAME=${name}\n`)
const source = (name: string, text: string): void =>
  writeFileSync(join(etc, 'apt', 'sources.list.d', name), text)

/** What stands for mmdebstrap; the file that it is to write is the word after the release. */
function bootstrap(script = ':'): Record<string, string> {
  const program = join(scratch, 'mmdebstrap')
  writeFileSync(
    program,
    `#!/bin/sh\nprintf '%s\\n' "$@" > ${scratch}/args\nprintf '%s' "$SOURCE_DATE_EPOCH" > ${scratch}/time\nfor word; do case $word in *.tar) echo content > "$word" ;; esac; done\n${script}\n`,
  )
  chmodSync(program, 0o755)
  return { PATH: `${scratch}:/usr/bin:/bin` }
}

async function build(suite?: string, script?: string): Promise<{ digest: string; args: string[] }> {
  const digest = await buildDebian({
    file: join(scratch, 'out.tar'),
    logFile: join(scratch, 'log'),
    isRoot: true,
    suite,
    etc,
    env: bootstrap(script),
    onProgress: () => undefined,
  })
  return { digest, args: readFileSync(join(scratch, 'args'), 'utf8').split('\n').filter(Boolean) }
}

function fails(work: Promise<unknown>, code: ErrorCode, reason: string): Promise<void> {
  return assert.rejects(work, (error) => {
    assert.ok(isAgentPodError(error, code), String(error))
    assert.equal(error.reason, reason)
    return true
  })
}

const DEB822 = `Types: deb
URIs: https://mirror.example.com/debian
Suites: bookworm bookworm-updates bookworm-backports
Components: main

Types: deb
URIs: https://mirror.example.com/security
Suites: bookworm-security
Components: main
`
const SIGNED = 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]'

describe('the bootstrap', () => {
  test('the bootstrap of the machine’s own release uses its apt sources, but no third-party ones', async () => {
    source('debian.sources', DEB822)
    source('vendor.list', 'deb https://vendor.example.com/apt stable main\n')
    const { args } = await build()
    const at = args.indexOf('bookworm')
    assert.deepEqual(args.slice(at), [
      'bookworm',
      join(scratch, 'out.tar'),
      join(etc, 'apt', 'sources.list.d', 'debian.sources'),
    ])
    assert.equal(readFileSync(join(scratch, 'time'), 'utf8'), '1700000000', 'the same time on every file')
  })

  test('the bootstrap of an ordinary user uses a temporary directory that subordinate ids can enter', async () => {
    const mine = join(scratch, 'mine')
    mkdirSync(join(mine, 'tmp'), { recursive: true })
    const temporary = async (isRoot: boolean, mode: number): Promise<string> => {
      chmodSync(scratch, 0o755)
      chmodSync(mine, mode)
      const env = { ...bootstrap(`printf %s "$TMPDIR" > ${scratch}/tmpdir`), TMPDIR: join(mine, 'tmp') }
      const file = join(scratch, 'out.tar')
      await buildDebian({
        file,
        logFile: join(scratch, 'log'),
        isRoot,
        etc,
        env,
        onProgress: () => undefined,
      })
      return readFileSync(join(scratch, 'tmpdir'), 'utf8')
    }
    assert.equal(await temporary(false, 0o700), '/tmp')
    assert.equal(await temporary(false, 0o711), join(mine, 'tmp'))
    assert.equal(await temporary(true, 0o700), join(mine, 'tmp'))
  })

  test('the bootstrap of another release uses the same mirrors, with the pockets of every release', async () => {
    source('debian.sources', DEB822)
    const { args } = await build('trixie')
    assert.deepEqual(args.slice(args.indexOf('trixie') + 2), [
      `${SIGNED} https://mirror.example.com/debian trixie main`,
      `${SIGNED} https://mirror.example.com/debian trixie-updates main`,
      `${SIGNED} https://mirror.example.com/security trixie-security main`,
    ])
  })

  test('the bootstrap reads the older format of apt sources too', async () => {
    writeFileSync(
      join(etc, 'apt', 'sources.list'),
      '# deb https://no.example.com bookworm main\ndeb [arch=amd64] https://a.example.com/debian bookworm main contrib\ndeb-src https://a.example.com/debian bookworm main\n',
    )
    const { args } = await build('trixie')
    assert.deepEqual(args.slice(args.indexOf('trixie') + 2), [
      `${SIGNED} https://a.example.com/debian trixie main`,
    ])
  })

  test('the bootstrap on another distribution leaves the mirror to mmdebstrap', async () => {
    release('fedora', 'forty')
    assert.equal(hostSuite(etc), 'bookworm')
    const { args } = await build()
    assert.equal(args.at(-1), join(scratch, 'out.tar'))
  })

  test('a failed bootstrap reports the reason, keeps the output, and leaves no file', async () => {
    const script =
      "echo 'I: downloading' >&2; echo 'E: no such mirror' >&2; echo 'E: mmdebstrap failed to run' >&2; exit 25"
    await assert.rejects(build(undefined, script), {
      code: 'failed_precondition',
      reason: 'base.build_failed',
      message: 'the debian base could not be built: no such mirror',
      hint: new RegExp(`^${join(scratch, 'log')} has the whole output`),
    })
    assert.match(readFileSync(join(scratch, 'log'), 'utf8'), /^I: downloading\nE: no such mirror\n/)
    assert.ok(!existsSync(join(scratch, 'out.tar')))
  })

  test('without mmdebstrap, the error says how to install it', async () => {
    const none = {
      file: join(scratch, 'out.tar'),
      logFile: join(scratch, 'log'),
      isRoot: true,
      etc,
      env: { PATH: etc },
      onProgress: () => undefined,
    }
    await fails(buildDebian(none), 'failed_precondition', 'mmdebstrap.missing')
  })
})

describe('roots', () => {
  const roots = (env: Record<string, string>): { roots: BaseRoots; built: Map<string, string> } => {
    const built = new Map<string, string>()
    return {
      built,
      roots: new BaseRoots({
        tmpDir: scratch,
        logFile: join(scratch, 'log'),
        isRoot: true,
        arch: 'x64',
        env,
        built: { get: (key) => built.get(key), set: (key, digest) => void built.set(key, digest) },
      }),
    }
  }
  const provider = (): FakeProvider => new FakeProvider({ clock: new FakeClock() })

  test('SECURITY: CP-16. names that are no release are not tried', async () => {
    const { roots: some } = roots(bootstrap())
    await fails(
      some.ensure({ name: 'debian', suite: 'potato' }, provider(), () => undefined),
      'invalid_argument',
      'suite.unknown',
    )
    assert.ok(!existsSync(join(scratch, 'args')), 'nothing was called')
  })

  test('each Debian release is built once, also by concurrent callers, and reused', async () => {
    const { roots: some, built } = roots(bootstrap(`echo x >> ${scratch}/calls`))
    const to = provider()
    const plans = await Promise.all(
      ['trixie', 'bullseye', 'trixie'].map((suite) =>
        some.ensure({ name: 'debian', suite }, to, () => undefined),
      ),
    )
    assert.deepEqual(plans[0], plans[2])
    assert.equal(readFileSync(join(scratch, 'calls'), 'utf8'), 'x\nx\n')
    assert.equal(built.size, 2)
    await some.ensure({ name: 'debian', suite: 'trixie' }, to, () => undefined)
    assert.equal(readFileSync(join(scratch, 'calls'), 'utf8'), 'x\nx\n')
    assert.deepEqual(await some.ensure({ name: 'host' }, to, () => undefined), { root: { kind: 'host' } })
  })

  test('a failed build of a Debian base is tried again, and leaves no file', async () => {
    const { roots: some } = roots(bootstrap('exit 1'))
    const to = provider()
    await fails(
      some.ensure({ name: 'debian', suite: 'trixie' }, to, () => undefined),
      'failed_precondition',
      'base.build_failed',
    )
    assert.ok(!existsSync(join(scratch, 'debian-fake-trixie-plain.tar')))
    bootstrap()
    assert.equal(
      (await some.ensure({ name: 'debian', suite: 'trixie' }, to, () => undefined)).root['kind'],
      'layers',
    )
  })
})
