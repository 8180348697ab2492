import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { evidencePlace } from '../../testing/detector-table.ts'
import { memoryTree } from '../../testing/memory-tree.ts'
import { ciTestCommand, detectAgentFiles } from './agent-files.ts'
import { aptPackages, shellCommands, shellLines } from './shell-lines.ts'

const CURSOR = '.cursor/environment.json'
const COPILOT = '.github/workflows/copilot-setup-steps.yml'
const CI = '.github/workflows/ci.yml'

const packagesOf = (files: Readonly<Record<string, string>>): string[] =>
  detectAgentFiles(memoryTree(files)).packages.map(
    ({ name, evidence }) => `${name} ${evidencePlace(evidence)}`,
  )

describe('a file of Cursor’s', () => {
  test('a Cursor environment file gives install and start commands and ports', () => {
    const found = detectAgentFiles(
      memoryTree({
        [CURSOR]: `{
  // ours
  "build": { "dockerfile": "Dockerfile" },
  "install": "sudo apt-get install -y libpq-dev && npm ci",
  "start": "sudo service postgresql start",
  "terminals": [{ "name": "dev", "command": "npm run dev" }],
  "ports": [{ "name": "web", "port": 3000 }, { "port": 0 }, { "port": "x" }],
}`,
      }),
    )
    assert.deepEqual(found.commands, {
      setup: {
        run: 'npm ci',
        evidence: { file: CURSOR, line: 4, said: '"install": "npm ci"' },
      },
    })
    assert.deepEqual(
      found.packages.map(({ name }) => name),
      ['libpq-dev'],
    )
    assert.deepEqual(
      found.ports.map(({ port }) => port),
      [3000],
    )
    assert.match(found.notes.join('\n'), /starts `sudo service postgresql start` beside the agent/)
    assert.match(found.notes.join('\n'), /runs `npm run dev` in a terminal/)
    assert.match(found.notes.join('\n'), /Dockerfiles are not read yet/)
  })

  test('a malformed Cursor environment file is reported in a note', () => {
    assert.match(detectAgentFiles(memoryTree({ [CURSOR]: '{ "install" }' })).notes[0] ?? '', /is malformed/)
  })
})

describe('what prepares a machine for GitHub’s agent', () => {
  const workflow = (steps: string, job = 'copilot-setup-steps'): Record<string, string> => ({
    [COPILOT]: `jobs:\n  ${job}:\n    steps:\n${steps}`,
  })

  test('copilot-setup-steps gives install commands, and notes for its other steps', () => {
    const found = detectAgentFiles(
      memoryTree(
        workflow(
          `      - uses: actions/checkout@v4
      - uses: actions/setup-node@v4
      - uses: example/magic@v1
      - run: npm ci
      - run: |
          set -e
          sudo apt-get update
          sudo apt-get install -y --no-install-recommends \\
            libpq-dev \\
            ffmpeg=7:5.1
          ./magic.sh --all
      - run: pip install -r requirements.txt
        working-directory: ./api
      - run: echo \${{ secrets.X }}
`,
        ),
      ),
    )
    assert.equal(found.commands.setup?.run, 'npm ci && (cd api && pip install -r requirements.txt)')
    assert.equal(found.commands.setup?.evidence.line, 7)
    assert.deepEqual(
      found.packages.map(({ name }) => name),
      ['libpq-dev', 'ffmpeg'],
    )
    assert.deepEqual(found.notes.length, 3)
    assert.match(found.notes[0] ?? '', /uses `example\/magic`, which is not supported/)
    assert.match(found.notes[1] ?? '', /runs `\.\/magic\.sh --all`/)
  })

  test('copilot-setup-steps needs a job of that name', () => {
    const found = detectAgentFiles(memoryTree(workflow('      - run: npm ci\n', 'setup')))
    assert.deepEqual(found.commands, {})
    assert.match(found.notes[0] ?? '', /has no job named copilot-setup-steps/)
  })
})

describe('a Procfile', () => {
  test('a Procfile gives the start command of the web process, with a port', () => {
    const found = detectAgentFiles(
      memoryTree({
        Procfile: '# x\nrelease: rake db:migrate\r\nweb: gunicorn app:app -b :$PORT\r\nworker: celery\n',
      }),
    )
    assert.equal(found.commands.start?.run, `export PORT="\${PORT:-5000}"; gunicorn app:app -b :$PORT`)
    assert.equal(found.commands.start?.evidence.line, 3)
    assert.deepEqual(
      found.ports.map(({ port }) => port),
      [5000],
    )
    assert.equal(found.notes.length, 2)
  })

  test('a Procfile may need no port', () => {
    assert.equal(
      detectAgentFiles(memoryTree({ Procfile: 'web: node server.js' })).commands.start?.run,
      'node server.js',
    )
  })
})

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
