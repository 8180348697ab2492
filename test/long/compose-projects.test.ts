/**
 * A project with PostgreSQL and Redis from its compose file, from nothing to passing tests: with a compose
 * file alone, and with a devcontainer on it. The images are made from Debian's packages. A real agent then
 * works on both, with a scripted model, and runs the tests against the database of its group.
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { GitProject } from '../../src/sync/testing/git-project.ts'
import { bodiesOf, saidIn, worked } from '../support/acp-user.ts'
import { payingWith, User, withoutPackages } from '../support/agent-runs.ts'
import { AgentStage } from '../support/agent-stage.ts'
import { newToken } from '../support/canary.ts'
import { debianImages, NO_DEBIAN } from '../support/debian-images.ts'
import { noInternet } from '../support/internet.ts'
import { makeOrdinaryUser, noOrdinaryUser } from '../support/ordinary-user.ts'
import { ToyRegistry } from '../support/toy-registry.ts'
import { until, World } from '../support/world.ts'

const AGENT = 'claude'
const KEY = newToken()
const LONG_MS = 600_000
const RUN_MS = 240_000
/** Toolchains in the home directory are part of the base, so it is the same in every call. */
const HOME = { HOME: homedir() }
const skip = NO_DEBIAN || noInternet()

const compose = (host: string): string => `services:
  web:
    image: ${host}/shop/python:3
    working_dir: /app
    volumes: [".:/app"]
    ports: ["8000:8000"]
    command: python3 -m http.server 8000
    environment:
      DATABASE_URL: postgres://shop:\${DB_PASSWORD:-secret}@db:5432/shop
      REDIS_URL: redis://cache:6379/0
    depends_on:
      db: { condition: service_healthy }
      cache: { condition: service_started }
  db:
    image: ${host}/shop/postgres:15
    environment: &account
      POSTGRES_USER: shop
      POSTGRES_PASSWORD: \${DB_PASSWORD:-secret}
      POSTGRES_DB: shop
    volumes: ["data:/var/lib/postgresql/data", "./db/schema.sql:/docker-entrypoint-initdb.d/1.sql:ro"]
    healthcheck: { test: pg_isready -h 127.0.0.1 -U shop -d shop, interval: 1s, timeout: 5s, retries: 60 }
  cache: { image: "${host}/shop/redis:7" }
volumes: { data: }
`

const FILES: Readonly<Record<string, string>> = {
  'db/schema.sql':
    "CREATE TABLE products (name text, price int);\nINSERT INTO products VALUES ('pen', 2), ('book', 9);\n",
  'requirements.txt': 'pg8000==1.31.2\nredis==5.0.8\n',
  'sum.py': 'def sum_of(a, b):\n    return a + b\n',
  'test_shop.py': `import os
import unittest
from urllib.parse import urlparse

import pg8000.dbapi
import redis

from sum import sum_of


class Shop(unittest.TestCase):
    def test_the_database_has_the_products(self):
        url = urlparse(os.environ["DATABASE_URL"])
        self.assertEqual(url.hostname, "db")
        connection = pg8000.dbapi.connect(
            user=url.username, password=url.password, host=url.hostname, port=url.port, database=url.path[1:]
        )
        cursor = connection.cursor()
        cursor.execute("SELECT price FROM products ORDER BY price")
        pen, book = (row[0] for row in cursor.fetchall())
        self.assertEqual(sum_of(pen, book), 11)
        cursor.execute("SELECT version()")
        print("database:", cursor.fetchone()[0])

    def test_the_cache_counts(self):
        cache = redis.Redis.from_url(os.environ["REDIS_URL"])
        before = int(cache.get("visits") or 0)
        cache.incr("visits")
        self.assertEqual(int(cache.get("visits")), before + 1)
        print("cache:", cache.info("server")["redis_version"])


if __name__ == "__main__":
    unittest.main()
`,
}

const PASSED = [/^database: PostgreSQL 15\./m, /^cache: 7\./m]
const RAN = /Ran 2 tests[\s\S]*^OK$/m

describe('a project with PostgreSQL and Redis', { skip, timeout: 60 * 60_000 }, () => {
  let registry: ToyRegistry
  let stage: AgentStage
  let plain: GitProject
  let devcontainer: GitProject

  before(async () => {
    registry = await ToyRegistry.start()
    const images = debianImages()
    registry.put('shop/postgres', '15', images.postgres)
    registry.put('shop/redis', '7', images.redis)
    registry.put('shop/python', '3', images.python)
    stage = await AgentStage.open({ keys: [KEY] })
    writeFileSync(join(stage.home, 'config.toml'), `[registries."${registry.host}"]\ninsecure = true\n`)
    plain = project('shop', {})
    devcontainer = project('shop-dev', {
      '.devcontainer/devcontainer.json': JSON.stringify({
        dockerComposeFile: '../compose.yaml',
        service: 'web',
        workspaceFolder: '/app',
        updateContentCommand: 'pip install --break-system-packages -q -r requirements.txt',
      }),
    })
  })
  after(async () => {
    await stage?.[Symbol.asyncDispose]()
    await registry?.[Symbol.asyncDispose]()
  })

  function project(name: string, more: Readonly<Record<string, string>>): GitProject {
    const made = new GitProject(stage.directory(), process.env['PATH'] ?? '', name).init()
    for (const [path, text] of Object.entries({ ...FILES, 'compose.yaml': compose(registry.host), ...more }))
      made.write(path, text)
    made.commitAll('a shop')
    return made
  }

  async function passes({ root: cwd }: GitProject): Promise<void> {
    const run = (...words: string[]): ReturnType<AgentStage['outside']['cli']> =>
      stage.outside.cli(words, { cwd, timeoutMs: LONG_MS })
    const approved = await run('policy', 'approve')
    assert.equal(approved.code, 0, approved.stderr)
    assert.match(approved.stderr, /granted: the image \S+shop\/postgres:15/)
    // The first time everything is built and pulled; the second time nothing is.
    for (const words of [['test'], ['test'], ['run', '--', 'python3', '-m', 'unittest']]) {
      const { code, stdout, stderr } = await run(...words)
      assert.equal(code, 0, `${stdout}\n${stderr}`)
      for (const said of PASSED) assert.match(stdout, said)
      assert.match(stdout + stderr, RAN)
    }
    await nothingIsLeft()
  }

  async function nothingIsLeft(): Promise<void> {
    const pod = stage.outside.client()
    await until('nothing is left', async () => (await pod.groups.list()).length === 0, 30_000)
    assert.deepEqual(await pod.list(), [])
    pod.close()
  }

  test('CMP-20 a compose file alone leads to passing tests, which query both services by name', () =>
    passes(plain))

  test('CMP-20 a devcontainer on the same compose file does too', () => passes(devcontainer))

  test('CMP-20 and as an ordinary user', { skip: noOrdinaryUser() }, async () => {
    using user = makeOrdinaryUser()
    const home = join(user.home, 'state')
    const cwd = join(user.home, 'shop')
    mkdirSync(home, { mode: 0o700 })
    cpSync(plain.root, cwd, { recursive: true })
    execFileSync('chown', ['-R', `${user.uid}:${user.gid}`, home, cwd])
    await using world = new World({ home, as: user })
    writeFileSync(join(home, 'config.toml'), `[registries."${registry.host}"]\ninsecure = true\n`)
    await world.ok(['policy', 'approve'], { cwd })
    const { code, stdout, stderr } = await world.cli(['test'], { cwd, timeoutMs: LONG_MS })
    assert.equal(code, 0, `${stdout}\n${stderr}`)
    for (const said of PASSED) assert.match(stdout, said)
  })

  test('CMP-20 an agent repairs the project, and runs its tests against the database in its group', async (t) => {
    const missing = (await withoutPackages([AGENT])).get(AGENT)
    if (missing !== undefined) return t.skip(missing)
    const projects = [plain, devcontainer]
    for (const one of projects) {
      one.write('sum.py', 'def sum_of(a, b):\n    return a - b\n')
      one.commitAll('a mistake')
      const user = new User(stage.outside, one)
      await user.ok(['build', '--agent', AGENT], { timeoutMs: LONG_MS, env: HOME })
      // The copy is prepared while the registry of Python's packages can be reached.
      const failing = await user.cli(['run', '--', 'python3', '-m', 'unittest'], {
        timeoutMs: LONG_MS,
        env: HOME,
      })
      assert.match(failing.stdout + failing.stderr, /FAILED \(failures=1\)/)
    }
    const world = await stage.close()
    for (const one of projects) {
      const user = new User(world, one, payingWith(KEY))
      const words = ['run', '--agent', AGENT, '--time', '3m', '--json', '--', '[[fix]] fix the failing test']
      const done = worked(await user.cli(words, { timeoutMs: RUN_MS, env: HOME }))
      assert.deepEqual(
        [done.result.outcome, done.code],
        ['changed', 0],
        `${done.result.reason}\n${done.stderr}\n${saidIn(done.events)}`,
      )
      assert.deepEqual(user.changed(done.result.branch ?? ''), ['sum.py'])
      assert.match(saidIn(done.events), /I fixed sum\.py: it adds now, and the tests pass/)
      assert.ok(bodiesOf(done.events, 'command').some(({ command }) => command.includes('unittest')))
      assert.match(
        execFileSync('git', ['show', `${done.result.branch}:sum.py`], { cwd: one.root }).toString(),
        /a \+ b/,
      )
    }
  })
})
