/** Files that somebody wrote to break us, and files that nobody wrote. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { parse } from 'smol-toml'
import { isAgentPodError } from '../../core/error.ts'
import { readProjectFile, readUser } from '../config-files.ts'
import { FULL } from '../testing/full-file.ts'
import { type Path, positionsOf } from '../toml/positions.ts'
import { type Problem, problemsIn } from '../toml/problem.ts'
import { parseProject } from './project-file.ts'

const scratch = mkdtempSync(join(tmpdir(), 'agentpod-hostile-'))
after(() => rmSync(scratch, { recursive: true }))

let count = 0
function place(): string {
  const directory = join(scratch, `p${count++}`)
  mkdirSync(directory)
  return directory
}

function project(content: string | Uint8Array): string {
  const directory = place()
  writeFileSync(join(directory, 'agentpod.toml'), content)
  return directory
}

/**
 * The problems of what was thrown, which must be an error of ours that says them, in words fit for a
 * terminal.
 */
function problemsOf(error: unknown): readonly Problem[] {
  const problems = problemsIn(error)
  if (!problems || !isAgentPodError(error, 'invalid_argument')) throw error
  assert.doesNotMatch(error.message.replaceAll('\n', ''), /\p{C}|\p{Zl}|\p{Zp}/u)
  assert.ok(problems.length > 0 && problems.length <= 20)
  return problems
}

function refused(read: () => unknown): readonly Problem[] {
  try {
    read()
  } catch (error) {
    return problemsOf(error)
  }
  assert.fail('it was taken')
}

describe('what is no plain file', () => {
  test('a link, even to a file that is right', () => {
    const directory = place()
    symlinkSync(join(project(FULL), 'agentpod.toml'), join(directory, 'agentpod.toml'))
    assert.match(
      refused(() => readProjectFile(directory))[0]?.message ?? '',
      /is a symbolic link, not a file/,
    )
  })

  test('a directory', () => {
    const directory = place()
    mkdirSync(join(directory, 'agentpod.toml'))
    assert.match(refused(() => readProjectFile(directory))[0]?.message ?? '', /is not a file/)
  })

  test('a pipe that nobody writes to', () => {
    const directory = place()
    execFileSync('mkfifo', [join(directory, 'agentpod.toml')])
    assert.match(refused(() => readProjectFile(directory))[0]?.message ?? '', /is not a file/)
  })

  test('a file that may not be read', { skip: process.getuid?.() === 0 && 'root reads everything' }, () => {
    const directory = project(FULL)
    chmodSync(join(directory, 'agentpod.toml'), 0)
    assert.match(refused(() => readProjectFile(directory))[0]?.message ?? '', /cannot be read \(EACCES\)/)
  })

  test('a file that is too large, and one that just is not', () => {
    const comment = (size: number): string => `#${'x'.repeat(size - 1)}`
    assert.match(
      refused(() => readProjectFile(project(comment(1024 * 1024 + 1))))[0]?.message ?? '',
      /is larger than 1048576 bytes/,
    )
    assert.ok(readProjectFile(project(comment(1024 * 1024))))
  })

  test('while the user’s own file may be a link', () => {
    const [home, other] = [place(), place()]
    writeFileSync(join(other, 'config.toml'), '[network]\nmode = "off"\n')
    symlinkSync(join(other, 'config.toml'), join(home, 'config.toml'))
    assert.equal(readUser(home).mode, 'off')
  })
})

describe('bytes', () => {
  test('a byte order mark is no part of the text', () => {
    assert.equal(readProjectFile(project(`\ufeff${FULL}`))?.data.environment.name, 'my-project')
    const [problem] = refused(() => readProjectFile(project('\ufeffx = 1')))
    assert.deepEqual([problem?.line, problem?.column], [1, 1])
  })

  for (const [name, bytes, line, column] of [
    ['a byte that begins nothing', [0x23, 0x0a, 0x61, 0x3d, 0xff], 2, 3],
    ['a character that is cut off', [0x23, 0xc3, 0xa9, 0xc3], 1, 3],
    ['UTF-16', [0xff, 0xfe, 0x61, 0x00], 1, 1],
    ['a surrogate', [0x23, 0xed, 0xa0, 0x80], 1, 2],
    ['an overlong slash', [0x23, 0xc0, 0xaf], 1, 2],
  ] as const)
    test(`${name} is refused where it stands`, () => {
      const [problem] = refused(() => readProjectFile(project(new Uint8Array(bytes))))
      assert.match(problem?.message ?? '', /not UTF-8/)
      assert.deepEqual([problem?.line, problem?.column], [line, column])
    })

  test('the character that stands for broken ones is taken', () =>
    assert.ok(readProjectFile(project('# \ufffd\n'))))
})

describe('words that go to a terminal', () => {
  const ESCAPE = '\\u001b]0;owned\\u0007\\u009b2J\\u202e'
  for (const text of [
    `"${ESCAPE}" = 1`,
    `["${ESCAPE}"]`,
    `[environment]\nbase = "${ESCAPE}"`,
    `[environment.languages]\n"${ESCAPE}" = "1"`,
    `[environment.variables]\n"${ESCAPE}" = "1"`,
    `[services."${ESCAPE}"]`,
    `[network]\npresets = ["${ESCAPE}"]`,
    `[network]\nallow = ["${ESCAPE}", { host = "${ESCAPE}" }, { "${ESCAPE}" = 1 }]`,
    `[secrets]\n"${ESCAPE}" = {}`,
    `[profiles."${ESCAPE}".network]\nmode = "open"`,
    `[lifecycle]\nsetup = { run = "x", inputs = ["${ESCAPE}"] }`,
    `x = 1\n"${ESCAPE}" = 1\n"${ESCAPE}" = 1`,
    'x = \u001b[2J',
  ])
    test(JSON.stringify(text), () => void refused(() => parseProject({ file: 'agentpod.toml', text })))
})

describe('nothing reaches a prototype', () => {
  for (const text of [
    '[__proto__]\nsudo = true',
    '[environment.__proto__]\nsudo = true',
    '[constructor.prototype]\nsudo = true',
    'environment.variables.__proto__ = "x"',
    '[services]\n"__proto__" = { run = "x" }',
    '[profiles."__proto__"]',
    '[services.x.variables]\n"\\u005f_proto__" = "x"',
  ])
    test(text, () => {
      refused(() => parseProject({ file: 'agentpod.toml', text }))
      assert.equal(Object.hasOwn(Object.prototype, 'sudo'), false)
    })

  test('names of object methods are ordinary names', () => {
    const { data } = parseProject({
      file: 'x',
      text: '[environment.variables]\ntoString = "x"\nvalueOf = "y"',
    })
    assert.deepEqual(Object.entries(data.environment.variables), [
      ['toString', 'x'],
      ['valueOf', 'y'],
    ])
  })
})

describe('size', { timeout: 60_000 }, () => {
  for (const [name, text] of [
    ['dots', `${'a.'.repeat(250_000)}a = 1`],
    ['dots in a header', `[${'a.'.repeat(250_000)}a]`],
    ['brackets', `a = ${'['.repeat(1_000_000)}`],
    ['braces', `a = ${'{a='.repeat(300_000)}`],
    ['headers', '[[a]]\n'.repeat(150_000)],
    ['keys', Array.from({ length: 90_000 }, (_, index) => `k${index}=1`).join('\n')],
    [
      'names of variables',
      `[environment.variables]\n${Array.from({ length: 60_000 }, (_, index) => `1${index}="x"`).join('\n')}`,
    ],
    ['one long list', `[environment.packages]\napt = [${'"-",'.repeat(200_000)}]`],
    ['rules', `[network]\nallow = [${'"*.com",'.repeat(100_000)}]`],
    ['one long line', `x = "${'\\u0041'.repeat(150_000)}"`],
    ['a long version', `[environment.languages]\nnode = "${'1.'.repeat(400_000)}"`],
    ['a long requirement', `[environment.packages]\npip = ["${'a==1,'.repeat(200_000)}"]`],
    ['blanks', `${' '.repeat(500_000)}\n${'\n'.repeat(400_000)}x = 1`],
    ['quotes', `x = """${'""\\"'.repeat(200_000)}`],
  ] as const)
    test(`a file of ${name} is refused`, () =>
      void refused(() => parseProject({ file: 'agentpod.toml', text })))
})

/** Numbers that are the same in every run. */
function numbers(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}

const PIECES = [
  '"',
  "'",
  '"""',
  "'''",
  '[',
  ']',
  '[[',
  '{',
  '}',
  '=',
  '.',
  ',',
  '#',
  '\n',
  '\r\n',
  '\t',
  '\\',
  '\\u0000',
  '\u0000',
  '__proto__',
  'constructor',
  'true',
  'false',
  '-1',
  '1e9',
  'nan',
  '1979-05-27 07:32:00',
  'é😀',
  '\u202e',
  '[profiles.ci.network]\n',
  'mode = "open"\n',
  'x = 1\n',
  '{}',
  '[]',
  '" = "',
  '*.com',
]

function mutated(text: string, random: (below: number) => number): string {
  let result = text
  for (let changes = 1 + random(4); changes > 0; changes--) {
    const at = random(result.length + 1)
    const length = random(12)
    const piece = PIECES[random(PIECES.length)] ?? ''
    const other = random(result.length + 1)
    const moved = result.slice(other, other + random(40))
    const inserted = [piece, moved, '', String.fromCharCode(random(0x300))][random(4)] ?? ''
    result = result.slice(0, at) + inserted + result.slice(at + (random(2) === 0 ? 0 : length))
  }
  return result
}

describe('a right file with random changes', { timeout: 120_000 }, () => {
  const random = numbers(20_261_116)
  const files = Array.from({ length: 2_000 }, () => mutated(FULL, random))

  test('a file with random changes is accepted, or refused with positions inside it', () => {
    let taken = 0
    for (const text of files) {
      let problems: readonly Problem[] = []
      try {
        parseProject({ file: 'agentpod.toml', text })
        taken++
      } catch (error) {
        problems = problemsOf(error)
      }
      const lines = text.split('\n')
      for (const { line = 0, column = 0, message } of problems) {
        assert.ok(message.length > 0)
        assert.ok(line >= 1 && line <= lines.length, `${line} of ${lines.length}`)
        assert.ok(column >= 1 && column <= [...(lines[line - 1] ?? '')].length + 1, message)
      }
    }
    // Both ways must have been gone often for this to say something.
    assert.ok(taken > 100 && taken < 1_900, String(taken))
  })

  test('each value in a file with random changes has its position and text', () => {
    let compared = 0
    for (const text of files) {
      let document: unknown
      try {
        document = parse(text)
      } catch {
        continue
      }
      const positions = positionsOf(text)
      visit(document, [], (value, path) => {
        const raw = positions.raw(path)
        assert.notEqual(positions.value(path), undefined, JSON.stringify([path, text]))
        if (raw === undefined) return
        assert.deepEqual(parse(`x = ${raw}`)['x'], value)
        compared++
      })
    }
    assert.ok(compared > 10_000, String(compared))
  })
})

function visit(value: unknown, path: Path, use: (value: unknown, path: Path) => void): void {
  if (path.length > 0) use(value, path)
  if (Array.isArray(value)) for (const [index, inner] of value.entries()) visit(inner, [...path, index], use)
  else if (typeof value === 'object' && value !== null && !(value instanceof Date))
    for (const [key, inner] of Object.entries(value)) visit(inner, [...path, key], use)
}
