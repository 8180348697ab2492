/** What outside verification found in detection and planning, a case for each. */
import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { after, describe, test } from 'node:test'
import { detect } from '../../src/config/detect/detect.ts'
import { initText } from '../../src/config/plan/init.ts'
import type { Plan } from '../../src/config/plan/plan.ts'
import { resolvePlan } from '../../src/config/plan/resolve/resolve.ts'
import { memoryTree } from '../../src/config/testing/memory-tree.ts'
import { inputOf, machine, written } from '../../src/config/testing/plan-parts.ts'
import { World } from '../support/world.ts'

type Files = Readonly<Record<string, string>>

async function planned(files: Files, host: readonly string[], toml?: string): Promise<Plan> {
  return resolvePlan({
    ...inputOf({ machine: machine(...host) }),
    detected: detect(memoryTree(files)),
    ...(toml !== undefined && { file: written(toml) }),
  })
}

const versions = ({ languages }: Plan): string[] =>
  languages.map(({ language, source }) => `${language} ${source.version} ${source.kind}`)

describe('environments: detection', () => {
  const world = new World()
  after(() => world[Symbol.asyncDispose]())

  async function explained(files: Files, ...words: string[]) {
    const directory = world.directory()
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(directory, path)), { recursive: true })
      writeFileSync(join(directory, path), text)
    }
    return world.cli(['config', 'explain', ...words], { cwd: directory })
  }

  test('E9: a language without a toolchain here is named, with the next step', async () => {
    const { code, stdout } = await explained({ 'gleam.toml': 'name = "shop"\n' })
    assert.equal(code, 0)
    assert.match(stdout, /gleam\.toml suggests Gleam/)
    assert.match(stdout, /install gleam on this machine/)
  })

  test('E9: a language that Debian has is planned with it', async () => {
    const plan = await planned({ 'main.cbl': '       PROGRAM-ID. HELLO.\n' }, [])
    assert.deepEqual(plan.resolvedBase, { base: 'debian', suite: 'bookworm' })
    assert.deepEqual(
      plan.tools.map(({ name, from }) => `${name} ${from}`),
      ['cobc packages'],
    )
    assert.match(plan.commands.start[0]?.run ?? '', /cobc -x .*main\.cbl/)
  })

  test('E9: a release of Debian that has the language is chosen, and so is a machine that has it', async () => {
    const files = { 'Package.swift': 'let package = Package(name: "shop")\n' }
    assert.deepEqual((await planned(files, [])).resolvedBase, { base: 'debian', suite: 'trixie' })
    const here = await planned(files, ['swift 6.1 /opt/swift/bin'])
    assert.equal(here.resolvedBase.base, 'host')
    assert.ok(here.path.includes('/opt/swift/bin'))
    assert.equal(here.commands.test[0]?.run, 'swift test')
  })

  test('E10: when a version is not available, everything else is explained', async () => {
    const files = { '.python-version': '3.99\n', 'requirements.txt': 'flask\n', 'app.py': 'app = Flask()\n' }
    const { code, stdout, stderr } = await explained(files)
    assert.equal(code, 6)
    assert.match(stdout, /languages\.python +3\.99 is not available/)
    assert.match(stdout, /managers\.python +pip/)
    assert.match(stdout, /commands\.dev +flask/)
    assert.match(stderr, /Python 3\.99 is not available/)
    const json = await explained(files, '--json')
    assert.equal(json.code, 6)
    const { problems, choices } = JSON.parse(json.stdout) as { problems: object[]; choices: object[] }
    assert.equal(problems.length, 1)
    assert.ok(choices.length > 3)
  })

  test('E11: a version that only this machine has goes with a service that only Debian has', async () => {
    const files = { '.python-version': '3.12\n', 'requirements.txt': 'redis\n' }
    const plan = await planned(files, ['python 3.12.1 /opt/python/bin'])
    assert.deepEqual(versions(plan), ['python 3.12.1 there'])
    assert.match(plan.notes.join('\n'), /left out: redis .*this machine does not have it; Debian has it/)
    // With a version that Debian has, the service comes with it.
    const other = await planned({ ...files, '.python-version': '3.11\n' }, ['python 3.11.7 /opt/python/bin'])
    assert.deepEqual(versions(other), ['python 3.11 packaged'])
    assert.deepEqual(
      other.services.map(({ name }) => name),
      ['redis'],
    )
  })

  test('E11: another patch of the same version will do, unless agentpod.toml names the patch', async () => {
    const files = { '.python-version': '3.12.3\n', 'requirements.txt': 'flask\n' }
    const host = ['python 3.12.1 /opt/python/bin', 'python 3.11.7 /usr/bin']
    const plan = await planned(files, host)
    assert.deepEqual(versions(plan), ['python 3.12.1 there'])
    assert.match(plan.notes.join('\n'), /Python 3\.12\.3 is not available; 3\.12\.1 is used/)
    await assert.rejects(
      planned(files, host, '[environment.languages]\npython = "3.12.3"'),
      /is not available/,
    )
  })

  test('E12: a Java is taken that the Gradle of the project runs on', async () => {
    const files = {
      'build.gradle': 'plugins { id "java" }\nsourceCompatibility = 1.8\n',
      gradlew: '',
      'gradle/wrapper/gradle-wrapper.jar': '',
      'gradle/wrapper/gradle-wrapper.properties':
        'distributionUrl=https\\://example.com/distributions/gradle-6.7-bin.zip\n',
    }
    const both = await planned(files, ['java 17.0.9 /usr/lib/jvm/17/bin', 'java 11.0.2 /usr/lib/jvm/11/bin'])
    assert.deepEqual(versions(both), ['java 11.0.2 there'])
    const debian = await planned(files, ['java 17.0.9 /usr/lib/jvm/17/bin'])
    assert.deepEqual(versions(debian), ['java 11 packaged'])
    const none = await planned(files, ['java 17.0.9 /usr/lib/jvm/17/bin'], '[environment]\nbase = "host"\n')
    assert.deepEqual(versions(none), ['java 17.0.9 there'])
    assert.match(none.notes.join('\n'), /gradle-wrapper\.properties:1 needs Java <=15, but 17\.0\.9 is used/)
  })

  test('E13: what Cursor installs is installed, and not twice', async () => {
    const cursor = (install: string): Files => ({ '.cursor/environment.json': JSON.stringify({ install }) })
    const installed = (plan: Plan): (readonly [string, string])[] =>
      plan.setups.map(({ name, run }) => [name, /-e -c '?(.*?)'?\n/.exec(run)?.[1] ?? run] as const)
    const alone = await planned(cursor('pip install httpx'), ['python 3.12.1 /usr/bin'])
    assert.deepEqual(installed(alone), [['prebuild/cursor', 'pip install httpx']])
    assert.deepEqual(
      alone.setups.flatMap(({ presets }) => presets),
      ['pip'],
    )
    const node = { 'package.json': '{"name":"shop"}', 'package-lock.json': '{"lockfileVersion":3}' }
    const host = ['node 22.1.0 /usr/bin', 'npm 10.9.0 /usr/bin']
    const same = await planned({ ...node, ...cursor('npm ci') }, host)
    assert.doesNotMatch(same.notes.join('\n'), /cursor/)
    const more = await planned({ ...node, ...cursor('npm ci && ./prepare.sh') }, host)
    assert.deepEqual(installed(more).slice(1), [['prebuild/cursor', './prepare.sh']])
    const script = await planned({ ...node, ...cursor('./scripts/setup.sh') }, host)
    assert.deepEqual(installed(script).slice(1), [['prebuild/cursor', './scripts/setup.sh']])
  })

  test('E15: what installs dependencies is explained by that name, with its command', async () => {
    const { code, stdout } = await explained({ 'requirements.txt': 'six\n' }, 'dependencies')
    assert.equal(code, 0)
    assert.match(stdout, /^dependencies\/python +by pip/)
    assert.match(stdout, /pip install -r requirements\.txt/)
  })

  test('E15: a language that agentpod.toml turns off opens no hosts and asks no package manager', async () => {
    const directory = world.directory()
    const files: Files = {
      'Cargo.toml': '[package]\nname = "shop"\nversion = "0.1.0"\n',
      'package.json': '{"name":"shop"}',
      'requirements.txt': 'six\n',
      'go.mod': 'module shop\n\ngo 1.19\n',
      'pom.xml': '<project><artifactId>shop</artifactId></project>',
    }
    for (const [path, text] of Object.entries(files)) writeFileSync(join(directory, path), text)
    const opened = async (name: string, off: readonly string[]): Promise<(string | undefined)[]> => {
      const languages = off.map((language) => `${language} = false\n`).join('')
      writeFileSync(join(directory, 'agentpod.toml'), `[environment.languages]\n${languages}`)
      await world.ok(['run', '--keep', '--name', name, '--', 'true'], { cwd: directory })
      const shown = await world.ok(['policy', 'show', '--json', name])
      await world.ok(['destroy', name])
      return [...new Set([...shown.matchAll(/"preset (\w+)"/g)].map(([, preset]) => preset))]
    }
    assert.deepEqual(await opened('none', ['rust', 'node', 'python', 'go', 'java']), [])
    assert.deepEqual(await opened('control', ['rust', 'python', 'go', 'java']), ['npm'])
  })

  test('E15: init asks for nothing that only this machine was the reason for', async () => {
    const plan = await planned({ 'package.json': '{}', '.nvmrc': '22\n', 'a.py': '' }, [
      'node 22.1.0 /usr/bin',
      'python 3.11.2 /usr/bin',
    ])
    const text = initText('shop', plan)
    assert.match(text, /^# base = "host"/m)
    assert.match(text, /^# python = "3\.11"/m)
    assert.match(text, /^node = "22"/m)
  })

  /** The whole corpus is src/config/detect/frameworks.test.ts. */
  const STARTS: readonly (readonly [files: Files, start: string])[] = [
    [{ 'requirements.txt': 'httpx\n', 'main.py': 'print(1)\n' }, 'python main.py'],
    [{ 'package.json': '{"main":"lib/app.js"}', 'lib/app.js': 'run()\n' }, 'node lib/app.js'],
    [{ 'package.json': '{"dependencies":{"nuxt":"4"}}' }, 'node .output/server/index.mjs'],
    [{ Gemfile: "gem 'sinatra'\n", 'app.rb': '' }, 'bundle exec ruby app.rb'],
    [{ 'main.ts': 'Deno.serve(() => new Response())\n' }, 'deno run -A main.ts'],
    [{ Staticfile: 'root: web\n' }, 'python3 -m http.server 8000 --directory web'],
  ]
  for (const [files, start] of STARTS)
    test(`E15: ${Object.keys(files).join(' and ')} is started with ${start}`, () => {
      const { findings } = detect(memoryTree(files))
      assert.equal(findings[0]?.commands.start?.run, start)
    })
})
