/** `ADD` of a git repository, from git's own server over HTTPS, and of addresses. */
import assert from 'node:assert/strict'
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { systemClock } from '../../src/util/clock.ts'
import { systemRandom } from '../../src/util/random.ts'
import { makeCertificate } from '../../src/util/x509/certificate.ts'
import { endByInput } from '../support/child-process.ts'
import { Internet, noInternet, SITE } from '../support/internet.ts'
import { type CliResult, until, type World } from '../support/world.ts'

const HOST = 'git.example'
const PORT = 9443
const ADDRESS = `https://${HOST}:${PORT}`
const ALLOW = ['--allow', `${HOST}:${PORT}`]

describe('ADD of a git repository', { skip: noInternet() }, () => {
  const scratch = mkdtempSync(join(tmpdir(), 'agentpod-git-server-'))
  const work = join(scratch, 'work')
  let internet: Internet
  let world: World
  let server: ChildProcess
  const requests: string[] = []

  const git = (cwd: string, ...args: string[]): string =>
    execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@example.com', ...args], {
      cwd,
      encoding: 'utf8',
    }).trim()
  const commit = (text: string): string => {
    writeFileSync(join(work, 'a.txt'), text)
    git(work, 'add', '.')
    git(work, 'commit', '-qm', text)
    git(work, 'push', '-q', '--tags', 'origin', 'HEAD')
    return git(work, 'rev-parse', 'HEAD')
  }

  before(async () => {
    const repositories = join(scratch, 'repositories')
    for (const name of ['shop', 'part']) {
      mkdirSync(join(repositories, `${name}.git`), { recursive: true })
      git(join(repositories, `${name}.git`), 'init', '-q', '--bare', '-b', 'main')
    }
    const part = join(scratch, 'part')
    mkdirSync(part)
    git(part, 'init', '-q', '-b', 'main')
    writeFileSync(join(part, 'part.txt'), 'part\n')
    git(part, 'add', '.')
    git(part, 'commit', '-qm', 'part')
    git(part, 'push', '-q', join(repositories, 'part.git'), 'main')
    mkdirSync(join(work, 'sub'), { recursive: true })
    git(work, 'init', '-q', '-b', 'main')
    git(work, 'remote', 'add', 'origin', join(repositories, 'shop.git'))
    writeFileSync(join(work, 'sub', 'run.sh'), '#!/bin/sh\n', { mode: 0o755 })
    commit('one\n')
    git(work, 'tag', 'v1')
    // A submodule by an address that the sandbox reaches.
    git(work, 'checkout', '-q', '-b', 'modules')
    const module = git(part, 'rev-parse', 'HEAD')
    writeFileSync(
      join(work, '.gitmodules'),
      `[submodule "part"]\n\tpath = part\n\turl = ${ADDRESS}/part.git\n[submodule "gone"]\n\tpath = gone\n\turl = ${ADDRESS}/gone.git\n`,
    )
    mkdirSync(join(work, 'part'))
    git(work, 'update-index', '--add', '--cacheinfo', `160000,${module},part`)
    commit('with a part\n')
    git(work, 'checkout', '-q', 'main')
    internet = await Internet.open([HOST, 'site.example'])
    for (const name of [HOST, 'site.example']) internet.name(name, [SITE])
    world = internet.world()
    const made = makeCertificate(internet.authority, [HOST], { now: systemClock.now(), random: systemRandom })
    const script = join(import.meta.dirname, '..', 'support', 'git-server-process.ts')
    const node = [process.execPath, '--disable-warning=ExperimentalWarning', script]
    server = spawn('nsenter', ['-t', String(internet.network.pid), '-n', '--', ...node], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    server.stdout?.on('data', (data: Buffer) => requests.push(...data.toString().trimEnd().split('\n')))
    server.stdin?.write(
      `${JSON.stringify({ root: repositories, port: PORT, cert: made.cert, key: made.key })}\n`,
    )
    await until('the git server listens', () => requests.includes('ready'))
  })

  after(async () => {
    await world?.[Symbol.asyncDispose]()
    if (server) await endByInput(server)
    await internet?.[Symbol.asyncDispose]()
    rmSync(scratch, { recursive: true, force: true })
  })

  let count = 0
  /** Builds `ADD` of this, and lists what the image has. */
  const add = async (what: string, ...options: string[]): Promise<CliResult> => {
    // One directory: the builds of a Dockerfile are compared.
    const directory = join(scratch, 'context')
    mkdirSync(directory, { recursive: true })
    writeFileSync(
      join(directory, 'Dockerfile'),
      `FROM scratch\nADD ${what} /in/\nCOPY <<EOF /later\nx\nEOF\n`,
    )
    count += 1
    return world.cli([
      'build',
      '-f',
      join(directory, 'Dockerfile'),
      '-t',
      `git:${count}`,
      ...options,
      directory,
    ])
  }
  const files = async (): Promise<Record<string, string>> => {
    const layout = mkdtempSync(join(scratch, 'layout-'))
    await world.ok(['image', 'push', `git:${count}`, `oci:${layout}/oci`])
    const list = join(import.meta.dirname, '..', 'dockerfiles', 'list-image.py')
    const { files: found } = JSON.parse(
      execFileSync('python3', [list, join(layout, 'oci')], { encoding: 'utf8' }),
    )
    return Object.fromEntries(
      Object.entries(found as Record<string, string[]>)
        .filter(([path, [kind]]) => path.startsWith('in/') && kind === 'f')
        .map(([path, [, mode = '', , , content = '']]) => [path.slice(3), `${mode} ${content.trim()}`]),
    )
  }
  const built = async (what: string, ...options: string[]): Promise<string> => {
    const { code, stderr } = await add(what, ...ALLOW, ...options)
    assert.equal(code, 0, stderr)
    return stderr
  }

  test('DF-11 its host needs a rule, and the error names it', async () => {
    const { code, stderr } = await add(`${ADDRESS}/shop.git`)
    assert.notEqual(code, 0)
    assert.match(stderr, new RegExp(`refused: ${HOST}:${PORT}`))
    assert.match(stderr, new RegExp(`to allow it: --allow ${HOST}:${PORT}$`, 'm'))
  })

  test('DF-11 a branch, a tag, a commit, a directory and submodules give the files that git gives', async () => {
    const plain = { 'a.txt': '644 one', 'sub/run.sh': '755 #!/bin/sh' }
    await built(`${ADDRESS}/shop.git`)
    const first = await files()
    assert.deepEqual(
      Object.fromEntries(Object.entries(first).map(([path, text]) => [path, text.replace(/^0+/, '')])),
      plain,
    )
    const head = git(work, 'rev-parse', 'main')
    for (const ref of ['main', head]) {
      await built(`${ADDRESS}/shop.git#${ref}`)
      assert.deepEqual(await files(), first, ref)
    }
    await built(`${ADDRESS}/shop.git#main:sub`)
    assert.deepEqual(Object.keys(await files()), ['run.sh'])
    await built(`${ADDRESS}/shop.git#modules`)
    assert.match((await files())['part/part.txt'] ?? '', /part$/)
    await built(`--keep-git-dir=true ${ADDRESS}/shop.git#main`)
    assert.ok((await files())['.git/HEAD'])
  })

  test('DF-11 without a checksum it is asked at each build, and later steps are built again only if it changed', async () => {
    const what = `${ADDRESS}/shop.git#main`
    const before = requests.length
    await built(what)
    const same = await built(what, '-v')
    assert.ok(requests.length > before)
    assert.match(same, /COPY .* \(cached\)/)
    commit('two\n')
    const changed = await built(what, '-v')
    assert.match(changed, /COPY .* \(a step before it changed\)/)
    assert.match((await files())['a.txt'] ?? '', /two$/)
  })

  test('DF-11 a checksum is the commit that is expected; with it a stored layer asks nobody', async () => {
    const head = git(work, 'rev-parse', 'main')
    const what = `--checksum=${head} ${ADDRESS}/shop.git#main`
    await built(what)
    assert.match((await files())['a.txt'] ?? '', /two$/)
    const before = requests.length
    const again = await built(what, '-v')
    assert.equal(requests.length, before)
    assert.match(again, /ADD .* \(cached\)/)
    const other = git(work, 'rev-parse', 'main~1')
    const { code, stderr } = await add(`--checksum=${other} ${ADDRESS}/shop.git#main`, ...ALLOW)
    assert.notEqual(code, 0)
    assert.ok(stderr.includes(`"main" is the commit ${head}, but ${other} was asked for`), stderr)
    assert.match(stderr, /Dockerfile:2: ADD /)
  })

  test('DF-5 an address without TLS needs its rule too, and a checksum is checked', async () => {
    const what = 'http://site.example/file'
    const refused = await add(what)
    assert.match(refused.stderr, /Dockerfile:2: ADD /)
    assert.match(refused.stderr, /to allow it: --allow site\.example$/m)
    const allowed = await add(what, '--allow', 'site.example')
    assert.equal(allowed.code, 0, allowed.stderr)
    for (const scheme of ['http', 'https']) {
      const lie = `--checksum=sha256:${'0'.repeat(64)} ${scheme}://site.example/file`
      const lied = await add(lie, '--allow', 'site.example')
      assert.match(lied.stderr, /its checksum is [0-9a-f]{64}, but 0{64} was asked for/)
    }
  })

  test('DF-11 a repository or branch that is not there is one error with its line', async () => {
    const none = await add(`${ADDRESS}/none.git`, ...ALLOW)
    assert.match(none.stderr, /Dockerfile:2: ADD .* failed: .*clone .*none\.git: repository not found/)
    const branch = await add(`${ADDRESS}/shop.git#nowhere`, ...ALLOW)
    assert.match(branch.stderr, /Dockerfile:2: ADD .* has no branch, tag or commit "nowhere"/)
  })
})
