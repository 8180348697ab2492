import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Language } from '../../detect/finding.ts'
import { type Candidate, RANKS, type Rank } from '../../evidence.ts'
import { chooseVersion, searchOrder } from './choose-version.ts'

/** `22 range package.json` */
function candidate(text: string): Candidate {
  const [, value = '', rank = '', file = ''] = /^(.*) \[(.*)\] (.*)$/.exec(text) ?? []
  return { value, rank: rank as Rank, evidence: { file, said: `${file} says ${value}` } }
}

interface Row {
  readonly name: string
  readonly language: Language
  readonly said: readonly string[]
  readonly value: string
  readonly rank: Rank
  /** Why each of the others lost, in order. */
  readonly beat?: readonly RegExp[]
  readonly note?: RegExp
  readonly attempts?: readonly (readonly string[])[]
}

const ROWS: readonly Row[] = [
  {
    name: 'a version file goes before CI, and CI before a range',
    language: 'node',
    said: ['>=18 [range] package.json', '22 [ci] ci.yml', '20 [version file] .nvmrc'],
    value: '20',
    rank: 'version file',
    beat: [/^it differs from 20, and a version file goes before CI$/, /^it agrees with 20$/],
    attempts: [['20', '>=18'], ['20']],
  },
  {
    name: 'agentpod.toml goes before everything that is found',
    language: 'node',
    said: ['20 [version file] .nvmrc', '18 [agentpod.toml] agentpod.toml', '22 [agent file] env.json'],
    value: '18',
    rank: 'agentpod.toml',
    beat: [
      /^it differs from 18, and agentpod.toml goes before a file for agents$/,
      /^it differs from 18, and agentpod.toml goes before a version file$/,
    ],
    attempts: [['18']],
  },
  {
    name: 'a range that forbids what is taken is a conflict that is told',
    language: 'node',
    said: ['18 [version file] .nvmrc', '>=20 [range] package.json'],
    value: '18',
    rank: 'version file',
    beat: [/^it contradicts 18, and a version file goes before a range$/],
    note: /^\.nvmrc wants 18 and package\.json wants >=20; make them agree/,
    attempts: [['18']],
  },
  {
    name: 'ranges that exclude one another are a conflict, also where one is chosen',
    language: 'node',
    said: ['>=22 [agentpod.toml] agentpod.toml', '<20 [range] package.json'],
    value: '>=22',
    rank: 'agentpod.toml',
    beat: [/^it contradicts >=22/],
    note: /agentpod\.toml wants >=22 and package\.json wants <20/,
  },
  {
    name: 'two version files that differ are a conflict, and the nearer one is taken',
    language: 'node',
    said: ['20 [version file] .nvmrc', '18 [version file] web/.nvmrc'],
    value: '20',
    rank: 'version file',
    beat: [/^it differs from 20, whose file is nearer$/],
    note: /web\/\.nvmrc wants 18/,
  },
  {
    name: 'a version and its line are no conflict',
    language: 'python',
    said: ['3.11.4 [version file] .python-version', '3.11 [manifest] Pipfile'],
    value: '3.11.4',
    rank: 'version file',
    beat: [/^it agrees with 3\.11\.4$/],
  },
  {
    name: 'of a matrix the newest that the ranges allow',
    language: 'python',
    said: [
      '3.9 [ci] ci.yml',
      '3.10 [ci] ci.yml',
      '3.13 [ci] ci.yml',
      '3.12 [ci] ci.yml',
      '>=3.9,<3.13 [range] pyproject.toml',
    ],
    value: '3.12',
    rank: 'ci',
    beat: [/^3\.12 is newer$/, /^3\.12 is newer$/, /^a range does not allow it$/, /^it agrees with 3\.12$/],
    attempts: [['3.12', '>=3.9,<3.13'], ['3.12'], ['>=3.9,<3.13']],
  },
  {
    name: '3.9 is older than 3.10 in a matrix',
    language: 'python',
    said: ['3.10 [ci] ci.yml', '3.9 [ci] ci.yml'],
    value: '3.10',
    rank: 'ci',
    attempts: [['3.10'], ['*']],
  },
  {
    name: 'of a matrix that no range allows the newest, and it is told',
    language: 'node',
    said: ['16 [ci] ci.yml', '18 [ci] ci.yml', '>=20 [range] package.json'],
    value: '18',
    rank: 'ci',
    note: /ci\.yml wants 18 and package\.json wants >=20/,
    attempts: [['18'], ['>=20']],
  },
  {
    name: 'of classifiers the newest that requires-python allows',
    language: 'python',
    said: [
      '>=3.8,<3.12 [range] pyproject.toml',
      '3.8 [range] pyproject.toml',
      '3.12 [range] pyproject.toml',
      '3.11 [range] pyproject.toml',
    ],
    value: '3.11',
    rank: 'range',
    beat: [/^it agrees with 3\.11$/, /^3\.11 is newer$/, /^a range does not allow it$/],
    attempts: [['3.11', '>=3.8,<3.12'], ['3.11'], ['>=3.8,<3.12']],
  },
  {
    name: 'a range alone is the wish itself',
    language: 'python',
    said: ['>=3.10 [range] pyproject.toml'],
    value: '>=3.10',
    rank: 'range',
    attempts: [['>=3.10']],
  },
  {
    name: 'ranges of several packages have to be met together',
    language: 'node',
    said: ['>=18 [range] package.json', '>=20 [range] web/package.json'],
    value: '>=18',
    rank: 'range',
    beat: [/^it agrees with >=18$/],
    attempts: [['>=18', '>=20'], ['>=18']],
  },
  {
    name: 'of modules in Go the one that needs most',
    language: 'go',
    said: ['>=1.22 [manifest] go.mod', '>=1.24.1 [manifest] tools/go.mod'],
    value: '>=1.24.1',
    rank: 'manifest',
    beat: [/^it agrees with >=1\.24\.1$/],
    attempts: [['>=1.24.1', '>=1.22'], ['>=1.24.1']],
  },
  {
    name: 'a Java that a manifest builds for may be a newer one',
    language: 'java',
    said: ['1.8 [manifest] pom.xml'],
    value: '1.8',
    rank: 'manifest',
    attempts: [['1.8'], ['>=8']],
  },
  {
    name: 'a Java that a version file names is that one',
    language: 'java',
    said: ['17 [version file] .java-version'],
    value: '17',
    rank: 'version file',
    attempts: [['17']],
  },
  {
    name: 'what names no version loses to what does, and is told',
    language: 'rust',
    said: ['nightly-2024-01-01 [version file] rust-toolchain.toml', '>=1.70 [range] Cargo.toml'],
    value: '>=1.70',
    rank: 'range',
    beat: [/^it does not name a known version$/],
  },
]

describe('of everything that says a version', () => {
  for (const { name, language, said, value, rank, beat, note, attempts } of ROWS)
    test(name, () => {
      const candidates = said.map(candidate)
      const choice = chooseVersion(language, candidates)
      assert.ok(choice)
      assert.deepEqual([choice.value, choice.rank], [value, rank])
      assert.equal(choice.beat.length, said.length - 1)
      for (const [index, why] of (beat ?? []).entries()) assert.match(choice.beat[index]?.why ?? '', why)
      if (note) assert.match(choice.note ?? '', note)
      else assert.equal(choice.note, undefined)
      if (attempts) assert.deepEqual(searchOrder(language, choice, candidates), attempts)
    })

  test('ENV-2 every rank of sources goes before those below it, in whatever order they are found', () => {
    for (const [at, rank] of RANKS.entries())
      for (const lower of RANKS.slice(at + 1)) {
        const high = candidate(`20 [${rank}] high`)
        const low = candidate(`18 [${lower}] low`)
        for (const said of [
          [high, low],
          [low, high],
        ]) {
          const choice = chooseVersion('node', said)
          assert.equal(choice?.evidence.file, 'high', `${rank} before ${lower}`)
          assert.match(choice?.beat[0]?.why ?? '', /^it differs from 20, and \S.* goes before \S/)
          assert.doesNotMatch(choice?.beat[0]?.why ?? '', /\ba [aeiou]|undefined/)
        }
      }
  })

  test('no version is chosen if no candidate is a version', () => {
    assert.equal(chooseVersion('node', []), undefined)
    assert.equal(chooseVersion('python', [candidate('pypy3.9 [version file] .python-version')]), undefined)
  })

  test('SECURITY: what is told of it does a terminal no harm', () => {
    const evil = '\u001b[2J\n[evil]'
    const choice = chooseVersion('node', [
      { value: '20', rank: 'version file', evidence: { file: `a${evil}/.nvmrc`, said: evil } },
      { value: '>=22', rank: 'range', evidence: { file: `b${evil}`, said: evil } },
    ])
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be there
    assert.doesNotMatch(`${choice?.note}${choice?.beat[0]?.why}`, /[\u0000-\u001f]/)
  })
})
