import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { readCompose } from '../../compose/compose-project.ts'
import { type MainCommand, mainCommand } from './main-command.ts'

function command(said: string, image: { entrypoint?: string[]; command?: string[] } = {}): MainCommand {
  const [service] = readCompose({
    files: ['c.yml'],
    read: (file) => TEXTS[file]?.replace('SAID', said),
  }).services
  assert.ok(service)
  const { entrypoint = [], command: words = [] } = image
  return mainCommand(service, { entrypoint, command: words, user: undefined, workdir: '/image' })
}

const TEXTS: Readonly<Record<string, string>> = { 'c.yml': 'services:\n  app: { image: a, SAID }\n' }

describe('the command of the service that people work in', () => {
  test('DC-41 is that of the file, then that of the image, in the same place as with Docker', () => {
    assert.equal(command('command: serve "a b"').service?.run, "exec serve 'a b'")
    assert.equal(command('command: x', { entrypoint: ['/e'], command: ['y'] }).service?.run, 'exec /e x')
    assert.equal(command('restart: always', { command: ['y', 'z'] }).service?.run, 'exec y z')
    assert.equal(command('command: x').service?.workdir, '/image')
    assert.equal(command('command: x, working_dir: /w').service?.workdir, '/w')
  })

  test('DC-41 a shell is not started, and nothing waits for a check of health; notes say so', () => {
    const shell = command('restart: always', { command: ['/bin/bash'] })
    assert.equal(shell.service, undefined)
    assert.match(shell.notes.join(), /^c\.yml:2: the command of app is a shell/)
    assert.equal(command('restart: always').service, undefined)
    const checked = command('command: x, healthcheck: { test: curl localhost }')
    assert.deepEqual(checked.service?.ready, { timeoutMs: 60_000 })
    assert.match(checked.notes.join(), /healthcheck of app is not used/)
  })
})
