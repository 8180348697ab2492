import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, test } from 'node:test'
import { detect } from '../../config/detect/detect.ts'
import { listProject } from '../../sync/project-files.ts'
import { readDevcontainer } from '../devcontainer/read-devcontainer.ts'
import { treeOf } from '../environment/detect-project.ts'
import { composePlan } from './compose-plan.ts'
import { type ComposeCandidate, type ComposeChoice, usedCompose } from './used-compose.ts'

const root = mkdtempSync(join(tmpdir(), 'agentpod-used-'))
after(() => rmSync(root, { recursive: true, force: true }))

async function project(files: Readonly<Record<string, string>>): Promise<ComposeCandidate> {
  const directory = mkdtempSync(join(root, 'project-'))
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(directory, file)), { recursive: true })
    writeFileSync(join(directory, file), text)
  }
  const listed = await listProject({ directory, exclude: [], env: process.env })
  return { directory, tree: treeOf({ directory, files: listed }) }
}

const WEB = 'services:\n  web: { build: . }\n  db: { image: x, profiles: [more] }\n'
const quiet = (): void => undefined

test('CMP-17 an option about a compose file that would have no effect is refused with the reason', async () => {
  const plain = { 'compose.yaml': WEB }
  const cases: readonly (readonly [Readonly<Record<string, string>>, ComposeChoice, RegExp])[] = [
    [plain, { base: 'debian' }, /--base decides what the sandbox is/],
    [plain, { image: 'x' }, /--image decides what the sandbox is/],
    [plain, { compose: { isOff: true } }, /--no-compose leaves the compose file out/],
    [{ ...plain, 'agentpod.toml': '' }, {}, /agentpod\.toml decides/],
    [{ 'README.md': '' }, {}, /there is no compose\.yaml here/],
  ]
  for (const [files, choice, why] of cases) {
    const candidate = await project(files)
    for (const [option, given] of [
      ['--service', { service: 'web' }],
      ['--compose-profile', { profiles: ['more'] }],
    ] as const)
      assert.throws(
        () => usedCompose(candidate, { ...choice, compose: { ...choice.compose, ...given } }, quiet),
        (error: Error & { code?: string; hint?: string }) =>
          error.code === 'invalid_argument' &&
          error.message.startsWith(`${option} has no effect: `) &&
          why.test(error.message) &&
          error.hint !== undefined,
        `${option} ${why}`,
      )
    // Without the options nothing is refused.
    usedCompose(candidate, choice, quiet)
  }
  const helpers = await project({ 'compose.yaml': 'services: { db: { image: x } }' })
  assert.throws(
    () => usedCompose(helpers, { compose: { profiles: ['more'] } }, quiet),
    /no service of the compose file is the project itself/,
  )
  const used = usedCompose(await project(plain), { compose: { service: 'web', profiles: ['more'] } }, quiet)
  assert.equal(used?.compose.services.length, 2)
})

test('CMP-17 a devcontainer that is no service of a compose file refuses the options', async () => {
  const { directory, tree } = await project({
    'compose.yaml': WEB,
    '.devcontainer.json': '{ "image": "x" }',
  })
  const read = (service: string | undefined): unknown =>
    readDevcontainer({ env: {} }, { directory, name: 'p' }, tree, { compose: { service } })
  assert.throws(() => read('web'), /--service has no effect: \.devcontainer\.json is no service/)
  assert.ok(read(undefined))
})

test('CMP-15 with --no-devcontainer the sandbox is the service alone, and nothing of the devcontainer', async () => {
  const candidate = await project({
    'compose.yaml': WEB,
    Dockerfile: 'FROM x\n',
    '.devcontainer.json': '{ "image": "y" }',
  })
  const found = usedCompose(candidate, { isWithoutDevcontainer: true }, quiet)
  assert.ok(found)
  const { isWithoutDevcontainer, approvedBase } = composePlan(found, detect(candidate.tree))
  assert.equal(isWithoutDevcontainer, true)
  assert.equal(approvedBase?.dockerfile?.file, 'Dockerfile')
})
