/**
 * What people want a Docker engine inside for, at each level that has one: Docker's own compose command
 * brings a web service and PostgreSQL up, and tests use Testcontainers. The images are made inside, of the
 * files of Debian's packages: no registry is needed.
 */
import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { forwardPort } from '../../src/cli/sandbox/forward-port.ts'
import { dockerCompose } from '../support/docker-compose.ts'
import {
  ENGINE_LEVELS,
  type EngineLevel,
  engineOptions,
  homeWithEngine,
  SLOW,
} from '../support/docker-inside.ts'
import { testcontainers } from '../support/testcontainers.ts'
import { World } from '../support/world.ts'

const compose = dockerCompose()
const library = testcontainers()
const missing = 'missing' in compose ? compose.missing : 'missing' in library ? library.missing : false

/** Large files that no image needs: an emulated machine copies slowly. */
const LEFT_OUT = [
  ...['usr/sbin/dockerd', 'usr/bin/docker*', 'usr/bin/containerd*', 'usr/bin/ctr', 'usr/sbin/runc'],
  ...['usr/bin/perl*', 'usr/share/perl*', 'usr/lib/*/perl*', 'run/*', 'tmp/*'],
  ...['usr/lib/postgresql/*/lib/bitcode', 'usr/lib/*/gconv', 'usr/bin/dnet', 'usr/bin/ovrouter'],
].map((pattern) => `--exclude='${pattern}'`)
// Docker gives a directory that an archive leaves out a mode that only root can use.
const FILES =
  '--no-recursion var var/lib --recursion bin etc lib lib64 run sbin tmp usr var/lib/postgresql var/run'
const PATH = 'ENV PATH=/usr/lib/postgresql/15/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin'
const POSTGRES = 'FROM python:3\\nEXPOSE 5432\\nENTRYPOINT ["docker-entrypoint.sh"]\\nCMD ["postgres"]\\n'
const IMAGES = `set -e
tar -C / --anchored ${LEFT_OUT.join(' ')} -c ${FILES} | docker import -c '${PATH}' - python:3
mkdir /root/postgres && printf '${POSTGRES}' > /root/postgres/Dockerfile
docker build -q -t postgres:15 /root/postgres`

const COMPOSE = `services:
  web:
    image: python:3
    command: python3 /app/web.py
    volumes: [".:/app:ro"]
    ports: ["8000:8000"]
    depends_on: { db: { condition: service_healthy } }
    healthcheck: { test: python3 /app/check.py, interval: 10s, timeout: 120s, retries: 60 }
  db:
    image: postgres:15
    environment: { POSTGRES_USER: shop, POSTGRES_PASSWORD: secret, POSTGRES_DB: shop }
    volumes: ["data:/var/lib/postgresql/data", "./schema.sql:/docker-entrypoint-initdb.d/1.sql:ro"]
    healthcheck: { test: pg_isready -h 127.0.0.1 -U shop -d shop, interval: 5s, timeout: 120s, retries: 60 }
volumes: { data: }
`

const SCHEMA = `CREATE TABLE products (name text, price int);
INSERT INTO products VALUES ('pen', 2), ('book', 9);
`

/** One connection for each request, as a simple program has it. */
const WEB = `import http.server
import psycopg2


class Shop(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        db = psycopg2.connect(user="shop", password="secret", host="db", dbname="shop")
        cursor = db.cursor()
        cursor.execute("SELECT sum(price), split_part(version(), '.', 1) FROM products")
        total, version = cursor.fetchone()
        db.close()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{version}: {total}\\n".encode())


http.server.ThreadingHTTPServer(("", 8000), Shop).serve_forever()
`

const CHECK = `import urllib.request

urllib.request.urlopen("http://127.0.0.1:8000/")
`

const TESTS = `import unittest
import urllib.request

import psycopg2
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import HttpWaitStrategy
from testcontainers.postgres import PostgresContainer


class Shop(unittest.TestCase):
    def test_the_database_has_the_products(self):
        with PostgresContainer("postgres:15", driver=None) as postgres:
            connection = psycopg2.connect(
                user=postgres.username,
                password=postgres.password,
                dbname=postgres.dbname,
                host=postgres.get_container_host_ip(),
                port=int(postgres.get_exposed_port(5432)),
            )
            cursor = connection.cursor()
            cursor.execute("CREATE TABLE products (price int)")
            cursor.execute("INSERT INTO products VALUES (2), (9)")
            cursor.execute("SELECT sum(price), version() FROM products")
            total, version = cursor.fetchone()
            self.assertEqual(total, 11)
            print("database:", version)

    def test_a_server_answers_on_its_port(self):
        server = DockerContainer("python:3").with_exposed_ports(8000).with_command("python3 -m http.server 8000")
        with server.waiting_for(HttpWaitStrategy(8000).for_status_code(200).with_startup_timeout(120)):
            url = f"http://{server.get_container_host_ip()}:{server.get_exposed_port(8000)}/etc/hostname"
            self.assertIn(urllib.request.urlopen(url).read().decode().strip(), server.get_wrapped_container().id)


if __name__ == "__main__":
    unittest.main()
`

for (const level of ENGINE_LEVELS)
  describe(
    `projects that need Docker, at the level ${level.isolation}`,
    {
      skip: level.skip || missing,
      timeout: 30 * 60_000,
    },
    () => testProjects(level),
  )

function testProjects(level: EngineLevel): void {
  let world: World
  const exec = (script: string, ...options: string[]): Promise<string> =>
    world.ok(['exec', ...options, 'box', '--', 'sh', '-c', script], SLOW)

  before(async () => {
    const { home, image } = await homeWithEngine(level)
    world = new World({ home })
    await world.ok(['create', '--name', 'box', ...engineOptions(level, image)], SLOW)
    const project = join(world.directory(), 'shop')
    mkdirSync(project)
    const files = { 'compose.yaml': COMPOSE, 'schema.sql': SCHEMA, 'web.py': WEB, 'check.py': CHECK }
    for (const [name, text] of Object.entries({ ...files, 'test_shop.py': TESTS }))
      writeFileSync(join(project, name), text)
    await world.ok(['cp', project, 'box:/home/user/shop'], SLOW)
    if ('program' in compose) {
      await exec('mkdir -p ~/.docker/cli-plugins')
      await world.ok(['cp', compose.program, 'box:/home/user/.docker/cli-plugins/docker-compose'], SLOW)
    }
    if ('directory' in library) await world.ok(['cp', library.directory, 'box:/home/user/library'], SLOW)
    await exec(IMAGES, '--user', 'root')
  })
  after(async () => {
    await world?.[Symbol.asyncDispose]()
  })

  test('DOCKER-7 docker compose brings a web service and PostgreSQL up, and it answers outside the sandbox', async () => {
    await exec('cd ~/shop && docker compose up --detach --wait')
    const pod = world.client()
    try {
      using forwarded = await forwardPort(await pod.get('box'), 8000, 0)
      for (let n = 0; n < 5; n++) {
        const answer = await fetch(`http://127.0.0.1:${forwarded.port}/`)
        assert.equal(await answer.text(), 'PostgreSQL 15: 11\n')
      }
    } finally {
      pod.close()
    }
    assert.equal(await exec("docker ps --format '{{.Names}}' | sort"), 'shop-db-1\nshop-web-1\n')
    await exec('cd ~/shop && docker compose down --volumes --timeout 5')
    assert.equal(await exec('docker ps --all --quiet; docker volume ls --quiet'), '')
  })

  test('DOCKER-7 tests that use Testcontainers pass inside the sandbox', async () => {
    // The image of its reaper is in a registry.
    const variables = 'TESTCONTAINERS_RYUK_DISABLED=true PYTHONPATH=$HOME/library'
    const script = `cd ~/shop && ${variables} python3 -m unittest 2>&1`
    const { stdout } = await world.cli(['exec', 'box', '--', 'sh', '-c', script], SLOW)
    assert.match(stdout, /Ran 2 tests[\s\S]*^OK$/m)
    assert.match(stdout, /^database: PostgreSQL 15\./m)
    assert.equal(await exec('docker ps --all --quiet'), '', 'its containers are gone')
  })
}
