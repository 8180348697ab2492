/**
 * Findings of the outside verification about git, one case for each id. The attacks are in
 * `test/attack/git.test.ts`.
 */
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { AcpUser } from '../support/acp-user.ts'
import { World } from '../support/world.ts'

const world = new World()
let user: AcpUser
before(() => {
  user = AcpUser.with(world)
})
after(() => world[Symbol.asyncDispose]())

test('S1: a bare repository in a result is no part of the branch, and git runs nothing of it here', async () => {
  const { project } = user
  const proof = join(project.home, 'owned')
  const settings = `[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tworktree = ..\\n\\tfsmonitor = touch ${proof};\\n`
  const plant = `mkdir -p docs/objects docs/refs; echo x | tee docs/objects/x > docs/refs/x; echo 'ref: refs/heads/main' > docs/HEAD; printf '${settings}' > docs/config`
  const { result, id } = await user.work(`sh ${plant}; echo done > done.txt`)
  assert.deepEqual(user.changed(result.branch ?? ''), ['done.txt'])
  assert.deepEqual(result.leftOut.toSorted(), ['docs/HEAD', 'docs/config', 'docs/objects/x', 'docs/refs/x'])
  await user.ok(['apply', id])
  assert.equal(readFileSync(join(project.root, 'done.txt'), 'utf8'), 'done\n')
  const status = (): void => void project.tryGit('-C', 'docs', 'status')
  mkdirSync(join(project.root, 'docs'), { recursive: true })
  status()
  assert.ok(!existsSync(proof), 'git runs nothing in the directory')
  await user.ok(['apply', '--with-executables', id])
  status()
  assert.ok(existsSync(proof), 'the control: with a yes it is there, and git runs it')
})

test('S1: `cp` says that a directory from a sandbox is a git repository', async () => {
  const name = (await user.ok(['create', '--name', 'cp-box'])).trim()
  await user.ok(['exec', name, '--', 'sh', '-c', 'git init -q --bare /tmp/out/inner'])
  const { code, stderr } = await user.cli(['cp', `${name}:/tmp/out`, join(user.project.home, 'copied')])
  assert.equal(code, 0, stderr)
  assert.match(stderr, /copied\/inner is a git repository from the sandbox/)
})
