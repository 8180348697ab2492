// biome-ignore-all lint/suspicious/noTemplateCurlyInString: compose files have variables of this form
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { projectJsonSchema } from '../../config/project/json-schema.ts'
import { isAgentPodError } from '../../core/error.ts'
import { homeAt } from '../../core/home.ts'
import { parseArgs } from '../args/parse.ts'
import type { CommandContext } from '../command.ts'
import { command } from './config.ts'

const scratch = mkdtempSync(join(tmpdir(), 'agentpod-config-command-'))
after(() => rmSync(scratch, { recursive: true }))

async function config(words: string): Promise<{ readonly code: number; readonly lines: string[] }> {
  const lines: string[] = []
  const ctx = {
    cwd: scratch,
    env: process.env,
    home: homeAt(join(scratch, 'home')),
    terminal: { out: (line: string) => void lines.push(line), dim: (text: string) => text },
  } as unknown as CommandContext
  const code = await command.run(ctx, parseArgs(words.split(' '), command))
  return { code, lines }
}

const write = (name: string, text: string): void => writeFileSync(join(scratch, name), text)

describe('config check', () => {
  test('says that a file is right', async () => {
    write('agentpod.toml', '')
    assert.deepEqual(await config('check'), { code: 0, lines: ['agentpod.toml is valid'] })
    assert.deepEqual(await config('check --json'), { code: 0, lines: ['{"ok":true,"problems":[]}'] })
  })

  test('shows every problem where it stands', async () => {
    write('bad.toml', '[environment]\nbase = "debain" # é\n\n[environment.languages]\n\tpython = 3.10\n')
    assert.deepEqual(await config('check bad.toml'), {
      code: 2,
      lines: [
        'bad.toml:2:8: environment.base: must be "host", "debian", "image", "js", "python", "go", "rust", "java", "fullstack" or "polyglot", not "debain"',
        '  2 | base = "debain" # é',
        '    |        ^',
        '  hint: did you mean debian?',
        'bad.toml:5:11: environment.languages.python: must be a string or false, not the number 3.1',
        '  5 |  python = 3.10',
        '    |           ^',
        '  hint: write "3.10"',
      ],
    })
    const { code, lines } = await config('check bad.toml --json')
    assert.equal(code, 2)
    const { ok, problems } = JSON.parse(lines.join('')) as { ok: boolean; problems: object[] }
    assert.equal(ok, false)
    assert.deepEqual(problems[1], {
      file: 'bad.toml',
      line: 5,
      column: 11,
      path: 'environment.languages.python',
      message: 'environment.languages.python: must be a string or false, not the number 3.1',
      hint: 'write "3.10"',
      reason: 'file.malformed',
    })
  })

  test('shows the part of a long line that matters', async () => {
    write(
      'long.toml',
      `[environment.variables]\nA = "${'x'.repeat(500)}"\n[services]\nx = { run = "${'y'.repeat(300)}", port = 80 }\n`,
    )
    const { lines } = await config('check long.toml')
    assert.equal(lines.length, 4)
    const [, source = '', mark = ''] = lines
    assert.ok(source.length < 120)
    assert.equal(source.slice(mark.indexOf('^')).slice(0, 2), '80')
  })

  test('SECURITY: a file does not speak to the terminal', async () => {
    write('evil.toml', 'x = 1 # \u202e\u200b\n"\\u001b[2J" = 1\n[a]\n# \u0085\n')
    const { lines } = await config('check evil.toml')
    for (const line of lines) assert.doesNotMatch(line, /[\p{C}\p{Zl}\p{Zp}]/u)
    assert.deepEqual(lines.slice(0, 3), ['evil.toml:1:1: unknown key x', '  1 | x = 1 #', '    | ^'])
  })

  test('takes a directory for the file in it, and the user’s file for what it is', async () => {
    mkdirSync(join(scratch, 'project'))
    write('project/agentpod.toml', '[grants]\n')
    assert.deepEqual(
      (await config('check project')).lines[0],
      'project/agentpod.toml:1:2: unknown key grants',
    )
    mkdirSync(join(scratch, 'home'))
    write('home/config.toml', '[grants]\nsudo = true\n')
    assert.equal((await config('check home/config.toml')).code, 0)
  })

  test('checks a devcontainer.json by its name', async () => {
    write('.devcontainer.json', '{ "image": "debian:12",\n  "waitfor": 1 } // x\n')
    assert.deepEqual(await config('check .devcontainer.json'), {
      code: 2,
      lines: [
        '.devcontainer.json:2:3: unknown key waitfor',
        '  2 |   "waitfor": 1 } // x',
        '    |   ^',
        '  hint: did you mean waitFor?',
      ],
    })
    write('.devcontainer.json', '{ "image": "debian:12" } // x\n')
    assert.equal((await config('check .devcontainer.json')).code, 0)
  })

  test('checks a compose file by its name, with every problem', async () => {
    write(
      'compose.yaml',
      'services:\n  a:\n    image: x\n    nonsense: 1\n  b:\n    image: x\n    other: 2\n',
    )
    const { code, lines } = await config('check compose.yaml')
    assert.equal(code, 2)
    assert.match(lines[0] ?? '', /^compose\.yaml:4:5: .*nonsense/)
    assert.equal(lines[1], '  4 |     nonsense: 1')
    assert.ok(
      lines.some((line) => line.startsWith('compose.yaml:7:5: ')),
      lines.join('\n'),
    )
    write('compose.yaml', 'services:\n  a:\n    image: debian:12\n')
    assert.deepEqual(await config('check compose.yaml'), { code: 0, lines: ['compose.yaml is valid'] })
  })

  test('CMP-13 names what of a compose file is not used, and reads no .env that git ignores', async () => {
    mkdirSync(join(scratch, 'noted'))
    execFileSync('git', ['init', '-q'], { cwd: join(scratch, 'noted') })
    write('noted/.gitignore', '.env\n')
    write('noted/.env', 'TAG=12\n')
    write('noted/compose.yaml', 'services:\n  a:\n    image: debian:1$TAG\n    restart: always\n')
    assert.deepEqual((await config('check noted/compose.yaml')).lines, [
      'noted/compose.yaml is valid',
      'note: noted/compose.yaml:3: the variable TAG is not set and counts as empty; .env is not read, because git ignores it: write a default, ${TAG:-VALUE}, or let git track the file',
      'note: noted/compose.yaml:4: restart is not used: a service that ends is not started again',
    ])
  })

  test('CMP-17 refuses options that do not apply to it', () =>
    assert.rejects(config('check --service a'), /--service does not apply to `agentpod config check`/))

  test('without a path checks every file that it knows', async () => {
    mkdirSync(join(scratch, 'all/.devcontainer/one'), { recursive: true })
    await assert.rejects(config('check all'), (error) => isAgentPodError(error, 'not_found'))
    write('all/agentpod.toml', '')
    write('all/.devcontainer/one/devcontainer.json', '{ "image": 1 }')
    write('all/docker-compose.yml', 'services: 1\n')
    const { code, lines } = await config('check all')
    assert.equal(code, 2)
    assert.equal(lines[0], 'all/agentpod.toml is valid')
    assert.match(lines[1] ?? '', /^all\/\.devcontainer\/one\/devcontainer\.json:1:12: image: /)
    assert.ok(
      lines.some((line) => line.startsWith('all/docker-compose.yml:1:')),
      lines.join('\n'),
    )
  })

  test('tells of a file that is no text, without a line of it', async () => {
    writeFileSync(join(scratch, 'utf16.toml'), new Uint8Array([0xff, 0xfe]))
    assert.deepEqual((await config('check utf16.toml')).lines, [
      'utf16.toml:1:1: is not UTF-8 from here',
      '  hint: save it as UTF-8',
    ])
  })

  test('of a file that is not there says so', () =>
    assert.rejects(config('check nothing.toml'), (error) => isAgentPodError(error, 'not_found')))
})

describe('config', () => {
  test('schema prints the schema', async () => {
    const { code, lines } = await config('schema')
    assert.equal(code, 0)
    assert.deepEqual(JSON.parse(lines.join('\n')), projectJsonSchema())
  })

  for (const [words, hint] of [
    ['chekc', /agentpod config check/],
    ['schema now', /usage|agentpod config schema/],
    ['toString', /agentpod config check/],
  ] as const)
    test(`${words} is no call`, () =>
      assert.rejects(
        config(words),
        (error) => isAgentPodError(error, 'invalid_argument') && hint.test(error.hint ?? ''),
      ))
})
