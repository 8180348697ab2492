import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { evidencePlace } from '../../testing/detector-table.ts'
import { memoryTree } from '../../testing/memory-tree.ts'
import { ciPackages, ciTestCommand } from './ci-workflows.ts'
import { aptPackages, shellCommands, shellLines } from './shell-lines.ts'

const CI = '.github/workflows/ci.yml'

const packagesOf = (files: Readonly<Record<string, string>>): string[] =>
  ciPackages(memoryTree(files)).map(({ name, evidence }) => `${name} ${evidencePlace(evidence)}`)

describe('packages of workflows', () => {
  const job = (id: string, run: string, more = ''): string =>
    `  ${id}:\n    steps:\n      - run: ${run}\n${more}`
  test('packages of workflows come from test jobs on Linux', () => {
    const files = {
      [CI]: `jobs:\n${job('test', 'sudo apt-get install -y libxml2-dev xmlsec1', '        if: runner.os == "Linux"\n')}${job('windows-test', 'apt-get install no')}${job('build', 'sudo apt install gcc', "        if: matrix.target == 'arm'\n")}`,
      '.github/workflows/release.yml': `jobs:\n${job('build', 'apt-get install no')}`,
    }
    assert.deepEqual(packagesOf(files), [`libxml2-dev ${CI}:4`, `xmlsec1 ${CI}:4`])
  })
})

describe('the command that a workflow tests with', () => {
  const command = (text: string): string | undefined => {
    const found = ciTestCommand(memoryTree({ [CI]: text }))
    return found && `${found.run} ${evidencePlace(found.evidence)}`
  }
  const rows: readonly (readonly [what: string, text: string, wanted: string | undefined])[] = [
    [
      'is that of the job for it',
      'jobs:\n  build:\n    steps:\n      - run: make test\n  test:\n    steps:\n      - run: npm run build\n      - run: npm test -- --ci\n',
      `npm test -- --ci ${CI}:8`,
    ],
    [
      'stands among others',
      'jobs:\n  ci:\n    steps:\n      - run: |\n          pip install tox\n          python -m pytest -x\n',
      `python -m pytest -x ${CI}:4`,
    ],
    [
      'is run in its directory',
      'jobs:\n  test:\n    steps:\n      - run: go test ./...\n        working-directory: server\n',
      `(cd server && go test ./...) ${CI}:4`,
    ],
    ['is computed', `jobs:\n  test:\n    steps:\n      - run: cargo test \${{ matrix.flags }}\n`, undefined],
    ['is only for a release', 'jobs:\n  release:\n    steps:\n      - run: npm test\n', undefined],
    ['is not there', 'jobs:\n  test:\n    steps:\n      - run: echo hello\n', undefined],
    ...[
      'bundle exec rspec',
      './gradlew check',
      'mvn -B verify',
      'mix test',
      'dotnet test',
      'composer test',
      'uv run pytest',
      'ctest --output-on-failure',
      'just test',
    ].map(
      (run) =>
        [`may be ${run}`, `jobs:\n  test:\n    steps:\n      - run: ${run}\n`, `${run} ${CI}:4`] as const,
    ),
  ]
  for (const [what, text, wanted] of rows) test(what, () => assert.equal(command(text), wanted))
})

describe('scripts for a shell', () => {
  test('shell scripts have continuation lines', () => {
    assert.deepEqual(shellLines('# x\na \\\n  b\n\nc\n'), [
      { text: 'a b', offset: 1 },
      { text: 'c', offset: 4 },
    ])
  })

  test('commands in shell scripts lose prefixes such as sudo', () => {
    assert.deepEqual(
      shellCommands('sudo -E DEBIAN_FRONTEND=noninteractive apt-get update && exec a | b; c || d'),
      ['apt-get update', 'a', 'b', 'c', 'd'],
    )
  })

  const apt: readonly (readonly [command: string, packages: readonly string[] | undefined])[] = [
    ['apt-get install -y a1 b-c', ['a1', 'b-c']],
    ['apt-get -qq -y install libssl3:amd64 g++', ['libssl3', 'g++']],
    ['apt install -o X=y -t stable abc', ['abc']],
    ['apt-get install -y "abc" linux-headers-$(uname -r) ./x.deb $PACKAGES', ['abc']],
    ['apt-get install abc > /dev/null', ['abc']],
    ['apt-get update', []],
    ['npm install abc', undefined],
  ]
  for (const [command, packages] of apt) test(command, () => assert.deepEqual(aptPackages(command), packages))
})
