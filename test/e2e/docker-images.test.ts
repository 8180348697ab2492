/** What is pushed runs in Docker, from a registry that Docker pulls from. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { promisify } from 'node:util'
import { DockerDaemon, NO_DOCKER } from '../support/docker-daemon.ts'
import { makeImage } from '../support/made-image.ts'
import { busyboxFiles, NO_BUSYBOX } from '../support/tiny-images.ts'
import { ToyRegistry } from '../support/toy-registry.ts'
import { World } from '../support/world.ts'

describe('images for Docker', { skip: NO_DOCKER || NO_BUSYBOX }, () => {
  test('IMG-8 Docker pulls and runs what was pushed, with its user, variables and files', async () => {
    await using world = new World()
    await using registry = await ToyRegistry.start()
    await using daemon = await DockerDaemon.start()
    writeFileSync(join(world.home, 'config.toml'), `[registries."${registry.host}"]\ninsecure = true\n`)
    const ref = registry.put(
      'team/base',
      '1',
      makeImage({
        layers: [
          busyboxFiles(),
          [
            { name: 'gone', content: 'x' },
            { name: 'kept', content: 'kept\n' },
          ],
        ],
        config: { Env: ['PATH=/bin', 'MODE=test'], User: '4242:7', WorkingDir: '/srv/app' },
      }),
    )
    await world.ok(['create', '--name', 'box', '--image', ref])
    await world.ok([
      'exec',
      '--user',
      'root',
      'box',
      '--',
      'sh',
      '-c',
      'rm /gone; echo made > /made; mkdir /made.d',
    ])
    const target = `${registry.host}/team/out:1`
    const pushed = (await world.ok(['image', 'push', 'box', target])).trim()
    // The registry is in this process, so docker must not block it.
    const docker = async (...args: string[]): Promise<string> =>
      (await promisify(execFile)('docker', args, { env: daemon.env })).stdout
    await docker('pull', target)
    const look = 'cat /made /kept; [ -e /gone ] || echo gone; echo $MODE; id -u; id -g; pwd; ls -d /made.d'
    const seen = await docker('run', '--rm', '--network=none', target, 'sh', '-c', look)
    assert.equal(seen, 'made\nkept\ngone\ntest\n4242\n7\n/srv/app\n/made.d\n')
    const digests = await docker('image', 'inspect', '--format', '{{index .RepoDigests 0}}', target)
    assert.equal(digests.trim().split('@')[1], pushed.split('@')[1])
  })
})
