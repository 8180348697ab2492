// What the manifests of Node and Python, and whatever speaks of services and agents, may not do to whoever
// reads them.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { FileTree } from '../file-tree.ts'
import { memoryTree } from '../testing/memory-tree.ts'
import { type Finding, LANGUAGES } from './finding.ts'
import { detectFormats } from './formats/detect.ts'
import { ciPackages, ciTestCommand } from './instructions/ci-workflows.ts'
import { detectNode } from './node/detect.ts'
import { versionFileCandidates } from './project-files/version-files.ts'
import { detectPython } from './python/detect.ts'
import { detectServices, detectVariables } from './services/detect.ts'

/** Every file that is read here. */
const READ = [
  'package.json',
  'package-lock.json',
  'pnpm-lock.yaml',
  'pnpm-workspace.yaml',
  'yarn.lock',
  '.yarnrc.yml',
  'lerna.json',
  'turbo.json',
  'nx.json',
  '.npmrc',
  '.nvmrc',
  'vite.config.ts',
  'index.js',
  'a.test.js',
  'packages/a/package.json',
  'pyproject.toml',
  'uv.lock',
  'poetry.lock',
  'Pipfile',
  'setup.py',
  'setup.cfg',
  'tox.ini',
  'requirements.txt',
  'requirements-dev.txt',
  'environment.yml',
  '.python-version',
  'runtime.txt',
  'manage.py',
  'main.py',
  'test_a.py',
  'src/a/__init__.py',
  '.tool-versions',
  'mise.toml',
  '.github/workflows/ci.yml',
  '.github/workflows/copilot-setup-steps.yml',
  '.gitlab-ci.yml',
  '.cursor/environment.json',
  'Procfile',
  '.gitpod.yml',
  '.replit',
  'replit.nix',
  'nixpacks.toml',
  'nixpacks.json',
  'railpack.json',
  'railway.toml',
  'railway.json',
  'fly.toml',
  'e2b.toml',
  'devbox.json',
  '.mise.toml',
  'mise-tasks/test',
  'flake.nix',
  'shell.nix',
  'vercel.json',
  'app.json',
  'compose.yml',
  '.env.example',
  'config/database.yml',
  'settings.py',
  'schema.prisma',
  'go.mod',
  'Cargo.toml',
  'Gemfile',
  'pom.xml',
]

function look(tree: FileTree): readonly Finding[] {
  const found = [...detectNode(tree), ...detectPython(tree)]
  for (const language of LANGUAGES) versionFileCandidates(tree, 'packages/a', language)
  detectServices(tree)
  detectVariables(tree)
  detectFormats(tree)
  ciPackages(tree)
  ciTestCommand(tree)
  return found
}

const everywhere = (text: string): Record<string, string> =>
  Object.fromEntries(READ.map((path) => [path, text]))
const deep = (open: string, close: string, count: number): string => open.repeat(count) + close.repeat(count)

const TEXTS: Readonly<Record<string, string>> = {
  'nothing at all': '',
  'bytes that are no text': '\u0000\uFFFD\u0001'.repeat(1000),
  'a megabyte of one letter': 'a'.repeat(1_000_000),
  'a megabyte of line ends': '\n'.repeat(1_000_000),
  'a megabyte of line ends of Windows': '\r\n'.repeat(500_000),
  'a megabyte of signs': Array.from({ length: 1_000_000 }, (_, n) =>
    String.fromCharCode(33 + ((n * 7919) % 90)),
  ).join(''),
  'deep lists': deep('[', ']', 200_000),
  'deep tables': deep('{"a":', '}', 100_000),
  'deep lists of YAML': deep('[', ']', 50_000),
  dashes: '- '.repeat(60_000),
  quotes: `"'`.repeat(60_000),
  'very many keys': Array.from({ length: 20_000 }, (_, n) => `k${n} = "v"`).join('\n'),
  'very many keys of YAML': Array.from({ length: 10_000 }, (_, n) => `k${n}: v`).join('\n'),
  'the same key again and again': 'install_requires = [ '.repeat(40_000),
  'openings without an end': 'extras_require = { "a": [ server: { FastAPI( '.repeat(20_000),
  'scripts that go on': 'sudo apt-get install -y \\\n'.repeat(30_000),
  'keys that objects inherit':
    '{"__proto__":{"polluted":"x"},"constructor":{"prototype":{"polluted":"x"}},"scripts":{"__proto__":"x","toString":"y"},"dependencies":{"__proto__":"1","constructor":"1"},"workspaces":["__proto__"],"engines":{"__proto__":"1"}}',
  'tables that objects inherit':
    '[__proto__]\npolluted = "x"\n[tool.__proto__]\npolluted = "x"\n[project.optional-dependencies.__proto__]\nx = 1\n[dependency-groups]\n__proto__ = ["a"]\nconstructor = [{ include-group = "__proto__" }]\n',
  'keys of YAML that objects inherit':
    'jobs:\n  __proto__:\n    steps: [{ run: x }]\nservices:\n  __proto__: { image: postgres }\n__proto__: { polluted: x }\n',
  'an alias that stands for millions': `a: &a [x, x]\n${Array.from({ length: 25 }, (_, n) => `b${n}: &b${n} [${n === 0 ? '*a, *a' : `*b${n - 1}, *b${n - 1}`}]`).join('\n')}\njobs: *b24\nservices: *b24\n`,
  'an alias of itself': 'jobs: &j\n  a: *j\n  steps: [*j]\nservices: &s { a: *s }\npackages: &p [*p]\n',
  'merges of itself': 'jobs: &j\n  <<: *j\n',
}

/** What a finding says must stay in the project, and be fit for a terminal and for a shell. */
function check(finding: Finding): void {
  const paths = [
    ...finding.inputs,
    ...finding.generated,
    ...Object.keys(finding.stubs ?? {}),
    finding.lockfile ?? '',
  ]
  for (const path of paths)
    assert.doesNotMatch(path, /^\/|(?:^|\/)\.\.(?:\/|$)|\\/, `${path} leaves the project`)
  for (const { value, evidence } of finding.versions) {
    assert.match(evidence.said, /^[ -~]{0,80}$/)
    assert.match(value, /^[\w.*+~^<>=|, /:!-]{1,100}$/)
  }
  for (const { name, version = '1' } of finding.tools)
    assert.match(`${name} ${version}`, /^[\w.*+~^<>=|, -]+$/)
  for (const { name } of finding.packages) assert.match(name, /^[a-z0-9][a-z0-9+.-]+$/)
  for (const note of finding.notes ?? []) assert.match(note, /^[ -~]{1,400}$/)
}

describe('a hostile project', () => {
  for (const [name, text] of Object.entries(TEXTS))
    test(`detection ends quickly on files that hold ${name}`, () => {
      for (const finding of look(memoryTree(everywhere(text)))) check(finding)
      assert.equal(({} as Record<string, unknown>)['polluted'], undefined)
    })

  test('a project of thousands of packages is described by its first ones', () => {
    const files: Record<string, string> = {}
    for (let n = 0; n < 2000; n++) {
      files[`d${n}/package.json`] = '{"scripts":{"test":"x"},"workspaces":["**"]}'
      files[`d${n}/requirements.txt`] = 'a'
    }
    const found = look(memoryTree(files))
    assert.ok(found.length <= 100)
  })

  test('a workspace with thousands of members is one finding', () => {
    const files: Record<string, string> = { 'package.json': '{"workspaces":["**"]}' }
    for (let n = 0; n < 900; n++)
      files[`p/${n}/package.json`] = `{"name":"p${n}","scripts":{"postinstall":"tsc"}}`
    const [finding] = detectNode(memoryTree(files))
    assert.equal(finding?.members?.length, 900)
    assert.ok((finding?.notes?.[0]?.length ?? 0) < 400)
  })

  test('paths in manifests cannot leave the project', () => {
    const out = ['../x', '../../x', '/etc', '/etc/passwd', '..\\..\\x', 'a/../../b', '~/x', 'C:\\x', '', '.']
    const found = look(
      memoryTree({
        'a/package.json': JSON.stringify({
          main: '../../x',
          bin: { a: '../../x' },
          workspaces: out,
          prisma: { schema: '../../x' },
          scripts: { postinstall: 'node ../../x', prepare: 'node /etc/passwd' },
          dependencies: Object.fromEntries(out.map((path, n) => [`d${n}`, `file:${path}`])),
        }),
        'b/pyproject.toml': `[build-system]\nrequires = []\nbuild-backend = "hatchling.build"\n[project]\nname = "../x"\nreadme = "../../x"\nlicense-files = ${JSON.stringify(out)}\n[tool.hatch.version]\npath = "../../x.py"\n[tool.uv.sources]\nx = { path = "../../x" }\n[tool.uv.workspace]\nmembers = ${JSON.stringify(out)}\n`,
        'c/requirements.txt': out.flatMap((path) => [`-r ${path}`, `-e ${path}`, path]).join('\n'),
        'c/setup.py': out.map((path) => `open('${path}.txt')`).join('\n'),
        x: '',
        'x.py': '',
        'a/x': '',
      }),
    )
    assert.deepEqual(
      found.map(({ directory }) => directory),
      ['a', 'b', 'c'],
    )
    for (const finding of found) check(finding)
  })

  test('puts nothing into a command that a shell takes apart', () => {
    const evil = '$(touch x); `y` "z\' \\'
    const found = look(
      memoryTree({
        'package.json': JSON.stringify({
          name: evil,
          workspaces: ['m'],
          scripts: { dev: evil, prepare: 'tsc' },
          packageManager: `pnpm@${evil}`,
          pnpm: { onlyBuiltDependencies: [evil] },
        }),
        'm/package.json': JSON.stringify({ name: evil, scripts: { test: 'x', build: 'y' } }),
        'pnpm-lock.yaml': '',
        [`py/requirements/${evil}.txt`]: 'a',
        'py/pyproject.toml': `[project]\nname = "x"\ndependencies = [${JSON.stringify(`a; ${evil}`)}]\n[project.optional-dependencies]\n${JSON.stringify(evil)} = ["b"]\n`,
      }),
    )
    for (const { commands } of found)
      for (const { run } of Object.values(commands)) {
        const unquoted = run.replaceAll(/'[^']*'|\\'/g, '')
        assert.doesNotMatch(unquoted, /touch|`|\$\(/, run)
      }
  })

  test('detection gives the same result each time', () => {
    const files = {
      ...everywhere('x'),
      'b/package.json': '{"scripts":{"a":"b"}}',
      'a/package.json': '{"scripts":{"a":"b"}}',
    }
    assert.deepEqual(look(memoryTree(files)), look(memoryTree(files)))
  })
})
