/**
 * Repairs a project: lists its files, sees its test fail, changes the file, sees the test pass. The bug is a
 * minus in `sum`, where a plus belongs.
 */
import { inTurn, running, type Scenario } from './scenario.ts'

const TESTS: readonly (readonly [file: RegExp, command: string])[] = [
  [/\bpackage\.json\b/, 'npm test'],
  [/\bgo\.mod\b/, 'go test ./...'],
  [/\bCargo\.toml\b/, 'cargo test'],
  [/\bMakefile\b/, 'make test'],
  [/\.py\b/, 'python3 -m unittest'],
]
const FAILED = /not ok|FAIL|fail [1-9]|AssertionError/

export const fix: Scenario = (talk) => {
  const [seen = '', , , , after = ''] = talk.results
  const test = TESTS.find(([file]) => file.test(seen))?.[1] ?? 'npm test'
  const path = /(?:^|[\s/])((?:src\/)?sum\.\w+)\s*$/m.exec(seen)?.[1] ?? 'sum.js'
  const tasks = [
    running(
      'I look at the project first.',
      'find . -name node_modules -prune -o -name .git -prune -o -type f -print',
    ),
    running('I run the tests to see what fails.', test),
    { say: 'I read the code that the test is about.', deed: { do: 'read', path } as const },
    {
      say: 'It subtracts where it should add.',
      deed: { do: 'replace', path, from: 'a - b', to: 'a + b' } as const,
    },
    running('I run the tests again.', test),
  ]
  return inTurn(talk, tasks, () =>
    FAILED.test(after)
      ? `The tests still fail after my change to ${path}.`
      : `I fixed ${path}: it adds now, and the tests pass.`,
  )
}
