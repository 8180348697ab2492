/** The compose file that `agentpod config compose` writes, started by a real Docker daemon. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { debianImages, NO_DEBIAN } from '../support/debian-images.ts'
import { dockerCompose } from '../support/docker-compose.ts'
import { DockerDaemon, NO_DOCKER } from '../support/docker-daemon.ts'
import type { MadeImage } from '../support/made-image.ts'
import { World } from '../support/world.ts'

const found = dockerCompose()
const skip = NO_DEBIAN || NO_DOCKER || ('missing' in found ? found.missing : false)
const program = 'program' in found ? found.program : ''
const UP_MS = 300_000

const TOML = `[environment]
base = "debian"
[environment.languages]
python = "3.11"
[environment.variables]
DATABASE_URL = "postgres://user@localhost:5432/user"
REDIS_URL = "redis://localhost:6379"
PRICE = "$5"
[services]
postgres = { version = "15" }
redis = { version = "7.0" }
[lifecycle]
dev = "python3 -m http.server 8000"
test = "python3 -m unittest"
[ports]
8000 = { label = "web" }
`

/** With the clients of the servers' own packages. */
const TESTS = `import os
import subprocess
import unittest
import urllib.request


def said(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


class Shop(unittest.TestCase):
    def test_the_database_answers(self):
        url = os.environ["DATABASE_URL"]
        self.assertIn("@postgres:5432/", url)
        self.assertEqual(said("psql", "-At", url, "-c", "SELECT 6 * 7"), "42")

    def test_the_cache_answers(self):
        url = os.environ["REDIS_URL"]
        self.assertIn("//redis:6379", url)
        self.assertEqual(said("redis-cli", "-u", url, "INCR", "visits"), "1")

    def test_the_server_of_the_project_runs(self):
        self.assertEqual(urllib.request.urlopen("http://localhost:8000/page").read(), b"page")
        self.assertEqual(os.environ["PRICE"], "$5")
`

describe('a compose file for Docker', { skip, timeout: 30 * 60_000 }, () => {
  const world = new World()
  const project = join(world.home, 'shop')
  let daemon: DockerDaemon

  before(async () => {
    daemon = await DockerDaemon.start()
    mkdirSync(project)
    writeFileSync(join(project, 'agentpod.toml'), TOML)
    writeFileSync(join(project, 'test_shop.py'), TESTS)
    writeFileSync(join(project, 'page'), 'page')
  })
  after(async () => {
    await daemon?.[Symbol.asyncDispose]()
    await world[Symbol.asyncDispose]()
  })

  function compose(...words: string[]): string {
    return execFileSync(program, words, {
      cwd: project,
      env: daemon.env,
      encoding: 'utf8',
      timeout: UP_MS,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
  }

  test('CMP-22 Docker brings the written file up, and the tests of the project pass there', async () => {
    const written = await world.ok(['config', 'compose'], { cwd: project })
    writeFileSync(join(project, 'compose.yaml'), written)
    const images = debianImages()
    const named = [...written.matchAll(/^ +image: (\S+)$/gm)].map(([, name = '']) => name)
    for (const name of named) load(daemon, image(images, name), name)
    assert.equal(named.length, 3, written)
    try {
      compose('up', '--detach', '--wait')
      const { stdout, stderr } = tests()
      assert.match(stdout + stderr, /Ran 3 tests[\s\S]*^OK$/m)
    } finally {
      compose('down', '--volumes', '--timeout', '1')
    }
  })

  function tests(): { stdout: string; stderr: string } {
    const said = compose('exec', '-T', 'app', 'sh', '-c', 'python3 -m unittest 2>&1')
    return { stdout: said, stderr: '' }
  }
})

function image(images: ReturnType<typeof debianImages>, name: string): MadeImage {
  if (name.startsWith('postgres:')) return images.postgres
  return name.startsWith('redis:') ? images.redis : images.python
}

/** In the form that every version of the daemon loads. */
function load(daemon: DockerDaemon, { blobs }: MadeImage, name: string): void {
  const directory = mkdtempSync(join(tmpdir(), 'agentpod-load-'))
  try {
    const [config, ...layers] = blobs
    writeFileSync(join(directory, 'config.json'), config?.data ?? '')
    const files = layers.map(({ data }, at) => {
      writeFileSync(join(directory, `${at}.tar`), data)
      return `${at}.tar`
    })
    const manifest = [{ Config: 'config.json', RepoTags: [name], Layers: files }]
    writeFileSync(join(directory, 'manifest.json'), JSON.stringify(manifest))
    execFileSync('tar', ['-cf', 'image.tar', 'manifest.json', 'config.json', ...files], { cwd: directory })
    daemon.docker('load', '--quiet', '--input', join(directory, 'image.tar'))
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}
