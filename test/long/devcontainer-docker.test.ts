/** A devcontainer in a container of a Docker daemon. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { DockerDaemon, NO_DOCKER } from '../support/docker-daemon.ts'
import { packRoot } from '../support/docker-root.ts'
import { World } from '../support/world.ts'

const IMAGE = 'tests/small:1'
const FILES: Readonly<Record<string, string>> = {
  '.devcontainer/devcontainer.json': JSON.stringify({
    image: IMAGE,
    features: { './hello': { greeting: 'good day' } },
    remoteEnv: { MODE: 'remote' },
    onCreateCommand: 'echo created >> ~/log',
    updateContentCommand: 'echo updated >> ~/log',
    postCreateCommand: 'echo begun >> ~/log',
    customizations: { agentpod: { lifecycle: { test: 'hello; cat ~/log; echo $MODE; pwd' } } },
  }),
  '.devcontainer/hello/devcontainer-feature.json': JSON.stringify({
    id: 'hello',
    version: '1.0.0',
    name: 'hello',
    options: { greeting: { type: 'string', default: 'hi' } },
  }),
  '.devcontainer/hello/install.sh':
    '#!/bin/sh\nset -e\necho "echo $GREETING" > /usr/bin/hello\nchmod 755 /usr/bin/hello\n',
}

describe('a devcontainer on Docker', { skip: NO_DOCKER }, () => {
  let daemon: DockerDaemon
  let world: World

  before(async () => {
    daemon = await DockerDaemon.start()
    const file = join(daemon.directory, 'small.tar')
    packRoot(file)
    daemon.docker('import', file, IMAGE)
    const { DOCKER_HOST = '' } = daemon.env
    world = new World({ env: { DOCKER_HOST, AGENTPOD_PROVIDER: 'docker' } })
    writeFileSync(join(world.home, 'config.toml'), '[grants]\nimages = true\ndevcontainers = true\n')
  })
  after(async () => {
    try {
      await world?.[Symbol.asyncDispose]()
    } finally {
      await daemon?.[Symbol.asyncDispose]()
    }
  })

  test('DC-46 its Features, commands and variables are those of the container', async () => {
    const cwd = join(world.directory(), 'app')
    for (const [path, text] of Object.entries(FILES)) {
      mkdirSync(dirname(join(cwd, path)), { recursive: true })
      writeFileSync(join(cwd, path), text)
    }
    execFileSync('git', ['init', '-q'], { cwd })
    execFileSync('git', ['add', '-A'], { cwd })
    const expected = 'good day\ncreated\nupdated\nbegun\nremote\n/workspaces/app\n'
    const first = await world.cli(['test'], { cwd })
    assert.equal(first.stdout, expected, first.stderr)
    assert.match(first.stderr, /this provider does not show what the image tests\/small:1 sets/)
    assert.equal(await world.ok(['test'], { cwd }), expected)
    const script = 'hello; cat ~/log; echo $MODE; pwd'
    assert.equal(await world.ok(['run', '--', 'sh', '-c', script], { cwd }), expected)
  })
})
