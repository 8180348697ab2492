/**
 * Projects with a devcontainer from nothing to passing tests, as root and as an ordinary user: Features that
 * the official command packaged, and a Dockerfile.
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { installOfficial } from '../compat/devcontainers/official-command.ts'
import { putFeatureArchive } from '../support/made-feature.ts'
import { makeImage } from '../support/made-image.ts'
import { makeOrdinaryUser, noOrdinaryUser, type OrdinaryUser } from '../support/ordinary-user.ts'
import { busyboxFiles, NO_BUSYBOX } from '../support/tiny-images.ts'
import { ToyRegistry } from '../support/toy-registry.ts'
import { World } from '../support/world.ts'

const COUNTER = {
  id: 'counter',
  version: '1.2.3',
  name: 'Counter',
  options: { start: { type: 'string', default: '1' }, loud: { type: 'boolean', default: false } },
  containerEnv: { COUNTER: '/usr/local/counter' },
}

const INSTALL = `#!/bin/sh
set -e
mkdir -p "$COUNTER" /usr/local/bin
. ./lib/words.sh
printf '#!/bin/sh\\necho %s %s %s\\n' "$WORD" "$START" "$LOUD" > /usr/local/bin/counter
chmod 755 /usr/local/bin/counter
echo "$_REMOTE_USER" > "$COUNTER/user"
`

describe('projects with a devcontainer', { skip: NO_BUSYBOX }, () => {
  const scratch = mkdtempSync(join(tmpdir(), 'agentpod-devcontainers-'))
  let registry: ToyRegistry
  let image = ''
  let user: OrdinaryUser | undefined

  before(async () => {
    registry = await ToyRegistry.start()
    const accounts = 'root:x:0:0:root:/root:/bin/sh\ndev:x:1000:1000:dev:/home/dev:/bin/sh\n'
    image = registry.put(
      'base',
      '1',
      makeImage({
        layers: [
          [
            ...busyboxFiles(),
            { name: 'etc/', type: 'directory' },
            { name: 'etc/passwd', content: accounts },
            { name: 'etc/group', content: 'root:x:0:\ndev:x:1000:\n' },
            { name: 'home/', type: 'directory' },
            { name: 'home/dev/', type: 'directory', uid: 1000 },
            { name: 'tmp/', type: 'directory', mode: 0o1777 },
          ],
        ],
        config: { Env: ['PATH=/bin:/usr/local/bin'] },
      }),
    )
    await publish()
    user = noOrdinaryUser() ? undefined : makeOrdinaryUser()
    chmodSync(scratch, 0o755)
  })
  after(async () => {
    user?.[Symbol.dispose]()
    await registry?.[Symbol.asyncDispose]()
    rmSync(scratch, { recursive: true, force: true })
  })

  /** The official command makes the archive; the tests' registry serves it. */
  async function publish(): Promise<void> {
    const source = join(scratch, 'source')
    write(source, {
      'src/counter/devcontainer-feature.json': JSON.stringify(COUNTER),
      'src/counter/install.sh': INSTALL,
      'src/counter/lib/words.sh': 'WORD=counting\n',
    })
    const out = join(scratch, 'packaged')
    const program = await installOfficial()
    const words = ['features', 'package', '--output-folder', out, join(source, 'src')]
    execFileSync(process.execPath, [program, ...words], { stdio: 'ignore' })
    const archive = readFileSync(join(out, 'devcontainer-feature-counter.tgz'))
    putFeatureArchive(registry, 'features', { id: 'counter', metadata: COUNTER }, archive)
  }

  function write(directory: string, files: Readonly<Record<string, string>>): string {
    for (const [path, content] of Object.entries(files)) {
      mkdirSync(dirname(join(directory, path)), { recursive: true })
      writeFileSync(join(directory, path), content)
    }
    return directory
  }

  function repository(directory: string, files: Readonly<Record<string, string>>): string {
    write(directory, files)
    const who = ['-c', 'user.name=a', '-c', 'user.email=a@example.com']
    for (const words of [
      ['init', '-q'],
      ['add', '-A'],
      [...who, 'commit', '-q', '-m', 'first'],
    ])
      execFileSync('git', words, { cwd: directory })
    return directory
  }

  const withFeatures = (): Record<string, string> => ({
    '.devcontainer/devcontainer.json': JSON.stringify({
      image,
      features: { [`${registry.host}/features/counter:1`]: { start: '41' } },
      remoteUser: 'dev',
      onCreateCommand: 'echo prepared > prepared',
      customizations: { agentpod: { lifecycle: { test: 'sh test.sh' } } },
    }),
    '.gitignore': 'prepared\n',
    'test.sh':
      'set -e\ntest "$(counter)" = "counting 41 false"\ntest "$(cat prepared $COUNTER/user)" = "prepared\ndev"\necho all tests pass\n',
  })
  const withDockerfile = (): Record<string, string> => ({
    '.devcontainer/devcontainer.json': JSON.stringify({
      build: { dockerfile: '../Dockerfile', context: '..', target: 'tools', args: { ANSWER: '42' } },
      customizations: { agentpod: { lifecycle: { test: 'sh test.sh' } } },
    }),
    Dockerfile: `FROM ${image} AS tools\nARG ANSWER\nRUN echo $ANSWER > /answer\nFROM tools\nRUN rm /answer\n`,
    'test.sh': 'set -e\ntest "$(cat /answer)" = 42\necho all tests pass\n',
  })

  async function check(world: World, place: string): Promise<void> {
    writeFileSync(join(world.home, 'config.toml'), `[registries."${registry.host}"]\ninsecure = true\n`)
    for (const [name, files] of Object.entries({ features: withFeatures(), dockerfile: withDockerfile() })) {
      const cwd = repository(join(place, name), files)
      if (user) execFileSync('chown', ['-R', `${user.uid}:${user.gid}`, join(place, name)])
      const env = { GIT_CONFIG_COUNT: '1', GIT_CONFIG_KEY_0: 'safe.directory', GIT_CONFIG_VALUE_0: '*' }
      await world.ok(['policy', 'approve'], { cwd, env })
      assert.match(await world.ok(['test'], { cwd, env }), /all tests pass/, name)
      assert.match(await world.ok(['run', '--', 'sh', 'test.sh'], { cwd, env }), /all tests pass/, name)
    }
  }

  test('DC-28 the official command’s Features and a Dockerfile lead to passing tests, as root', async () => {
    await using world = new World()
    await check(world, join(scratch, 'root'))
  })

  test('DC-28 and as an ordinary user', { skip: noOrdinaryUser() }, async () => {
    assert.ok(user)
    const home = join(user.home, 'state')
    mkdirSync(home, { mode: 0o700 })
    execFileSync('chown', [`${user.uid}:${user.gid}`, home])
    await using world = new World({ home, as: user })
    await check(world, join(user.home, 'projects'))
  })

  test('DC-28 a run of an agent works in the devcontainer, and its result is a branch', async () => {
    await using world = new World()
    writeFileSync(
      join(world.home, 'config.toml'),
      `[registries."${registry.host}"]\ninsecure = true\n[grants]\nimages = true\ndevcontainers = true\n`,
    )
    const cwd = repository(join(scratch, 'agent'), withFeatures())
    const words = ['run', 'custom', 'count', '--agent-command', 'sh test.sh && counter > result']
    const { code, stdout, stderr } = await world.cli(words, { cwd })
    assert.equal(code, 0, stderr + stdout)
    const branch = execFileSync('git', ['branch', '--list', 'agentpod/*', '--format=%(refname:short)'], {
      cwd,
    })
    const name = branch.toString().trim()
    assert.equal(execFileSync('git', ['show', `${name}:result`], { cwd }).toString(), 'counting 41 false\n')
    // What the commands of the devcontainer made is ignored by git, and no part of the result.
    assert.equal(execFileSync('git', ['diff', '--name-only', 'HEAD', name], { cwd }).toString(), 'result\n')
  })
})
