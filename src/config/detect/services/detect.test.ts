import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { evidencePlace } from '../../testing/detector-table.ts'
import { memoryTree } from '../../testing/memory-tree.ts'
import { detectServices, detectVariables } from './detect.ts'

type Files = Readonly<Record<string, string>>
const found = (files: Files): string[] =>
  detectServices(memoryTree(files)).map(
    ({ name, version, evidence }) =>
      `${name}${version === undefined ? '' : ` ${version}`} ${evidencePlace(evidence)}`,
  )

const accounts = (files: Files): unknown[] =>
  detectServices(memoryTree(files)).flatMap(({ name, account }) =>
    account ? [[name, account.user, account.password, account.database, account.rootPassword]] : [],
  )

describe('what a project logs in to its services with', () => {
  const rows: readonly (readonly [what: string, files: Files, accounts: readonly unknown[]])[] = [
    [
      'compose: tables, lists, defaults and values of an example',
      {
        'compose.yaml': `services:
  a: { image: postgres, environment: { POSTGRES_USER: shop, POSTGRES_PASSWORD: "\${PW:-s3cret}", POSTGRES_DB: "\${DB}" } }
  b: { image: "mysql:8", environment: ["MYSQL_ROOT_PASSWORD=root", "MYSQL_DATABASE=shop"] }
  c: { image: redis, command: redis-server --requirepass hunter2 }
  d: { image: "valkey/valkey:8", command: [valkey-server, --requirepass, "$PW"] }
  e: { image: rabbitmq, environment: { RABBITMQ_DEFAULT_USER: shop, RABBITMQ_DEFAULT_PASS: pw, RABBITMQ_DEFAULT_VHOST: orders } }
`,
        '.env.example': 'DB=shop_dev\nPW=\n',
      },
      [
        ['postgres', 'shop', 's3cret', 'shop_dev', undefined],
        ['mysql', undefined, undefined, 'shop', 'root'],
        ['redis', undefined, 'hunter2', undefined, undefined],
        ['rabbitmq', 'shop', 'pw', 'orders', undefined],
      ],
    ],
    [
      'CI',
      {
        '.github/workflows/ci.yml': `jobs:\n  test:\n    services:\n      db:\n        image: postgres:15\n        env: { POSTGRES_USER: ci, POSTGRES_PASSWORD: "\${{ secrets.PW }}" }\n`,
        '.gitlab-ci.yml':
          'variables: { POSTGRES_DB: all }\ntest:\n  services: ["postgres:15"]\n  variables: { POSTGRES_USER: one }\n',
      },
      [
        ['postgres', 'ci', undefined, undefined, undefined],
        ['postgres', 'one', undefined, 'all', undefined],
      ],
    ],
    [
      'what would mean something in a script, in SQL or in an address is not taken',
      {
        'compose.yaml': `services:
  a: { image: postgres, environment: { POSTGRES_USER: "a b", POSTGRES_PASSWORD: "a'b", POSTGRES_DB: 'a"b' } }
  b: { image: redis, command: "redis-server --requirepass $(x)" }
`,
      },
      [],
    ],
  ]
  for (const [what, files, expected] of rows) test(what, () => assert.deepEqual(accounts(files), expected))
})

const ROWS: readonly (readonly [what: string, files: Files, services: readonly string[]])[] = [
  ['a project without any', { 'package.json': '{"dependencies":{"better-sqlite3":"1","express":"4"}}' }, []],
  [
    'a compose file',
    {
      'compose.yaml':
        'services:\n  db:\n    image: postgres:16-alpine\n  cache:\n    image: valkey/valkey:8\n  app:\n    build: .\n  web:\n    image: nginx\n',
    },
    ['postgres 16 compose.yaml:3', 'valkey 8 compose.yaml:5'],
  ],
  [
    'compose files of all kinds',
    {
      'docker-compose.yml': 'services:\n  a: { image: "mysql:5.7" }\n  b: { image: bitnami/mongodb:7.0 }\n',
      'docker-compose.test.yml': 'services:\n  c: { image: rabbitmq:3-management }\n',
      '.devcontainer/docker-compose.yml': `services:\n  d: { image: "\${IMAGE:-redis:7.2}" }\n`,
      'examples/compose.yml': 'services:\n  e: { image: mariadb }\n',
    },
    [
      'rabbitmq 3 docker-compose.test.yml:2',
      'mysql 5.7 docker-compose.yml:2',
      'mongodb 7 docker-compose.yml:3',
      'redis 7 .devcontainer/docker-compose.yml:2',
    ],
  ],
  [
    'images whose tags have the version elsewhere',
    {
      'compose.yml':
        'services:\n  a: { image: "pgvector/pgvector:0.8.0-pg17" }\n  b: { image: "timescale/timescaledb:latest-pg16" }\n  c: { image: "postgis/postgis:16-3.4" }\n  d: { image: "postgres:9.6" }\n  e: { image: "docker.example.com/elasticsearch/elasticsearch:8.11.0" }\n  f: { image: minio/minio }\n',
    },
    [
      'postgres 17 compose.yml:2',
      'postgres 16 compose.yml:3',
      'postgres 16 compose.yml:4',
      'postgres 9.6 compose.yml:5',
      'elasticsearch 8 compose.yml:6',
      'minio compose.yml:7',
    ],
  ],
  [
    'services of a workflow',
    {
      '.github/workflows/ci.yml':
        'jobs:\n  test:\n    services:\n      postgres:\n        image: postgres:15\n      cache:\n        image: memcached\n',
    },
    ['postgres 15 .github/workflows/ci.yml:5', 'memcached .github/workflows/ci.yml:7'],
  ],
  [
    'services of GitLab’s',
    { '.gitlab-ci.yml': 'services:\n  - redis:7\ntest:\n  services:\n    - name: postgres:14\n' },
    ['redis 7 .gitlab-ci.yml:2', 'postgres 14 .gitlab-ci.yml:5'],
  ],
  [
    'examples of variables',
    {
      '.env.example':
        'DATABASE_URL="postgresql+asyncpg://u:p@localhost:5432/x"\nexport REDIS_URL=redis://cache:6379 # x\nAMQP_URL=amqp://localhost\nFILE_URL=sqlite:///x.db\nDB_CONNECTION=mysql\nAPI=https://example.com\n',
      '.env': 'MONGO_URL=mongodb://localhost\n',
    },
    ['postgres .env.example:1', 'redis .env.example:2', 'rabbitmq .env.example:3', 'mysql .env.example:5'],
  ],
  [
    'Prisma’s schema',
    {
      'prisma/schema.prisma':
        'generator client {\n  provider = "prisma-client-js"\n}\ndatasource db {\n  provider = "postgresql"\n}\n',
      'b/schema.prisma': 'datasource db {\n  provider = "sqlite"\n}\n',
    },
    ['postgres prisma/schema.prisma:5'],
  ],
  [
    'Rails’ database.yml',
    { 'config/database.yml': 'default: &default\n  adapter: postgresql\ntest:\n  <<: *default\n' },
    ['postgres config/database.yml:2'],
  ],
  ['Rails with SQLite', { 'config/database.yml': 'default:\n  adapter: sqlite3\n' }, []],
  [
    'Django’s settings',
    {
      'shop/settings.py':
        "DATABASES = {'default': {\n  'ENGINE': 'django.db.backends.postgresql',\n}}\nCELERY = 'redis://localhost'\n",
    },
    ['postgres shop/settings.py:2', 'redis shop/settings.py:4'],
  ],
  [
    'Alembic’s settings',
    { 'alembic.ini': '[alembic]\nsqlalchemy.url = mysql+pymysql://a/b\n' },
    ['mysql alembic.ini:2'],
  ],
  [
    'drivers of Node',
    {
      'package.json':
        '{\n"dependencies": {\n"pg": "8",\n"ioredis": "5",\n"mysql2": "3",\n"mongoose": "8",\n"amqplib": "1",\n"kafkajs": "2"\n}}',
      'examples/x/package.json': '{"dependencies":{"memcached":"1"}}',
    },
    [
      'postgres package.json:3',
      'redis package.json:4',
      'mysql package.json:5',
      'mongodb package.json:6',
      'rabbitmq package.json:7',
      'kafka package.json:8',
    ],
  ],
  [
    'drivers of Python',
    {
      'requirements.txt':
        'psycopg2-binary\ncelery[redis]>=5\nPyMySQL\npymongo\npika\nSQLAlchemy[postgresql]\n',
    },
    [
      'postgres requirements.txt:1',
      'redis requirements.txt:2',
      'mysql requirements.txt:3',
      'mongodb requirements.txt:4',
      'rabbitmq requirements.txt:5',
      'postgres requirements.txt:6',
    ],
  ],
  [
    'drivers of Python in a manifest',
    {
      'pyproject.toml':
        '[project]\nname = "a"\ndependencies = [\n  "asyncpg",\n]\n[dependency-groups]\ndev = ["redis"]\n',
    },
    ['postgres pyproject.toml:4', 'redis pyproject.toml:7'],
  ],
  [
    'drivers of Go, but not those of others',
    {
      'go.mod':
        'module x\nrequire (\n\tgithub.com/jackc/pgx/v5 v5.5.0\n\tgithub.com/redis/go-redis/v9 v9.0.0 // indirect\n)\n',
    },
    ['postgres go.mod:3'],
  ],
  [
    'drivers of Rust',
    {
      'Cargo.toml':
        '[dependencies]\nsqlx = { version = "0.8", features = ["postgres", "runtime-tokio"] }\nredis = "0.25"\ndiesel = { version = "2", features = ["sqlite"] }\n[dev-dependencies]\nmongodb = "3"\n',
    },
    ['postgres Cargo.toml:2', 'redis Cargo.toml:3', 'mongodb Cargo.toml:6'],
  ],
  [
    'drivers of Ruby',
    { Gemfile: "gem 'pg', '~> 1.5'\ngem \"sidekiq\"\ngem 'sqlite3'\n" },
    ['postgres Gemfile:1', 'redis Gemfile:2'],
  ],
  [
    'drivers of Java',
    {
      'pom.xml':
        '<project>\n<artifactId>postgresql</artifactId>\n<artifactId>jedis</artifactId>\n</project>\n',
      'b/build.gradle': "implementation 'org.postgresql:postgresql:42'\n",
    },
    ['postgres pom.xml:2', 'redis pom.xml:3', 'postgres b/build.gradle:1'],
  ],
  [
    'drivers of PHP',
    { 'composer.json': '{"require":{\n"ext-pdo_pgsql":"*",\n"predis/predis":"^2"}}' },
    ['postgres composer.json:2', 'redis composer.json:3'],
  ],
  ['drivers of Elixir', { 'mix.exs': '{:postgrex, ">= 0.0.0"},\n' }, ['postgres mix.exs:1']],
  [
    'drivers of .NET',
    { 'X.csproj': '<PackageReference Include="Npgsql.EntityFrameworkCore.PostgreSQL" />\n' },
    ['postgres X.csproj:1'],
  ],
]

describe('services are seen in', () => {
  for (const [what, files, services] of ROWS)
    test(what, () => assert.deepEqual(found(files).toSorted(), services.toSorted()))

  test('what is started beside the project before what it could talk to', () => {
    assert.deepEqual(
      found({
        'package.json': '{"dependencies":{"pg":"8"}}',
        'compose.yml': 'services:\n  db: { image: "postgres:16" }\n',
      }),
      ['postgres 16 compose.yml:2', 'postgres package.json:1'],
    )
  })
})

describe('variables', () => {
  const variables = (files: Files): string[] =>
    detectVariables(memoryTree(files)).map(
      ({ name, value, evidence }) => `${name}=${value} ${evidencePlace(evidence)}`,
    )

  test('variables are URLs on this machine, or of a service in a compose file', () => {
    const example = [
      'DATABASE_URL=postgres://u:p@localhost:5432/shop?sslmode=disable',
      'CACHE_URL="redis://cache:6379/0"',
      'QUEUE_URL=amqp://mq.example.com',
      `OTHER_URL=postgres://\${USER}@localhost/x`,
      'SECRET=abc',
      'API_URL=http://localhost:3000',
      'lower_url=redis://localhost',
    ]
    assert.deepEqual(
      variables({
        '.env.example': example.join('\r\n'),
        'compose.yml': 'services:\n  cache: { image: redis }\n',
        'sub/.env.sample': 'DATABASE_URL=mysql://localhost/x\n',
      }),
      [
        'DATABASE_URL=postgres://u:p@localhost:5432/shop?sslmode=disable .env.example:1',
        'CACHE_URL=redis://cache:6379/0 .env.example:2',
      ],
    )
  })

  test('variables never come from the project’s real .env file', () => {
    assert.deepEqual(
      variables({
        '.env': 'DATABASE_URL=postgres://localhost/x\n',
        '.env.local': 'A_URL=redis://localhost\n',
      }),
      [],
    )
  })
})
