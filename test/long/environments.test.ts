/**
 * More languages and package managers, each from nothing to passing its own tests, by detection alone; and a
 * monorepo with its services.
 */
import assert from 'node:assert/strict'
import { cpSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { after, describe, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { type CliResult, ROOT, World } from '../support/world.ts'

const PROJECTS_AT = join(ROOT, 'examples', 'environments')

const world = new World()
after(() => world[Symbol.asyncDispose]())

function fixture(name: string): string {
  const directory = join(world.directory(), name)
  cpSync(join(PROJECTS_AT, name), directory, { recursive: true })
  return directory
}

function written(files: Readonly<Record<string, string>>): string {
  const directory = world.directory()
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(directory, path)), { recursive: true })
    writeFileSync(join(directory, path), text)
  }
  return directory
}

async function passes(cwd: string, ...args: string[]): Promise<CliResult> {
  const result = await world.cli(args, { cwd, timeoutMs: 900_000 })
  assert.equal(result.code, 0, `${args.join(' ')}\n${result.stdout}\n${result.stderr}`)
  return result
}

const BUILT = /^\[\d+\/\d+\]/m

/** The tests pass, and a second time nothing is built for it. */
async function twice(directory: string, says: RegExp): Promise<void> {
  assert.match((await passes(directory, 'test')).stdout, says)
  const { stdout, stderr } = await passes(directory, 'test')
  assert.match(stdout, says)
  assert.doesNotMatch(stderr, BUILT)
}

const JS = {
  'math.js': "export { default as isNumber } from 'is-number'\n",
  'math.test.js':
    "import assert from 'node:assert/strict'\nimport test from 'node:test'\nimport { isNumber } from './math.js'\ntest('three is a number', () => assert.ok(isNumber(3)))\n",
}
const manifest = (more: object): string =>
  JSON.stringify({
    name: 'math',
    version: '1.0.0',
    private: true,
    type: 'module',
    scripts: { test: 'node --test' },
    dependencies: { 'is-number': '7.0.0' },
    ...more,
  })
const PYTHON = {
  'loud.py': 'import six\n\n\ndef loud(text):\n    return six.text_type(text).upper()\n',
  'tests/test_loud.py': 'from loud import loud\n\n\ndef test_it_is_loud():\n    assert loud("a") == "A"\n',
  'pytest.ini': '[pytest]\npythonpath = .\n',
}
const PEP621 =
  '[project]\nname = "loud"\nversion = "1"\nrequires-python = ">=3.9"\ndependencies = ["six==1.16.0"]\n'

const KOTLIN_POM = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>example</groupId><artifactId>greetings</artifactId><version>1</version>
  <properties><kotlin.version>1.9.25</kotlin.version><project.build.sourceEncoding>UTF-8</project.build.sourceEncoding></properties>
  <dependencies>
    <dependency><groupId>org.jetbrains.kotlin</groupId><artifactId>kotlin-stdlib</artifactId><version>\${kotlin.version}</version></dependency>
    <dependency><groupId>org.junit.jupiter</groupId><artifactId>junit-jupiter</artifactId><version>5.10.2</version><scope>test</scope></dependency>
  </dependencies>
  <build>
    <sourceDirectory>src/main/kotlin</sourceDirectory><testSourceDirectory>src/test/kotlin</testSourceDirectory>
    <plugins>
      <plugin>
        <groupId>org.jetbrains.kotlin</groupId><artifactId>kotlin-maven-plugin</artifactId><version>\${kotlin.version}</version>
        <executions>
          <execution><id>compile</id><goals><goal>compile</goal></goals></execution>
          <execution><id>test-compile</id><goals><goal>test-compile</goal></goals></execution>
        </executions>
      </plugin>
      <plugin><artifactId>maven-surefire-plugin</artifactId><version>3.2.5</version></plugin>
    </plugins>
  </build>
</project>
`

interface Written {
  readonly files: Record<string, string>
  readonly says: RegExp
  /** What the package manager says where it does not work on the machine itself either. */
  readonly failsByItself?: { readonly with: RegExp; readonly because: string }
}

/** Lockfiles are left out, because they name registries. Each package manager resolves the versions. */
const WRITTEN: Readonly<Record<string, Written>> = {
  pnpm: {
    files: { ...JS, 'package.json': manifest({ packageManager: 'pnpm@9.15.0' }) },
    says: /(?:#|ℹ) pass 1/,
  },
  'yarn 1': {
    files: { ...JS, 'package.json': manifest({ packageManager: 'yarn@1.22.22' }) },
    says: /(?:#|ℹ) pass 1/,
  },
  'yarn berry': {
    files: {
      ...JS,
      'package.json': manifest({ packageManager: 'yarn@4.5.3' }),
      '.yarnrc.yml': 'nodeLinker: node-modules\n',
    },
    says: /(?:#|ℹ) pass 1/,
  },
  bun: {
    files: {
      'package.json': JSON.stringify({
        name: 'math',
        private: true,
        type: 'module',
        packageManager: 'bun@1.2.0',
        scripts: { test: 'bun test' },
        dependencies: { 'is-number': '7.0.0' },
      }),
      'math.test.js':
        "import { expect, test } from 'bun:test'\nimport isNumber from 'is-number'\ntest('three', () => expect(isNumber(3)).toBe(true))\n",
    },
    says: /bun test|1 pass/,
  },
  uv: {
    files: {
      ...PYTHON,
      'pyproject.toml': `${PEP621}[dependency-groups]\ndev = ["pytest==8.3.3"]\n[tool.uv]\npackage = false\n`,
    },
    says: /1 passed/,
  },
  poetry: {
    files: {
      ...PYTHON,
      'pyproject.toml':
        '[tool.poetry]\nname = "loud"\nversion = "1"\ndescription = ""\nauthors = []\npackage-mode = false\n[tool.poetry.dependencies]\npython = "^3.9"\nsix = "1.16.0"\n[tool.poetry.group.dev.dependencies]\npytest = "8.3.3"\n[build-system]\nrequires = ["poetry-core"]\nbuild-backend = "poetry.core.masonry.api"\n',
    },
    says: /1 passed/,
    failsByItself: {
      with: /Expecting value/,
      because: 'Poetry asks the registry for JSON, which this one does not have',
    },
  },
  pdm: {
    files: {
      ...PYTHON,
      'pyproject.toml': `${PEP621}[dependency-groups]\ndev = ["pytest==8.3.3"]\n[tool.pdm]\ndistribution = false\n`,
    },
    says: /1 passed/,
    failsByItself: {
      with: /hishel|super\(type, obj\)/,
      because: 'the newest PDM fails with the newest of what it stands on',
    },
  },
  pipenv: {
    files: {
      ...PYTHON,
      Pipfile: '[packages]\nsix = "==1.16.0"\n[dev-packages]\npytest = "==8.3.3"\n',
    },
    says: /1 passed/,
  },
  meson: {
    files: {
      'meson.build': "project('demo', 'c')\ntest('it', executable('it', 'it.c'))\n",
      'it.c': 'int main(void) { return 0; }\n',
    },
    says: /Ok:\s+1/,
  },
  make: {
    files: {
      Makefile: 'it: it.c\n\t$(CC) -o it it.c\ntest: it\n\t./it && echo all is well\n',
      'it.c': 'int main(void) { return 0; }\n',
    },
    says: /all is well/,
  },
  'kotlin with maven': {
    files: {
      'pom.xml': KOTLIN_POM,
      'src/main/kotlin/Greeting.kt': 'fun greeting(name: String) = "Hello, $name!"\n',
      'src/test/kotlin/GreetingTest.kt':
        'import org.junit.jupiter.api.Assertions.assertEquals\nimport org.junit.jupiter.api.Test\n\nclass GreetingTest {\n  @Test fun `it greets`() = assertEquals("Hello, Ada!", greeting("Ada"))\n}\n',
    },
    says: /Tests run: 1, Failures: 0/,
  },
  deno: {
    files: {
      'deno.json': '{"tasks":{"test":"deno test"},"imports":{"is-number":"npm:is-number@7.0.0"}}\n',
      'math.test.js':
        'import isNumber from "is-number"\nDeno.test("three", () => { if (!isNumber(3)) throw new Error("no") })\n',
    },
    says: /1 passed/,
  },
  shell: {
    files: {
      'greet.sh': '#!/bin/sh\necho "hello $1"\n',
      'test/greet.bats': '@test "it greets" {\n  [ "$(sh greet.sh you)" = "hello you" ]\n}\n',
    },
    says: /ok 1 it greets/,
  },
}

const TOML = {
  rust: '[lifecycle]\ntest = "cargo test --offline"\n',
  go: '[environment.languages]\ngo = "1.24"\n[lifecycle]\ntest = ["go vet ./...", "go test ./..."]\n',
  java: '[environment.languages]\njava = "17"\n[lifecycle]\ntest = "mvn -B -o test"\n',
  c: '[environment]\nbase = "debian"\n[environment.packages]\napt = ["zlib1g-dev", "cmake", "ninja-build", "build-essential"]\n[lifecycle]\nsetup = false\ntest = "cmake -S . -B out && cmake --build out && ctest --test-dir out"\n',
} as const

describe('a project of each kind', () => {
  for (const [name, says] of [
    ['rust', /2 passed/],
    ['go', /^ok\s/m],
    ['java', /Tests run: 1, Failures: 0/],
    ['c', /100% tests passed/],
  ] as const)
    test(`ENV-1 a ${name} project passes its tests by detection and by agentpod.toml`, async () => {
      const directory = fixture(name)
      await twice(directory, says)
      writeFileSync(join(directory, 'agentpod.toml'), TOML[name])
      await twice(directory, says)
    })

  for (const [name, { files, says, failsByItself }] of Object.entries(WRITTEN))
    test(`ENV-1 a ${name} project passes its tests by detection`, async (t) => {
      const directory = written(files)
      const { code, stderr } = await world.cli(['build'], { cwd: directory, timeoutMs: 600_000 })
      if (code !== 0 && failsByItself?.with.test(stderr)) return t.skip(failsByItself.because)
      await twice(directory, says)
    })
})

test('a static site is served', async () => {
  const directory = written({ 'index.html': '<h1>a page of its own</h1>\n' })
  const child = world.start(['dev'], { cwd: directory })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data: Buffer) => (said += data))
  const page = async (): Promise<string> => {
    const url = /http:\/\/127\.0\.0\.1:\d+/.exec(said)?.[0]
    return url === undefined ? '' : ((await fetch(url).catch(() => undefined))?.text() ?? '')
  }
  for (let tries = 0; tries < 100 && !(await page()).includes('a page of its own'); tries++) await delay(100)
  assert.match(await page(), /a page of its own/, said)
  child.kill('SIGINT')
  await new Promise((resolve) => child.once('close', resolve))
})

describe('a monorepo in three languages with PostgreSQL and Redis', () => {
  const directory = fixture('polyglot')

  test('ENV-1 a monorepo in three languages comes up by detection alone, and all its tests pass', async () => {
    const explained = JSON.parse((await passes(directory, 'config', 'explain', '--json')).stdout)
    const keys = explained.choices.map(({ key }: { key: string }) => key)
    for (const key of [
      'languages.node',
      'languages.python',
      'languages.go',
      'services.postgres',
      'services.redis',
    ])
      assert.ok(keys.includes(key), `${key} in ${keys.join(' ')}`)
    const { stdout } = await passes(directory, 'test')
    assert.match(stdout, /1 passed/)
    assert.match(stdout, /(?:#|ℹ) pass 1/)
    assert.match(stdout, /^ok\s/m)
  })

  test('ENV-9 the data of a monorepo’s services survives a pause, a stop and a snapshot', async () => {
    await passes(
      directory,
      'run',
      '--keep',
      '--name',
      'mono',
      '--',
      'psql',
      '-c',
      'create table kept as select 7 as n',
    )
    const read = async (name: string): Promise<string> =>
      (await passes(directory, 'exec', name, '--', 'psql', '-Atc', 'select n from kept')).stdout.trim()
    await passes(directory, 'pause', 'mono')
    await passes(directory, 'resume', 'mono')
    assert.equal(await read('mono'), '7')
    await passes(directory, 'snapshot', 'create', 'mono', '--name', 'kept')
    await passes(directory, 'stop', 'mono')
    await passes(directory, 'start', 'mono')
    assert.equal(await read('mono'), '7')
    await passes(directory, 'restore', 'kept', '--name', 'again')
    assert.equal(await read('again'), '7')
    await passes(directory, 'fork', 'mono', '--name', 'copy')
    assert.equal(await read('copy'), '7')
    const { stdout, stderr } = await passes(directory, 'logs', 'mono', '--service', 'postgres')
    assert.match(stdout + stderr, /ready to accept connections/)
    await passes(directory, 'destroy', 'mono', 'again', 'copy')
  })

  test('a monorepo can be locked, and the lock gives the same layers', async () => {
    const before = JSON.parse((await passes(directory, 'build', '--json')).stdout)
    await passes(directory, 'config', 'lock')
    await passes(directory, 'build', '--frozen')
    const locked = JSON.parse((await passes(directory, 'build', '--json')).stdout)
    assert.notEqual(locked.digest, before.digest, 'pinned packages are another input')
    assert.equal(JSON.parse((await passes(directory, 'build', '--json')).stdout).digest, locked.digest)
    assert.match((await passes(directory, 'test')).stdout, /1 passed/)
  })
})

test('ENV-1 a Poetry project works without a lockfile and with one, also where PyPI is a mirror', async () => {
  const directory = written({
    ...PYTHON,
    'pyproject.toml': `[tool.poetry]
name = "loud"
version = "0.1.0"
description = ""
authors = []
package-mode = false

[tool.poetry.dependencies]
python = ">=3.9"
six = "1.16.0"

[tool.poetry.group.dev.dependencies]
pytest = "^8"
`,
  })
  await twice(directory, /1 passed/)
  const lock = 'poetry lock >&2 && cat poetry.lock'
  const { stdout } = await passes(directory, 'run', '--preset', 'pip', '--', 'sh', '-c', lock)
  assert.match(stdout, /^name = "six"\nversion = "1\.16\.0"$/m)
  writeFileSync(join(directory, 'poetry.lock'), stdout)
  await twice(directory, /1 passed/)
})
