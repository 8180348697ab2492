/** The scripts are run by this machine's own /bin/sh, with commands of the test. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { lifecyclePlan } from '../../devcontainer/lifecycle.ts'
import { stagesScript, startScript } from './lifecycle-script.ts'

const home = mkdtempSync(join(tmpdir(), 'agentpod-lifecycle-'))
after(() => rmSync(home, { recursive: true }))

function parts(entries: Parameters<typeof lifecyclePlan>[0]): Parameters<typeof stagesScript>[0] {
  return { lifecycle: lifecyclePlan(entries), file: 'x/devcontainer.json', workspace: home }
}

function run(script: string | undefined): { readonly status: number | null; readonly output: string } {
  const { status, stdout, stderr } = spawnSync('/bin/sh', ['-c', script ?? 'exit 99'], {
    env: { PATH: process.env['PATH'], HOME: home },
    encoding: 'utf8',
  })
  return { status, output: stdout + stderr }
}

test('DC-23 commands in text, as lists and at the same time run in their order, in the workspace', () => {
  const script = stagesScript(
    parts([
      { id: 'a-feature', onCreateCommand: 'echo "first of all"; pwd' },
      {
        onCreateCommand: ['printf', '%s\n', '$HOME is text'],
        updateContentCommand: { a: 'echo a', b: 'echo b' },
      },
    ]),
    ['onCreateCommand', 'updateContentCommand'],
  )
  const { status, output } = run(script)
  assert.equal(status, 0)
  const lines = output.trim().split('\n')
  assert.deepEqual(lines.slice(0, 3), ['first of all', home, '$HOME is text'])
  assert.deepEqual(lines.slice(3).sort(), ['a', 'b'])
  assert.equal(stagesScript(parts([{ onCreateCommand: '' }]), ['onCreateCommand']), undefined)
})

test('DC-24 the first failure ends the stages, after commands that run at the same time have ended', () => {
  const slow = join(home, 'slow')
  const failing = stagesScript(
    parts([
      {
        onCreateCommand: { bad: 'exit 3', worse: 'exit 4', slow: `sleep 0.2; touch ${slow}` },
        updateContentCommand: 'echo later',
      },
    ]),
    ['onCreateCommand', 'updateContentCommand'],
  )
  assert.deepEqual(run(failing), {
    status: 3,
    output: 'agentpod: failed: onCreateCommand "bad" of x/devcontainer.json, with exit code 3\n',
  })
  assert.equal(existsSync(slow), true)
  const other = stagesScript(parts([{ id: 'some-feature', postStartCommand: ['false'] }]), [
    'postStartCommand',
  ])
  assert.match(run(other).output, /postStartCommand of the Feature or image some-feature, with exit code 1/)
})

test('DC-23 the script of a start creates once, and starts each time', () => {
  const created = startScript(
    parts([{ postCreateCommand: 'echo create >> log', postStartCommand: 'echo start >> log' }]),
    [],
  )
  assert.equal(run(created).status, 0)
  assert.equal(run(created).status, 0)
  assert.equal(readFileSync(join(home, 'log'), 'utf8'), 'create\nstart\nstart\n')
  assert.equal(startScript(parts([]), []), undefined)
})

test('DC-23 a person does not wait for stages in the background, which still run in their order', async () => {
  const script = startScript(parts([{ postStartCommand: 'sleep 0.3; echo begun > begun; exit 5' }]), [
    'postStartCommand',
  ])
  assert.equal(run(script).status, 0)
  assert.equal(existsSync(join(home, 'begun')), false)
  const end = performance.now() + 5000
  const log = join(home, '.agentpod-lifecycle.log')
  const isOver = (): boolean => existsSync(log) && readFileSync(log, 'utf8').includes('exit code 5')
  while (!isOver() && performance.now() < end) await new Promise((resolve) => setTimeout(resolve, 50))
  assert.equal(isOver(), true)
})
