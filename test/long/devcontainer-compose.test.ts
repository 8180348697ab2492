/** Devcontainers whose container is a service of compose files: the other services run beside it. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { putFeature } from '../support/made-feature.ts'
import { makeImage } from '../support/made-image.ts'
import { busyboxFiles, NO_BUSYBOX } from '../support/tiny-images.ts'
import { ToyRegistry } from '../support/toy-registry.ts'
import { type CliResult, until, World } from '../support/world.ts'

const FILE = '.devcontainer/devcontainer.json'

describe('a devcontainer of the compose kind', { skip: NO_BUSYBOX }, () => {
  const world = new World()
  const pod = world.client()
  let registry: ToyRegistry
  let image = ''
  let config: Record<string, unknown> = {}
  let cwd = ''

  before(async () => {
    registry = await ToyRegistry.start()
    writeFileSync(
      join(world.home, 'config.toml'),
      `[registries."${registry.host}"]\ninsecure = true\n[grants]\nimages = true\ndockerfiles = true\ndevcontainers = true\n`,
    )
    const label = JSON.stringify([{ remoteUser: 'dev', postStartCommand: 'echo label >> ~/log' }])
    image = registry.put(
      'base',
      '1',
      makeImage({
        layers: [
          [
            ...busyboxFiles(),
            {
              name: 'etc/passwd',
              content: 'root:x:0:0::/root:/bin/sh\ndev:x:1000:1000::/home/dev:/bin/sh\n',
            },
            { name: 'etc/group', content: 'root:x:0:\ndev:x:1000:\n' },
          ],
        ],
        config: { Env: ['PATH=/bin'], Cmd: ['sh'], Labels: { 'devcontainer.metadata': label } },
      }),
    )
    putFeature(registry, 'features', { id: 'tool', script: 'echo installed > /tool\n' })
    cwd = repository({
      '.devcontainer/Dockerfile': `FROM ${image}\nRUN echo built > /built\n`,
      '.devcontainer/compose.yml': `services:
  app:
    build: { context: .., dockerfile: .devcontainer/Dockerfile }
    command: sh -c 'id -un > /tmp/command; pwd >> /tmp/command; exec sleep 1000'
    working_dir: /etc
    volumes: ["../..:/workspaces:cached"]
    environment: { DB: "http://db:8000", MODE: compose }
    depends_on: [db]
  db:
    image: ${image}
    command: sh -c 'mkdir /www; echo from-db > /www/index.html; exec httpd -f -p 8000 -h /www'
  extra: { image: ${image}, command: sleep 1000 }
  tool: { image: ${image}, command: sleep 1000, profiles: [tools] }
`,
      file: 'content\n',
    })
    config = {
      dockerComposeFile: ['compose.yml'],
      service: 'app',
      runServices: ['app', 'tool'],
      workspaceFolder: `/workspaces/\${localWorkspaceFolderBasename}`,
      features: { [`${registry.host}/features/tool:1`]: {} },
      remoteEnv: { MODE: 'remote' },
      postCreateCommand: 'wget -qO- $DB/index.html > ~/created',
      shutdownAction: 'stopCompose',
    }
    write(config)
  })
  after(async () => {
    pod.close()
    await registry?.[Symbol.asyncDispose]()
    await world[Symbol.asyncDispose]()
  })

  function repository(files: Readonly<Record<string, string>>): string {
    const directory = world.directory()
    for (const [path, content] of Object.entries(files)) {
      mkdirSync(dirname(join(directory, path)), { recursive: true })
      writeFileSync(join(directory, path), content)
    }
    execFileSync('git', ['init', '-q'], { cwd: directory })
    return directory
  }
  function write(devcontainer: object): void {
    writeFileSync(join(cwd, FILE), JSON.stringify(devcontainer, null, 2))
  }
  const run = (...words: string[]): Promise<CliResult> => world.cli(words, { cwd, timeoutMs: 120_000 })
  const nothingIsLeft = (): Promise<void> =>
    until('nothing is left', async () => (await pod.groups.list()).length + (await pod.list()).length === 0)

  test('DC-40 its service is the sandbox, with Features, users and commands, and others run beside it', async () => {
    const script = 'id -un; pwd; echo $MODE; cat file /built /tool ~/created ~/log /tmp/command'
    const { code, stdout, stderr } = await run('run', '--keep', '--name', 'kept', '--', 'sh', '-c', script)
    assert.equal(code, 0, stderr)
    const name = cwd.split('/').at(-1)
    assert.equal(
      stdout,
      `dev\n/workspaces/${name}\nremote\ncontent\nbuilt\ninstalled\nfrom-db\nlabel\nroot\n/etc\n`,
    )
    assert.match(stderr, /devcontainer\.json:6: runServices leaves out extra/)
    const [group] = await pod.groups.list()
    assert.deepEqual(group?.members.map((one) => [one.name, one.main]).sort(), [
      ['app', true],
      ['db', false],
      ['tool', false],
    ])
    await world.ok(['destroy', 'kept'])
    await nothingIsLeft()
  })

  test('DC-40 config explain names the places, and read --merged has the label of the service’s image', async () => {
    const { stdout, stderr } = await run('config', 'explain')
    assert.match(stdout, /^base +image .*\.devcontainer\/compose\.yml:2 services\.app\.build/m, stderr)
    assert.match(stdout, /^service +app +\.devcontainer\/devcontainer\.json:5/m)
    assert.match(stdout, /^compose\.db +a sandbox named db in its group +\.devcontainer\/compose\.yml:9 /m)
    assert.doesNotMatch(stdout, /^compose\.extra/m)
    assert.match(stdout, /^shutdownAction +not used: /m)
    const read = await run('devcontainer', 'read', '--merged', '--json')
    const { mergedConfiguration } = JSON.parse(read.stdout) as {
      mergedConfiguration: { remoteUser?: string }
    }
    assert.equal(mergedConfiguration.remoteUser, 'dev', read.stderr)
  })

  test('DC-41 overrideCommand starts no command, and --no-compose no other service', async () => {
    write({ ...config, overrideCommand: true, features: {}, postCreateCommand: 'true' })
    const { stdout, stderr } = await run('run', '--no-compose', '--', 'sh', '-c', 'ls /tmp/command; cat file')
    assert.equal(stdout, 'content\n', stderr)
    assert.match(stderr, /\/tmp\/command/)
    await nothingIsLeft()
  })

  test('DC-43 init --from writes a valid file from devcontainer.json and from a compose file', async () => {
    write(config)
    const project = world.directory()
    const text = `services:\n  web: { image: "${image}", volumes: [".:/app"], ports: ["18081:8081"], environment: { MODE: made } }\n  odd: { image: "${image}" }\n`
    writeFileSync(join(project, 'compose.yaml'), text)
    for (const [directory, file, kept] of [
      [cwd, FILE, 'services.db is not used'],
      [project, 'compose.yaml', 'services.odd is not used'],
    ] as const) {
      await world.ok(['init', '--from', file], { cwd: directory })
      await world.ok(['config', 'check'], { cwd: directory })
      const made = readFileSync(join(directory, 'agentpod.toml'), 'utf8')
      assert.match(made, /^(?:image|dockerfile) = /m)
      assert.match(made, /^MODE = /m)
      assert.ok(made.includes(kept), made)
      const explained = await world.cli(['config', 'explain', '--no-devcontainer'], { cwd: directory })
      assert.match(explained.stdout, /^base +image .*agentpod\.toml:\d+/m, explained.stderr)
      rmSync(join(directory, 'agentpod.toml'))
    }
    const broken = world.directory()
    writeFileSync(join(broken, 'compose.yaml'), 'services:\n  db: { privileged: true, image: x }\n')
    const refused = await world.cli(['init', '--from', 'compose.yaml'], { cwd: broken })
    assert.match(refused.stderr, /compose\.yaml:2:\d+: services\.db\.privileged/)
    assert.equal(existsSync(join(broken, 'agentpod.toml')), false)
  })

  test('DC-42 an unknown service, a missing file and a mistake in a file are one error with file and line', async () => {
    const refusal = async (changes: object): Promise<string> => {
      write({ ...config, ...changes })
      const { code, stderr } = await run('run', '--', 'true')
      assert.notEqual(code, 0)
      return stderr
    }
    const place = String.raw`\.devcontainer/devcontainer\.json`
    assert.match(
      await refusal({ service: 'ap' }),
      new RegExp(`${place}:5: service: \\S+ has no service "ap"\\n.*did you mean app`),
    )
    assert.match(
      await refusal({ runServices: ['app', 'none'] }),
      new RegExp(`${place}:8: runServices: .*"none"`),
    )
    assert.match(
      await refusal({ dockerComposeFile: ['compose.yml', 'more.yml'] }),
      new RegExp(`${place}:4: dockerComposeFile "more\\.yml": the project has no file`),
    )
    assert.match(await refusal({ dockerComposeFile: '../../x.yml' }), /:2: .*outside the project/)
    writeFileSync(join(cwd, '.devcontainer/bad.yml'), 'services:\n  db: { privileged: true }\n')
    assert.match(
      await refusal({ dockerComposeFile: ['compose.yml', 'bad.yml'] }),
      /\.devcontainer\/bad\.yml:2:\d+: services\.db\.privileged/,
    )
    await nothingIsLeft()
  })
})
