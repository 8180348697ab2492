// The rules of STYLE.md that a program can check, and for each a sample that breaks it.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { agentNames, checkAgentNames } from './tidy/agents.ts'
import { checkBaseNames } from './tidy/bases.ts'
import { checkCycles, checkDirections, checkExamples, checkProviderNames } from './tidy/directions.ts'
import { checkAttacks, checkLinks } from './tidy/documents.ts'
import { checkExportedNames } from './tidy/exported-names.ts'
import { checkCalls, checkExports, checkNames } from './tidy/habits.ts'
import { checkMachinePaths, checkRegistryHosts, findRegistryHosts, registryHosts } from './tidy/machine.ts'
import { checkPrograms } from './tidy/native.ts'
import { checkPromises } from './tidy/promises.ts'
import { checkCommentWidth, checkFolders, checkParameters, checkSeams } from './tidy/sizes.ts'
import { type Parsed, parse, type SourceFile, type Violation } from './tidy/source.ts'

const root = join(import.meta.dirname, '..')
const TEXT_LIMIT_BYTES = 2 << 20

describe('the repository', () => {
  const paths = listFiles()
  const files = paths.map(read).filter((file) => file !== null)
  const sources = files.filter(({ path }) => /^src\/.*\.ts$/.test(path)).map(parse)

  test('imports point in the directions of the table', () => assertNone(checkDirections(sources)))
  test('imports form no cycles', () => assertNone(checkCycles(sources)))
  test('only its own folder compares the names of bases', () => assertNone(checkBaseNames(sources)))
  test('only src/agents names an agent', () => {
    assert.ok(agentNames(sources).size > 10)
    assertNone(checkAgentNames(sources))
  })
  test('only its own folder names a provider', () => assertNone(checkProviderNames(sources)))
  test('examples import public entries alone', () =>
    assertNone(checkExamples(files.filter(({ path }) => /^examples\/.*\.ts$/.test(path)).map(parse))))
  test('files are named in kebab-case for what is inside', () =>
    assertNone(
      checkNames(
        paths.filter(
          (path) => /^(?:src|test|scripts|examples\/provider)\//.test(path) && !path.includes('/fixtures/'),
        ),
      ),
    ))
  test('only src/exports/ re-exports and nothing has a default export', () =>
    assertNone(checkExports(sources)))
  test('the environment, clock, processes and network are used where the list allows', () =>
    assertNone(checkCalls(sources)))
  test('podd holds no part of podhost, nor podhost of podd', () => assertNone(checkPrograms(files)))
  test('links in documents lead somewhere', () =>
    assertNone(checkLinks(files, (path) => existsSync(join(root, path)))))
  test('comments cite attacks of the catalogue, and its tests mention them', () =>
    assertNone(checkAttacks(files)))
  test('the promises of SPECIFICATION.md are in the names of the tests that prove them', () =>
    assertNone(checkPromises(files)))
  test('a folder has at most 25 files', () => assertNone(checkFolders(paths)))
  test('an interface at a seam has at most 12 members, and the engine at most 20', () =>
    assertNone(checkSeams(sources)))
  test('a function has at most 5 positional parameters', () => assertNone(checkParameters(sources)))
  test('an exported name has one meaning', () => assertNone(checkExportedNames(sources)))
  test('comments are at most 110 columns wide', () => {
    const commented = files.filter(
      ({ path }) =>
        /^(?:src|test|scripts|native|examples)\/.*\.(?:ts|go)$/.test(path) && !path.includes('/fixtures/'),
    )
    const parsed = commented.filter(({ path }) => path.endsWith('.ts')).map(parse)
    assertNone(checkCommentWidth(commented, parsed))
  })
  test('no file names a directory of the machine it was written on', () =>
    assertNone(checkMachinePaths(files, root)))
  test('no file names a registry of the machine it was written on', async () =>
    assertNone(checkRegistryHosts(files, await findRegistryHosts())))
})

describe('the rules find', () => {
  const samples: readonly { name: string; found: () => Violation[]; at: readonly string[] }[] = [
    {
      name: 'an import against the direction',
      found: () =>
        checkDirections([
          source('src/core/spec.ts', "import { open } from '../store/database.ts'\nimport fs from 'node:fs'"),
          source('src/policy/place.ts', "import type { Crun } from '../providers/crun/provider.ts'"),
          source('src/providers/docker/provider.ts', "import { a } from '../local/driver.ts'"),
          source('src/providers/crun/provider.ts', "import { a } from '../local/driver.ts'"),
          source('src/cli/commands/list.ts', "\nconst { start } = await import('../../main/server.ts')"),
          source('src/cli/commands/serve.ts', "const { start } = await import('../../main/server.ts')"),
          source('src/cli/commands/up.ts', 'await layers.import(digest, file)\nawait import(name)'),
          source(
            'src/client/client.ts',
            "import { S } from '../api/schema/run.ts'\nimport { a } from '../api/app.ts'",
          ),
          source('src/engine/destroy.test.ts', "import { FakeProvider } from '../testing/fake-provider.ts'"),
          source(
            'src/engine/testing/fixture.ts',
            "import { FakeProvider } from '../../testing/fake-provider.ts'",
          ),
          source('src/engine/destroy.ts', "import { FakeProvider } from '../testing/fake-provider.ts'"),
          source('src/novel/thing.ts', "import { a } from '../core/id.ts'"),
        ]),
      at: [
        'src/core/spec.ts:1',
        'src/core/spec.ts:2',
        'src/policy/place.ts:1',
        'src/providers/docker/provider.ts:1',
        'src/cli/commands/list.ts:2',
        'src/cli/commands/up.ts:2',
        'src/client/client.ts:2',
        'src/engine/destroy.ts:1',
        'src/novel/thing.ts:1',
      ],
    },
    {
      name: 'an example that reaches into the sources',
      found: () =>
        checkExamples([
          source(
            'examples/provider/a.ts',
            "import { b } from './b.ts'\nimport { P } from 'agentpod/provider'",
          ),
          source('examples/provider/b.ts', "\nimport type { P } from '../../src/core/provider.ts'"),
        ]),
      at: ['examples/provider/b.ts:2'],
    },
    {
      name: 'nothing in comments, strings, templates and patterns',
      found: () =>
        checkDirections([
          source(
            'src/core/id.ts',
            [
              "// import a from '../main/a.ts'",
              '/* process.env */ const a = "import b from \'../main/b.ts\'"',
              // biome-ignore lint/suspicious/noTemplateCurlyInString: the sample is itself a template.
              "const c = `import d from '../main/d.ts' ${`${a}`} }`",
              "const e = /['\"`/*]/.test(a) ? 1 / 2 : '/'",
              "import { f } from '../main/f.ts'",
            ].join('\n'),
          ),
        ]),
      at: ['src/core/id.ts:5'],
    },
    {
      name: 'a cycle',
      found: () =>
        checkCycles([
          source('src/core/a.ts', "import { b } from './b.ts'"),
          source('src/core/b.ts', "\nimport type { c } from './c.ts'"),
          source('src/core/c.ts', "\n\nimport { a } from './a.ts'"),
        ]),
      at: ['src/core/c.ts:3'],
    },
    {
      name: 'the name of a provider',
      found: () =>
        checkProviderNames([
          source('src/providers/crun/provider.ts', "export const name = 'crun'"),
          source('src/main/server.ts', "const chosen = 'crun'"),
          source('src/policy/place.ts', "// 'crun'\nif (name === 'crun') {}"),
          source('src/policy/place.test.ts', "const name = 'crun'"),
        ]),
      at: ['src/policy/place.ts:2'],
    },
    {
      name: 'the name of an agent',
      found: () =>
        checkAgentNames([
          source(
            'src/agents/catalog/zebra.ts',
            "export const zebra = {\n  name: 'zebra',\n  aliases: ['zb'],\n}",
          ),
          source('src/agents/catalog/acp.ts', "export const acp = {\n  name: 'acp',\n}"),
          source('src/agents/agents.ts', "const first = 'zebra'"),
          source('src/cli/run.ts', "// 'zebra'\nif (agent.name === 'zebra') {}\nconst list = ['zb']"),
          source('src/cli/acp.ts', "if (parsed.has('acp')) {}\nif (name === 'acp') {}"),
          source('src/cli/help.ts', "const example = 'agentpod run zebra'"),
          source('src/cli/run.test.ts', "const name = 'zebra'"),
          source('src/cli/testing/screen.ts', "const name = 'zebra'"),
        ]),
      at: ['src/cli/run.ts:2', 'src/cli/run.ts:3', 'src/cli/acp.ts:2'],
    },
    {
      name: 'a comparison with the name of a base',
      found: () =>
        checkBaseNames([
          source('src/core/environment.ts', "export const BASES = ['host', 'debian', 'image'] as const"),
          source('src/bases/host.ts', "if (name === 'host') {}"),
          source('src/config/a.ts', "if (resolvedBase.base === 'host') {}\nif ('debian' !== base.name) {}"),
          source('src/config/b.ts', "switch (base) {\n  case 'image':\n}\n['x'].includes('host')"),
          source('src/config/c.ts', "const base = 'debian' // === 'host'\nconst at = { host: 'host' }"),
          source('src/config/a.test.ts', "assert.ok(base === 'host')"),
          source('src/api/http/listen.ts', "if ('host' in place) {}"),
          source('src/api/app.ts', "if ('host' in place) {}"),
        ]),
      at: [
        'src/config/a.ts:1',
        'src/config/a.ts:2',
        'src/config/b.ts:2',
        'src/config/b.ts:4',
        'src/api/app.ts:1',
      ],
    },
    {
      name: 'a file name that says nothing',
      found: () =>
        checkNames([
          'src/core/types.ts',
          'src/helpers/a.ts',
          'src/core/sandboxId.ts',
          'src/core/sandbox.test.ts',
        ]),
      at: ['src/core/types.ts:1', 'src/helpers/a.ts:1', 'src/core/sandboxId.ts:1'],
    },
    {
      name: 'a re-export and a default export',
      found: () =>
        checkExports([
          source(
            'src/core/id.ts',
            "const a = 1\nexport { a }\nimport b from './b.ts'\nexport * from './c.ts'",
          ),
          source('src/core/run.ts', 'export default class Run {}'),
          source('src/exports/client.ts', "export { connect } from '../client/connect.ts'"),
        ]),
      at: ['src/core/id.ts:4', 'src/core/run.ts:1'],
    },
    {
      name: 'a banned call',
      found: () =>
        checkCalls([
          source(
            'src/engine/a.ts',
            'Date.now()\nMath.random()\nprocess.env\nprocess.exit(1)\nconsole.log(1)',
          ),
          source('src/engine/b.ts', "import { spawn } from 'node:child_process'\nawait fetch(url)"),
          source(
            'src/engine/c.ts',
            'await app.fetch(r)\nconst door = {\n  async fetch(r) {},\n  fetch(r: X): Y {},\n}',
          ),
          source('src/engine/d.test.ts', 'Date.now()'),
          source('src/cli/main.ts', 'process.exit(Number(process.env.X))\nconsole.log(1)'),
          source('src/util/clock.ts', 'Date.now()'),
        ]),
      at: [
        ...[1, 2, 3, 4, 5].map((line) => `src/engine/a.ts:${line}`),
        'src/engine/b.ts:1',
        'src/engine/b.ts:2',
        'src/cli/main.ts:2',
      ],
    },
    {
      name: 'a host package inside podd',
      found: () =>
        checkPrograms([
          {
            path: 'native/cmd/podd/main.go',
            text: 'import (\n\t"fmt"\n\t"agentpod/native/internal/safefs"\n)',
          },
          { path: 'native/internal/safefs/file.go', text: 'import "agentpod/native/internal/mount"' },
        ]),
      at: ['native/internal/safefs/file.go:1'],
    },
    {
      name: 'a link that leads nowhere',
      found: () =>
        checkLinks(
          [
            {
              path: 'docs/a.md',
              text: '[b](b.md) [web](https://example.org) `[c](c.md)`\n[up](../README.md#start)',
            },
          ],
          (path) => path === 'README.md',
        ),
      at: ['docs/a.md:1'],
    },
    {
      name: 'an attack that is not in the catalogue, a row without a test, and a test without its id',
      found: () =>
        checkAttacks([
          {
            path: 'docs/attacks.md',
            text: [
              '| FS-01 | a | b | `test/a.test.ts` |',
              '| FS-02 | a | b | `test/a.test.ts` |',
              '| FS-03 | a | b | none |',
            ].join('\n'),
          },
          { path: 'test/a.test.ts', text: "test('FS-01 it is refused')\ntest('DK-09 it is refused')" },
          { path: 'src/a.ts', text: '// SECURITY: FS-01.\n// As in FS-04.' },
        ]),
      at: ['src/a.ts:2', 'test/a.test.ts:2', 'docs/attacks.md:2', 'docs/attacks.md:3'],
    },
    {
      name: 'a promise without a test, and a test of a promise that does not exist',
      found: () =>
        checkPromises([
          {
            path: 'SPECIFICATION.md',
            text: [
              '- **BOX-1.** One. `test/a.test.ts`',
              '- **BOX-2.** Two, on',
              '  two lines. `test/a.test.ts`, `native/a_test.go`',
              '- **BOX-3.** Three.',
              '- **BOX-4.** Four is not proven by a test yet.',
              '- **BOX-5.** Five. `test/a.test.ts`',
            ].join('\n'),
          },
          {
            path: 'test/a.test.ts',
            text: "test('BOX-1 FS-01 BOX-2 it works')\n// BOX-5\ntest('NET-1 a name')\ntest('of NET-2')",
          },
          { path: 'native/a_test.go', text: '// BOX-2: it works.' },
        ]),
      at: ['SPECIFICATION.md:4', 'SPECIFICATION.md:6', 'test/a.test.ts:3'],
    },
    {
      name: 'a folder with too many files',
      found: () =>
        checkFolders(
          ['src/a', 'src/a/tests', 'native/b', 'src/cli/commands'].flatMap((folder, at) =>
            Array.from(
              { length: 26 - at },
              (_, n) => `${folder}/f${n}${['.ts', '.test.ts', '.go', '.ts'][at]}`,
            ).concat(folder === 'native/b' ? ['native/b/y.go', 'native/b/z.go', 'native/b/a_test.go'] : []),
          ),
        ),
      at: ['src/a:1', 'native/b:1'],
    },
    {
      name: 'an interface and a class with too many members',
      found: () => {
        const members = (count: number, text: string): string =>
          Array.from({ length: count }, (_, n) => `  ${text.replace('N', `m${n}`)}\n`).join('')
        return checkSeams([
          source(
            'src/core/provider.ts',
            `export interface Small {\n${members(12, 'readonly N: {\n    a: string\n  }')}${members(9, 'N?: A')}}\n` +
              `\nexport interface Large {\n${members(13, 'N(\n    a: A,\n  ): B')}}\n`,
          ),
          source('src/core/run.ts', `export interface Data {\n${members(13, 'N: A')}}\n`),
          source(
            'src/engine/engine.ts',
            `export class Engine {\n${members(21, 'async N() {\n    a()\n  }')}  #a = 1\n  private b() {}\n}\n`,
          ),
        ])
      },
      at: ['src/core/provider.ts:49', 'src/engine/engine.ts:1'],
    },
    {
      name: 'a function with too many parameters',
      found: () =>
        checkParameters([
          source(
            'src/core/a.ts',
            [
              'function five(a: A, { b, c }: { b: B; c: C }, d: (e: E, f: F) => void, g = [1, 2], h = 1) {}',
              'async function six<T>(a: A, b: Map<B, C>, c: C, d: D, e = 1, f = 2): Promise<T> {}',
              'class A {',
              '  private six(',
              '    a: A,',
              '    b: B,',
              '    c: C,',
              '    d: D,',
              '    e: E,',
              '    f: F,',
              '  ): void {',
              '    called(a, b, c, d, e, f)',
              '  }',
              '}',
            ].join('\n'),
          ),
          source('src/core/a.test.ts', 'function six(a: A, b: B, c: C, d: D, e: E, f: F) {}'),
        ]),
      at: ['src/core/a.ts:2', 'src/core/a.ts:4'],
    },
    {
      name: 'a name that two files export',
      found: () =>
        checkExportedNames([
          source('src/core/a.ts', 'export type Run = A\nexport const x = 1\nconst y = 1'),
          source('src/client/a.ts', 'export class Run {}\nexport function y() {}'),
          source(
            'src/api/a.ts',
            "\nexport async function x() {}\n// export const y = 1\nconst z = 'export const y'",
          ),
          source('src/api/a.test.ts', 'export const y = 1'),
        ]),
      at: ['src/core/a.ts:2', 'src/api/a.ts:2'],
    },
    {
      name: 'a comment that is too wide',
      found: () => {
        const wide = 'wide '.repeat(25)
        const files = [
          {
            path: 'src/a.ts',
            text: `// ${wide}\n/**\n * ${wide}\n */\nconst a = \`\n// ${wide}\n\`\n// https://example.org ${wide}\n`,
          },
          { path: 'native/a.go', text: `\t// ${wide}\n\ta := 1 // ${wide}\n\tb := "${wide}"\n` },
        ]
        return checkCommentWidth(files, files.slice(0, 1).map(parse))
      },
      at: ['src/a.ts:1', 'src/a.ts:3', 'native/a.go:1', 'native/a.go:2'],
    },
    {
      name: 'a directory of the machine',
      found: () =>
        checkMachinePaths(
          [{ path: 'a.md', text: 'see example.org/build7/clone\nand /build7/clone/dist\nor /build7' }],
          '/build7/clone',
        ),
      at: ['a.md:2', 'a.md:2', 'a.md:3'],
    },
    {
      name: 'a registry',
      found: () =>
        checkRegistryHosts(
          [{ path: '.npmrc', text: 'registry=https://npm.corp.test/all/' }],
          registryHosts('https://npm.corp.test/all/,direct\nhttp://localhost/'),
        ),
      at: ['.npmrc:1'],
    },
  ]
  for (const { name, found, at } of samples) {
    test(name, () =>
      assert.deepEqual(
        found()
          .map(({ path, line }) => `${path}:${line}`)
          .sort(),
        [...at].sort(),
      ),
    )
  }
})

function source(path: string, text: string): Parsed {
  return parse({ path, text })
}

function assertNone(found: readonly Violation[]): void {
  assert.ok(found.length === 0, found.map(({ path, line, rule }) => `${path}:${line}: ${rule}`).join('\n'))
}

// Tracked files, and new ones that are not ignored. git also reads a clone that belongs to another user, as
// in CI.
function listFiles(): string[] {
  const args = [
    '-c',
    `safe.directory=${root}`,
    'ls-files',
    '-z',
    '--cached',
    '--others',
    '--exclude-standard',
  ]
  return execFileSync('git', args, { cwd: root, encoding: 'utf8' }).split('\0').filter(Boolean)
}

// A tracked file may be deleted and not yet staged; binaries and large data hold no rules.
function read(path: string): SourceFile | null {
  const absolute = join(root, path)
  if (!existsSync(absolute)) return null
  const bytes = readFileSync(absolute)
  return bytes.length > TEXT_LIMIT_BYTES || bytes.includes(0) ? null : { path, text: bytes.toString('utf8') }
}
