/** Reads CI workflows: the packages that they install, and the command that they test with. */
import { shellWord } from '../../../util/shell/shell-word.ts'
import type { FileTree } from '../../file-tree.ts'
import type { FoundCommand, FoundPackage } from '../finding.ts'
import { distinctPackages } from '../project-files/debian-packages.ts'
import { shortQuote } from '../project-files/parsed-file.ts'
import { pathInProject } from '../project-files/paths.ts'
import { type WorkflowJob, type WorkflowStep, workflows } from '../project-files/workflows.ts'
import { aptPackagesIn, shellCommands, shellLines } from './shell-lines.ts'

function inDirectory({ workingDirectory }: WorkflowStep, command: string): string {
  const directory = workingDirectory.includes('${{') ? '' : (pathInProject('', workingDirectory) ?? '')
  return directory === '' ? command : `(cd ${shellWord(directory)} && ${command})`
}

/** Steps for other machines are left out. */
function packagesOfJob(file: string, { steps }: WorkflowJob): FoundPackage[] {
  return steps
    .filter(({ condition }) => condition === '' || /linux|ubuntu/i.test(condition))
    .flatMap((step) =>
      aptPackagesIn(step.run).map(({ name, said }) => ({
        name,
        evidence: { file, line: step.line('run'), said: shortQuote(said) },
      })),
    )
}

const WORTHWHILE_JOB = /test|check|ci\b|build|lint|unit|spec/i
const OTHER_JOB =
  /release|deploy|publish|docs?\b|pages|docker|cross|windows|macos|bench|fuzz|coverage-report|nightly|wasm|android|ios|arm/i

/** Debian packages that test jobs install. */
export function ciPackages(tree: FileTree): readonly FoundPackage[] {
  const packages = workflows(tree).flatMap(({ file, jobs }) =>
    OTHER_JOB.test(file.slice(file.lastIndexOf('/')))
      ? []
      : jobs
          .filter(
            ({ id, name }) =>
              WORTHWHILE_JOB.test(`${id} ${name} ${file}`) && !OTHER_JOB.test(`${id} ${name}`),
          )
          .flatMap((job) => packagesOfJob(file, job)),
  )
  return distinctPackages(packages)
}

const TESTS =
  /^(?:npm (?:t|test|run test\S*)|pnpm (?:run )?test\S*|yarn (?:run )?test\S*|bun (?:run )?test\S*|npx (?:vitest|jest|mocha)\b|(?:python3? -m )?(?:pytest|unittest|tox|nox)\b|(?:poetry|uv|pdm|pipenv|hatch) run (?:pytest|test|tox|nox|python -m pytest)\b|hatch test\b|python3? manage\.py test|go test\b|cargo (?:nextest run|test)\b|(?:make|just|task|ninja) (?:\S+ )?(?:test|tests|check)\b|(?:mvn|\.\/mvnw)\b.* (?:test|verify)\b|(?:gradle|\.\/gradlew)\b.* (?:test|check|build)\b|(?:bundle exec )?(?:rspec|rake test|rails test|rake spec)\b|(?:\.\/)?bin\/(?:rails test|rspec)\b|(?:\.\/)?vendor\/bin\/(?:phpunit|pest)\b|composer (?:run )?test|php artisan test|mix test\b|dotnet test\b|deno (?:task )?test\b|ctest\b|meson test\b|sbt\b.*\btest\b|swift test\b|zig build test\b|bats\b)/

/** The test command of a CI workflow, used if nothing else has one. */
export function ciTestCommand(tree: FileTree): FoundCommand | undefined {
  const jobs = workflows(tree).flatMap(({ file, jobs }) => jobs.map((job) => ({ file, job })))
  const rank = ({ id, name }: WorkflowJob): number => {
    if (OTHER_JOB.test(`${id} ${name}`)) return 9
    if (/^(?:unit[-_ ]?)?tests?$/i.test(id) || /^(?:unit )?tests?$/i.test(name)) return 0
    if (/test/i.test(`${id} ${name}`)) return 1
    return /^(?:ci|build|check|verify|main)$/i.test(id) ? 2 : 3
  }
  const ranked = jobs.filter(({ job }) => rank(job) < 9).toSorted((a, b) => rank(a.job) - rank(b.job))
  for (const { file, job } of ranked)
    for (const step of job.steps)
      for (const { text } of shellLines(step.run)) {
        const isPlain = !text.includes('${{') && shellCommands(text).some((command) => TESTS.test(command))
        if (isPlain)
          return {
            run: inDirectory(step, text),
            evidence: { file, line: step.line('run'), said: shortQuote(`run: ${text}`) },
          }
      }
  return undefined
}
