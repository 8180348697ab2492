// What a project may not do to whoever looks at it, whatever it holds.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { memoryTree } from '../testing/memory-tree.ts'
import { detectC } from './c/detect.ts'
import { detectShellScripts } from './fallbacks/shell-scripts.ts'
import { detectSimpleLanguages } from './fallbacks/simple-languages.ts'
import { detectStaticSite } from './fallbacks/static-site.ts'
import type { Detector, Finding } from './finding.ts'
import { detectGo } from './go/detect.ts'
import { detectTasks } from './instructions/task-runners.ts'
import { detectJava } from './jvm/detect.ts'
import { detectPhp } from './php/detect.ts'
import { detectRust } from './rust/detect.ts'
import { detectDeno } from './small-languages/deno.ts'
import { detectDotnet } from './small-languages/dotnet.ts'
import { detectElixir } from './small-languages/elixir.ts'
import { detectRuby } from './small-languages/ruby.ts'

const DETECTORS: readonly Detector[] = [
  detectGo,
  detectRust,
  detectJava,
  detectC,
  detectRuby,
  detectPhp,
  detectDeno,
  detectDotnet,
  detectElixir,
  detectStaticSite,
  detectShellScripts,
]

/** Every file that some detector reads. */
const READ = [
  'go.mod',
  'go.work',
  'main.go',
  '.go-version',
  'Cargo.toml',
  'Cargo.lock',
  '.cargo/config.toml',
  'rust-toolchain',
  'rust-toolchain.toml',
  'pom.xml',
  '.mvn/wrapper/maven-wrapper.properties',
  '.java-version',
  '.sdkmanrc',
  'settings.gradle',
  'build.gradle.kts',
  'gradle.properties',
  'gradle/libs.versions.toml',
  'gradle/wrapper/gradle-wrapper.properties',
  'CMakeLists.txt',
  'CMakePresets.json',
  'meson.build',
  'configure.ac',
  'Makefile',
  'justfile',
  'Taskfile.yml',
  'x.c',
  'Gemfile',
  'Gemfile.lock',
  'x.gemspec',
  'composer.json',
  'composer.lock',
  'deno.json',
  'deno.lock',
  'X.sln',
  'X.csproj',
  'global.json',
  'Properties/launchSettings.json',
  'mix.exs',
  'start.sh',
  '.github/workflows/ci.yml',
]

const everywhere = (text: string): Record<string, string> =>
  Object.fromEntries(READ.map((path) => [path, text]))

const TEXTS: Readonly<Record<string, string>> = {
  'nothing at all': '',
  'a byte order mark': '\uFEFF',
  'bytes that are no text': '\u0000\uFFFD\u0001'.repeat(1000),
  'one long line': 'a'.repeat(1_000_000),
  'a million lines': '\n'.repeat(1_000_000),
  'a million blanks': ' '.repeat(1_000_000),
  'lines of blanks': `${' '.repeat(1000)}\n`.repeat(1000),
  'nothing but brackets': '[{(<'.repeat(100_000),
  'nothing but elements': '<a>'.repeat(100_000),
  'nothing but quotes': `"'`.repeat(200_000),
  'words without an end': 'include("a", '.repeat(20_000),
  'words that lead nowhere': `\${a}\${b} include use require add_subdirectory( gem \n`.repeat(10_000),
  'keys that objects inherit':
    '{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}},"toString":1}',
  'tables that objects inherit':
    '[__proto__]\npolluted = true\n[constructor.prototype]\npolluted = true\n[package.__proto__]\nname = "x"\n',
  'elements that objects inherit':
    '<project><__proto__><polluted>1</polluted></__proto__><constructor>1</constructor></project>',
  'an entity that stands for millions': `<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">${Array.from({ length: 20 }, (_, n) => `<!ENTITY a${n} "${`&a${n === 0 ? '' : n - 1};`.repeat(10)}">`).join('')}]><project>&a19;</project>`,
  'an alias that stands for millions': `a: &a [x, x]\n${Array.from({ length: 20 }, (_, n) => `b${n}: &b${n} [${n === 0 ? '*a, *a' : `*b${n - 1}, *b${n - 1}`}]`).join('\n')}\ntasks: *b19\n`,
}

function check(finding: Finding): void {
  const paths = [
    finding.directory,
    ...finding.inputs,
    ...finding.generated,
    ...Object.keys(finding.stubs ?? {}),
    ...(finding.lockfile ? [finding.lockfile] : []),
  ]
  for (const path of paths)
    assert.doesNotMatch(path, /^\/|(?:^|\/)\.\.(?:\/|$)|\\/, `${path} leaves the project`)
  for (const { evidence } of finding.versions) assert.match(evidence.said, /^[ -~]{0,80}$/)
  for (const { name } of finding.packages) assert.match(name, /^[a-z0-9][a-z0-9+.-]+$/)
}

describe('a hostile project', () => {
  for (const [name, text] of Object.entries(TEXTS))
    test(`ENV-3 a project whose files hold ${name} is detected`, () => {
      const tree = memoryTree(everywhere(text))
      const found = DETECTORS.flatMap((detector) => detector(tree))
      detectSimpleLanguages(tree)
      detectTasks(tree, '')
      for (const finding of found) check(finding)
      assert.equal(({} as Record<string, unknown>)['polluted'], undefined)
    })

  test('ENV-3 a directory of thousands of projects is described by its first ones', () => {
    const files: Record<string, string> = {}
    for (let n = 0; n < 1000; n++)
      for (const [name, text] of Object.entries({
        'go.mod': 'module x\n',
        'Cargo.toml': '[package]\nname = "x"\n',
        'pom.xml': '<project/>',
        'CMakeLists.txt': '',
        Gemfile: '',
        'mix.exs': '',
      }))
        files[`d${n}/${name}`] = text
    const tree = memoryTree(files)
    for (const detector of DETECTORS) assert.ok(detector(tree).length <= 50)
  })

  test('ENV-3 a hostile project cannot lead out of itself', () => {
    const out = ['../x', '../../x', '/etc', '/etc/passwd', '..\\..\\x', 'a/../../b', '~/x', 'C:\\x', '']
    const tree = memoryTree({
      'a/go.work': out.map((path) => `use "${path}"\n`).join(''),
      'a/go.mod': `module x\n${out.map((path) => `replace x => ${path}\n`).join('')}`,
      'a/Cargo.toml': `[package]\nname = "x"\nbuild = "../../x"\n[workspace]\nmembers = ${JSON.stringify(out)}\nexclude = ${JSON.stringify(out)}\n[lib]\npath = "../../x"\n`,
      '.cargo/config.toml': '[build]\ntarget-dir = "/tmp/x"\n',
      'a/pom.xml': `<project><parent><artifactId>x</artifactId><relativePath>../../x</relativePath></parent><modules>${out.map((path) => `<module>${path}</module>`).join('')}</modules><build><sourceDirectory>../../x</sourceDirectory></build></project>`,
      'a/settings.gradle': out.map((path) => `include '${path}'\nincludeBuild '${path}'\n`).join(''),
      'a/CMakeLists.txt': out.map((path) => `add_subdirectory(${path})\n`).join(''),
      'a/Gemfile': out.map((path) => `gem "x", path: "${path}"\neval_gemfile "${path}"\n`).join(''),
      'a/composer.json': JSON.stringify({
        autoload: { classmap: out },
        repositories: out.map((url) => ({ type: 'path', url })),
      }),
      'a/deno.json': JSON.stringify({ workspace: out, lock: '/etc/x', importMap: '../../x' }),
      'a/X.csproj': `<Project><ItemGroup>${out.map((path) => `<ProjectReference Include="${path}"/>`).join('')}</ItemGroup></Project>`,
      'a/mix.exs': 'apps_path: "../.."\n',
      x: '',
      'a/x': '',
    })
    const found = DETECTORS.flatMap((detector) => detector(tree))
    assert.ok(found.length >= 8)
    for (const finding of found) check(finding)
  })

  test('ENV-2 a hostile project is detected in the same way each time', () => {
    const tree = () => memoryTree({ ...everywhere('x'), 'b/go.mod': 'module b\n', 'a/go.mod': 'module a\n' })
    for (const detector of DETECTORS) assert.deepEqual(detector(tree()), detector(tree()))
    assert.deepEqual(
      detectGo(tree()).map(({ directory }) => directory),
      ['', 'a', 'b'],
    )
  })
})
